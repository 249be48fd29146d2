"""An S3 server that checks its credentials: s3proxy over a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from icepack.engine.java.runtime import find_java

from .maven import Artifact, download
from .processes import ServerProcess, accepts_connections, find_free_port

BUCKET = "lake"
S3PROXY = Artifact(
    group="org.gaul",
    name="s3proxy",
    version="4.1.0",
    classifier="jar-with-dependencies",
    sha256="a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """The address and the keys of a running server; each folder below `folder` is a bucket."""

    port: int
    access_key_id: str
    secret_access_key: str
    folder: Path

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def properties(self, endpoint: str = "") -> dict[str, str]:
        """Returns the properties with which PyIceberg reaches the server, or a proxy in front of it."""
        return {
            "s3.endpoint": endpoint or self.endpoint,
            "s3.access-key-id": self.access_key_id,
            "s3.secret-access-key": self.secret_access_key,
            "s3.region": "us-east-1",
        }

    def keys(self, bucket: str = BUCKET) -> list[str]:
        """Lists the objects of a bucket without asking the server."""
        root = self.folder / bucket
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@contextmanager
def run_s3(folder: Path, *, buckets: tuple[str, ...] = (BUCKET,)) -> Iterator[S3Server]:
    """Runs s3proxy; PyArrow, Hadoop S3A and Iceberg's S3FileIO all work with it."""
    data = folder / "data"
    for bucket in buckets:
        (data / bucket).mkdir(parents=True)
    server = S3Server(
        port=find_free_port(), access_key_id=f"key{uuid4().hex}", secret_access_key=f"secret{uuid4().hex}", folder=data
    )
    settings = folder / "s3proxy.conf"
    settings.write_text(_settings(server))
    (jar,) = download(S3PROXY)
    java = find_java(None, os.environ).binary
    command = [java, "-Xmx256m", "-XX:+UseSerialGC", "-jar", jar, "--properties", settings]
    process = ServerProcess(command, folder=folder, log=folder / "s3proxy.log")
    try:
        process.wait_until(lambda: accepts_connections(server.port))
        yield server
    finally:
        process.stop()


def _settings(server: S3Server) -> str:
    values = {
        "s3proxy.endpoint": server.endpoint,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": server.access_key_id,
        "s3proxy.credential": server.secret_access_key,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.identity": "local",
        "jclouds.credential": "local",
        "jclouds.filesystem.basedir": str(server.folder),
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())
