"""The jars Spark needs: locked by checksum, fetched once, kept, never looked up again."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.resources
import importlib.util
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from icepack.domain.units import format_size
from icepack.engine.java.runtime import Java, trust_options
from icepack.errors import EnvironmentFault

FETCH_SECONDS = 1800
_AGAIN = (
    "Put that right and run 'icepack jars fetch', or name a mirror's Ivy settings in spark.ivy_settings, "
    "or a folder that has the jars in spark.jars."
)
_REASONS = (
    ("PKIX path", "the server's certificate is not trusted (SSL_CERT_FILE names the authorities that are)"),
    ("No space left", "the disk is full"),
    ("Host .* not found|Unknown ?[Hh]ost|Network is unreachable", "there is no network"),
    ("refused|timed out|[Ss]erver access error", "the repository did not answer"),
    ("not found", "the repository does not have them"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One jar of the lock."""

    group: str
    artifact: str
    version: str
    purpose: str
    size_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def iceberg_version() -> str:
    """Of the runtime that icepack brings."""
    return next((jar.version for jar in locked_jars() if jar.artifact.startswith("iceberg-spark-runtime")), "")


def locked_jars() -> tuple[Jar, ...]:
    """Every jar that icepack was tried with."""
    text = importlib.resources.files("icepack.engine.java").joinpath("jars.lock.json").read_text()
    return tuple(Jar(**entry) for entry in json.loads(text)["jars"])


