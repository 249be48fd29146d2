"""The stand-in for S3 hands back what a real client gave it, and counts every request."""

from __future__ import annotations

import pytest
from benchmarks.compaction.bucket import NAME, Server, served
from pyarrow import fs

MULTIPART_BYTES = 12 * 2**20
"""More than PyArrow sends in one part."""


def client(server: Server) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key="a", secret_key="b", region="us-east-1", scheme="http", endpoint_override=server.endpoint[7:]
    )


@pytest.mark.parametrize("size", [10, MULTIPART_BYTES])
def test_what_was_written_is_read_again_and_counted(size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"0123456789"
    with served() as server:
        system = client(server)
        with system.open_output_stream(f"{NAME}/x") as sink:
            sink.write(content)
        with system.open_input_file(f"{NAME}/x") as file:
            assert file.read_at(10, len(content) - 10) == b"0123456789"
            assert file.readall() == content
        counted = server.bucket.requests
    assert counted["PUT"] >= 1
    assert counted["HEAD"] == 1
    assert counted["GET"] == 2


def test_what_is_not_there_is_not_found() -> None:
    with served() as server, pytest.raises(FileNotFoundError):
        client(server).open_input_file(f"{NAME}/nothing")
