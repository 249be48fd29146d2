"""The api and up commands."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import httpx
import pytest

from icepack.cli.commands.serve import _worker_command
from icepack.cli.main import cli

from .conftest import Call


@pytest.mark.parametrize("command", ["api", "up"])
def test_listening_on_all_interfaces_without_authentication_is_refused(call: Call, lake: Path, command: str) -> None:
    answer = call(command, "--host", "0.0.0.0")
    assert answer.code == 2
    assert "without authentication" in answer.err


def test_a_port_in_use_is_reported(lake: Path, tmp_path: Path) -> None:
    """In a process of its own: the server needs an event loop, and a browser test may have one in this process."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        command = [sys.executable, "-m", "icepack.cli.main", "api", "--port", str(holder.getsockname()[1])]
        answer = subprocess.run(
            command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False
        )
    assert answer.returncode == 1
    assert "cannot listen" in answer.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_serves_until_it_is_stopped(lake: Path, tmp_path: Path, number: int, code: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "icepack.cli.main", "up", "--port", str(port), "--without", "worker"]
    process = subprocess.Popen(command, cwd=tmp_path, env=dict(os.environ), stderr=subprocess.PIPE, text=True)
    try:
        wait_for_tables(process, f"http://127.0.0.1:{port}/api/v1/tables")
        process.send_signal(number)
        output = process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, output
    assert "Serving on" in output
    assert "Stopping." in output


def wait_for_tables(process: subprocess.Popen[str], url: str) -> None:
    """Waits until health sync has found the two tables that are not internal."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(url).json()["total"] == 2:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise AssertionError("no tables were found")


def test_the_worker_gets_the_settings_and_the_log_format() -> None:
    options = {"config_file": "lake.yaml", "settings": ("server.port=1",), "log_format": "json"}
    command = _worker_command(click.Context(click.Command("up"), obj=options))
    given = command[command.index("icepack.cli.main") + 1 :]
    assert given[-3:] == ["worker", "--loop", "--attached"]
    parsed = cli.make_parser(click.Context(cli)).parse_args(list(given))[0]
    assert (parsed["log_format"], parsed["config_file"], list(parsed["settings"])) == (
        "json",
        "lake.yaml",
        ["server.port=1"],
    )
