"""The fake S3 server returns what a real client wrote, and counts every request."""

from __future__ import annotations

import pytest
from benchmarks.compaction.fake_s3 import NAME, Server, run_server
from pyarrow import fs

# More than PyArrow uploads in one part.
MULTIPART_BYTES = 12 * 2**20


def client(server: Server) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key="a", secret_key="b", region="us-east-1", scheme="http", endpoint_override=server.endpoint[7:]
    )


@pytest.mark.parametrize("size", [10, MULTIPART_BYTES])
def test_written_data_is_read_back_and_counted(size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"0123456789"
    with run_server() as server:
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


def test_a_missing_object_is_not_found() -> None:
    with run_server() as server, pytest.raises(FileNotFoundError):
        client(server).open_input_file(f"{NAME}/nothing")