@dataclass(frozen=True, slots=True, kw_only=True)
class JarStore:
    """Hands out jars from the folder they are kept in, or from a site's own folder.

    In a site's own folder (`spark.jars`) the locked file name is preferred and must have the locked
    checksum: the same name with other bytes is a broken or a foreign file. A file that says it is
    another version of the same artifact is the site's own choice and is taken as it is. Nothing is
    fetched then.
    """

    folder: Path
    java: Java
    environ: Mapping[str, str]
    own_folder: Path | None = None
    ivy_settings: Path | None = None
    announce: Callable[[str], None] = field(default=lambda _: None)
    jars: Sequence[Jar] = field(default_factory=locked_jars)

    def ensure(self, purposes: Collection[str]) -> list[Path]:
        """The jars for these purposes, fetched if they are not there yet."""
        wanted = [jar for jar in self.jars if jar.purpose in purposes]
        if self.own_folder is not None:
            return [self._own(jar, self.own_folder) for jar in wanted]
        if self._missing(wanted):
            self._fetch(wanted)
        return [self.folder / jar.file_name for jar in wanted]

    def _missing(self, wanted: Sequence[Jar]) -> list[Jar]:
        return [jar for jar in wanted if not self._is_good(self.folder / jar.file_name, jar)]

    def _own(self, jar: Jar, folder: Path) -> Path:
        path = folder / jar.file_name
        if not path.exists():
            return _other_version(jar, folder)
        if not self._is_good(path, jar):
            raise EnvironmentFault(
                f"'{path}' is not the {jar.file_name} that icepack was tried with: its checksum is another.",
                "Copy it again, or rename it after the version it is if it was changed on purpose.",
            )
        return path

    def _fetch(self, wanted: Sequence[Jar]) -> None:
        with _writing(self.folder), _turn(self.folder):
            missing = self._missing(wanted)
            if not missing:
                return
            size = format_size(sum(jar.size_bytes for jar in missing))
            self.announce(f"Fetching {_names(missing)} ({size}), once …")
            for left_over in self.folder.glob(".fetch-*"):
                shutil.rmtree(left_over, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".fetch-") as scratch:
                self._run_ivy(missing, Path(scratch))
                for jar in missing:
                    self._admit(jar, Path(scratch) / jar.file_name)

    def _admit(self, jar: Jar, fetched: Path) -> None:
        if not fetched.exists() or _sha256(fetched) != jar.sha256:
            raise EnvironmentFault(
                f"The {jar.file_name} that was fetched is not the one icepack was tried with: its checksum is another.",
                "Look at the mirror in spark.ivy_settings, then run 'icepack jars fetch' again.",
            )
        kept = self.folder / jar.file_name
        fetched.replace(kept)
        self._is_good(kept, jar)

    def _run_ivy(self, jars: Sequence[Jar], scratch: Path) -> None:
        (scratch / "ivy.xml").write_text(_ivy_module(jars))
        settings = ["-settings", str(self.ivy_settings.absolute())] if self.ivy_settings else []
        network = [*trust_options(self.environ, scratch), *_proxy_options(self.environ)]
        # Relative to the scratch folder: Ivy takes brackets in a path for a pattern.
        retrieve = ["-ivy", "ivy.xml", "-cache", "cache", "-types", "jar", "-retrieve", "[artifact]-[revision].[ext]"]
        command = [str(self.java.binary), *network, "-jar", str(_ivy_jar()), "-warn", *settings, *retrieve]
        try:
            ended = subprocess.run(
                command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as exc:
            raise _not_fetched(jars, "it took longer than half an hour") from exc
        if ended.returncode != 0:
            raise _not_fetched(jars, _reason(ended.stdout + ended.stderr))

    def _is_good(self, path: Path, jar: Jar) -> bool:
        """Whether the file has the locked checksum, computed once as long as size and time stay."""
        if not path.is_file() or path.stat().st_size != jar.size_bytes:
            return False
        fact = [path.stat().st_mtime_ns, jar.sha256]
        checked = self._checked()
        if checked.get(str(path)) == fact:
            return True
        if _sha256(path) != jar.sha256:
            return False
        with suppress(OSError):
            _write_json(self.folder / "checked.json", {**checked, str(path): fact})
        return True

    def _checked(self) -> dict[str, list[object]]:
        try:
            return dict(json.loads((self.folder / "checked.json").read_text()))
        except (OSError, ValueError):
            return {}


def _other_version(jar: Jar, folder: Path) -> Path:
    pattern = re.compile(re.escape(jar.artifact) + r"-\d[^/]*(?<!-sources)(?<!-javadoc)(?<!-tests)\.jar")
    found = sorted(path for path in folder.glob("*.jar") if pattern.fullmatch(path.name))
    if len(found) == 1:
        return found[0]
    what = f"several versions of {jar.artifact}" if found else f"no {jar.file_name}"
    raise EnvironmentFault(f"spark.jars ('{folder}') has {what}.", f"Leave exactly one there, best {jar.file_name}.")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_json(path: Path, content: object) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as scratch:
        json.dump(content, scratch)
    Path(scratch.name).replace(path)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise EnvironmentFault(
            f"The jars cannot be kept in '{folder}': {exc.strerror}.",
            "Make the folder writable and run 'icepack jars fetch', or name a folder that has the jars in spark.jars.",
        ) from exc


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """One process fetches at a time; the others wait and find the jars there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ivy_jar() -> Path:
    """Apache Ivy, which Spark carries; its default settings know the public Maven repository."""
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations or [] if spec else []
    found = [jar for folder in folders for jar in Path(folder).glob("jars/ivy-*.jar")]
    if not found:
        raise EnvironmentFault("This pyspark carries no Apache Ivy.", "Install pyspark 4.1.4, or set spark.jars.")
    return found[0]


def _ivy_module(jars: Sequence[Jar]) -> str:
    lines = (
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        'transitive="false" conf="default"/>'
        for jar in jars
    )
    info = '<info organisation="icepack" module="jars"/>'
    return f'<ivy-module version="2.0">{info}<dependencies>{"".join(lines)}</dependencies></ivy-module>'


def _proxy_options(environ: Mapping[str, str]) -> list[str]:
    """The proxy that other programs find in the environment, said in Java's way."""
    options = []
    for scheme in ("http", "https"):
        proxy = urlsplit(environ.get(f"{scheme}_proxy") or environ.get(f"{scheme}_proxy".upper()) or "")
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY")
    if options and exempt:
        hosts = [re.sub(r"^\.", "*.", host.strip()) for host in exempt.split(",")]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(['localhost', '127.*', *hosts])}")
    return options


def _names(jars: Sequence[Jar]) -> str:
    return ", ".join(jar.file_name for jar in jars)


def _reason(output: str) -> str:
    return next((reason for pattern, reason in _REASONS if re.search(pattern, output)), "Ivy failed")


def _not_fetched(jars: Sequence[Jar], reason: str) -> EnvironmentFault:
    return EnvironmentFault(f"{_names(jars)} could not be fetched: {reason}.", _AGAIN)
