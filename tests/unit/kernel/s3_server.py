"""Starts a real S3 server in its own process, on a free local port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KEYS = {"s3.access-key-id": "test-key", "s3.secret-access-key": "test-secret", "client.region": "us-east-1"}


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Yields the properties with which Iceberg's S3FileIO would connect to the server."""
    log = folder / "s3.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        endpoint = _wait_for_endpoint(process, log)
        yield {**KEYS, "s3.endpoint": endpoint, "s3.path-style-access": "true"}
    finally:
        process.terminate()
        process.wait(30)


def _wait_for_endpoint(process: subprocess.Popen[bytes], log: Path) -> str:
    while True:
        found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text("utf-8", "replace"))
        if found:
            return found[0]
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"the S3 server ended: {log.read_text('utf-8', 'replace')}")
