"""Provides the jars that Spark needs: pinned by checksum, downloaded once, and kept on disk."""

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

FETCH_TIMEOUT_SECONDS = 1800
_FETCH_REMEDY = (
    "Fix that and run 'icepack jars fetch', or set spark.ivy_settings to the Ivy settings of a mirror, "
    "or spark.jars to a folder that has the jars."
)
# Patterns in the output of Ivy, with the reason that they stand for.
_FAILURE_REASONS = (
    ("PKIX path", "the server's certificate is not trusted (set SSL_CERT_FILE to the trusted authorities)"),
    ("No space left", "the disk is full"),
    ("Host .* not found|Unknown ?[Hh]ost|Network is unreachable", "the network is not available"),
    ("refused|timed out|[Ss]erver access error", "the repository did not answer"),
    ("not found", "the repository does not have them"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One jar of the lock file."""

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
    """The version of the Iceberg runtime for Spark that icepack uses."""
    return next((jar.version for jar in locked_jars() if jar.artifact.startswith("iceberg-spark-runtime")), "")


def locked_jars() -> tuple[Jar, ...]:
    """The jars that icepack was tested with."""
    text = importlib.resources.files("icepack.engine.java").joinpath("jars.lock.json").read_text()
    return tuple(Jar(**entry) for entry in json.loads(text)["jars"])


@dataclass(frozen=True, slots=True, kw_only=True)
class JarStore:
    """Provides jars from the cache folder, or from a folder that the user configured.

    In a configured folder (`spark.jars`) the locked file name is preferred, and such a file must have the locked
    checksum: the same name with different content means that the file is damaged or was replaced. A file name with
    another version of the same artifact is the user's choice, so its content is not checked. Nothing is downloaded if a
    folder is configured.
    """

    folder: Path
    java: Java
    environ: Mapping[str, str]
    own_folder: Path | None = None
    ivy_settings: Path | None = None
    announce: Callable[[str], None] = field(default=lambda _: None)
    jars: Sequence[Jar] = field(default_factory=locked_jars)

    def ensure(self, purposes: Collection[str]) -> list[Path]:
        """Returns the jars for these purposes, and downloads those that are missing."""
        required = [jar for jar in self.jars if jar.purpose in purposes]
        if self.own_folder is not None:
            return [self._find_configured(jar, self.own_folder) for jar in required]
        if self._missing(required):
            self._fetch(required)
        return [self.folder / jar.file_name for jar in required]

    def _missing(self, required: Sequence[Jar]) -> list[Jar]:
        return [jar for jar in required if not self._is_valid(self.folder / jar.file_name, jar)]

    def _find_configured(self, jar: Jar, folder: Path) -> Path:
        path = folder / jar.file_name
        if not path.exists():
            return _find_other_version(jar, folder)
        if not self._is_valid(path, jar):
            raise EnvironmentFault(
                f"'{path}' is not the {jar.file_name} that icepack was tested with: the checksum differs.",
                "Copy it again, or give it another version in its name if it was changed on purpose.",
            )
        return path

    def _fetch(self, required: Sequence[Jar]) -> None:
        with _wrap_write_errors(self.folder), _fetch_lock(self.folder):
            missing = self._missing(required)
            if not missing:
                return
            size = format_size(sum(jar.size_bytes for jar in missing))
            self.announce(f"Downloading {_file_names(missing)} ({size}), only once …")
            for leftover in self.folder.glob(".fetch-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".fetch-") as scratch:
                self._run_ivy(missing, Path(scratch))
                for jar in missing:
                    self._verify_and_keep(jar, Path(scratch) / jar.file_name)

    def _verify_and_keep(self, jar: Jar, fetched: Path) -> None:
        if not fetched.exists() or _sha256(fetched) != jar.sha256:
            raise EnvironmentFault(
                f"The downloaded {jar.file_name} is not the one that icepack was tested with: the checksum differs.",
                "Check the mirror in spark.ivy_settings, then run 'icepack jars fetch' again.",
            )
        kept = self.folder / jar.file_name
        fetched.replace(kept)
        self._is_valid(kept, jar)

    def _run_ivy(self, jars: Sequence[Jar], scratch: Path) -> None:
        (scratch / "ivy.xml").write_text(_ivy_module(jars))
        settings = ["-settings", str(self.ivy_settings.absolute())] if self.ivy_settings else []
        network = [*trust_options(self.environ, scratch), *_proxy_options(self.environ)]
        # Paths are relative to the scratch folder, because Ivy reads brackets in a path as a pattern.
        retrieve = ["-ivy", "ivy.xml", "-cache", "cache", "-types", "jar", "-retrieve", "[artifact]-[revision].[ext]"]
        command = [str(self.java.binary), *network, "-jar", str(_ivy_jar()), "-warn", *settings, *retrieve]
        try:
            process = subprocess.run(
                command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as exc:
            raise _fetch_error(jars, "it took longer than half an hour") from exc
        if process.returncode != 0:
            raise _fetch_error(jars, _reason(process.stdout + process.stderr))

    def _is_valid(self, path: Path, jar: Jar) -> bool:
        """Checks the checksum; computes it again only if the file's size or modification time has changed."""
        if not path.is_file() or path.stat().st_size != jar.size_bytes:
            return False
        fingerprint = [path.stat().st_mtime_ns, jar.sha256]
        verified = self._read_verified()
        if verified.get(str(path)) == fingerprint:
            return True
        if _sha256(path) != jar.sha256:
            return False
        with suppress(OSError):
            _write_json(self.folder / "checked.json", {**verified, str(path): fingerprint})
        return True

    def _read_verified(self) -> dict[str, list[object]]:
        try:
            return dict(json.loads((self.folder / "checked.json").read_text()))
        except (OSError, ValueError):
            return {}


def _find_other_version(jar: Jar, folder: Path) -> Path:
    pattern = re.compile(re.escape(jar.artifact) + r"-\d[^/]*(?<!-sources)(?<!-javadoc)(?<!-tests)\.jar")
    found = sorted(path for path in folder.glob("*.jar") if pattern.fullmatch(path.name))
    if len(found) == 1:
        return found[0]
    what = f"several versions of {jar.artifact}" if found else f"no {jar.file_name}"
    raise EnvironmentFault(
        f"spark.jars ('{folder}') has {what}.", f"Keep exactly one of them there, preferably {jar.file_name}."
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_json(path: Path, content: object) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as scratch:
        json.dump(content, scratch)
    Path(scratch.name).replace(path)


@contextmanager
def _wrap_write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise EnvironmentFault(
            f"Cannot write the jars to '{folder}': {exc.strerror}.",
            "Make the folder writable and run 'icepack jars fetch', or set spark.jars to a folder that has the jars.",
        ) from exc


@contextmanager
def _fetch_lock(folder: Path) -> Iterator[None]:
    """Lets one process download at a time; the others wait and then find the jars."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ivy_jar() -> Path:
    """Finds Apache Ivy, which is part of Spark; its default settings use Maven Central."""
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations or [] if spec else []
    found = [jar for folder in folders for jar in Path(folder).glob("jars/ivy-*.jar")]
    if not found:
        raise EnvironmentFault(
            "The installed pyspark does not contain Apache Ivy.", "Install pyspark 4.1.4, or set spark.jars."
        )
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
    """Converts the proxy variables of the environment into Java system properties."""
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


def _file_names(jars: Sequence[Jar]) -> str:
    return ", ".join(jar.file_name for jar in jars)


def _reason(output: str) -> str:
    return next((reason for pattern, reason in _FAILURE_REASONS if re.search(pattern, output)), "Ivy failed")


def _fetch_error(jars: Sequence[Jar], reason: str) -> EnvironmentFault:
    return EnvironmentFault(f"Could not download {_file_names(jars)}: {reason}.", _FETCH_REMEDY)
