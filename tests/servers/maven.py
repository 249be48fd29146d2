"""Downloads servers from Maven Central through Apache Ivy, which is part of PySpark, into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from icepack.config.folders import user_folder
from icepack.engine.java.jars import _ivy_jar, _proxy_options
from icepack.engine.java.runtime import find_java, trust_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file of a Maven repository."""

    group: str
    name: str
    version: str
    sha256: str
    ext: str = "jar"
    classifier: str = ""

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.ext}"


def downloads_folder() -> Path:
    """The folder that keeps downloaded servers between test sessions."""
    folder = user_folder("cache", os.environ) / "test-servers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def download(*artifacts: Artifact) -> list[Path]:
    """Returns the files, and downloads those that are missing."""
    folder = downloads_folder()
    with download_lock(folder):
        for artifact in artifacts:
            if not (folder / artifact.file_name).exists():
                _download(artifact, folder)
    return [folder / artifact.file_name for artifact in artifacts]


@contextmanager
def download_lock(folder: Path) -> Iterator[None]:
    """Lets one process download at a time; the others wait and then find the files."""
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(artifact: Artifact, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as name:
        scratch = Path(name)
        (scratch / "ivy.xml").write_text(_ivy_module(artifact))
        network = [*trust_options(os.environ, scratch), *_proxy_options(os.environ)]
        java = find_java(None, os.environ).binary
        retrieve = ["-ivy", "ivy.xml", "-cache", "cache", "-types", artifact.ext, "-retrieve", "[artifact].[ext]"]
        command = [str(java), *network, "-jar", str(_ivy_jar()), "-warn", *retrieve]
        process = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        found = scratch / f"{artifact.name}.{artifact.ext}"
        if not found.exists():
            raise RuntimeError(f"Could not download {artifact.file_name}:\n{process.stdout}{process.stderr}")
        _check(artifact, found)
        shutil.move(found, folder / artifact.file_name)


def _check(artifact: Artifact, found: Path) -> None:
    with found.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != artifact.sha256:
        raise RuntimeError(f"{artifact.file_name} has the checksum {digest}, not {artifact.sha256}.")


def _ivy_module(artifact: Artifact) -> str:
    classifier = f' m:classifier="{artifact.classifier}"' if artifact.classifier else ""
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="icepack" module="tests"/><dependencies>'
        f'<dependency org="{artifact.group}" name="{artifact.name}" rev="{artifact.version}" transitive="false" '
        f'conf="default"><artifact name="{artifact.name}" type="{artifact.ext}" ext="{artifact.ext}"{classifier}/>'
        "</dependency></dependencies></ivy-module>"
    )
