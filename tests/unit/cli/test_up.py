"""The commands that serve, and those around keys."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from icepack.store.backend import Stores, open_stores

from .conftest import Call


@pytest.fixture
def stores(lake: Path, tmp_path: Path) -> Stores:
    opened = open_stores(f"sqlite:///{tmp_path}/state/icepack/state.db")
    yield opened
    opened.close()


class TestKeys:
    def test_a_key_is_shown_once_and_listed_without_its_secret(self, call: Call, stores: Stores) -> None:
        made = call("keys", "create", "ci", "--role", "operator", "--scope", "lake.sales*", "--expires", "90d")
        assert made.code == 0, made.err
        text = made.out.strip()
        assert text.startswith("ipk_")
        listed = call("keys", "list", "--format", "json")
        assert text.rpartition("_")[2] not in listed.out
        (key,) = listed.json["keys"]
        assert (key["name"], key["role"], key["scopes"], key["state"]) == ("ci", "operator", ["lake.sales*"], "valid")
        assert "ci" in call("keys", "list").out
        assert [entry.action for entry in stores.audit.entries()] == ["keys.create"]

    def test_a_revoked_key_says_so(self, call: Call, stores: Stores) -> None:
        call("keys", "create", "ci")
        assert "is revoked" in call("keys", "revoke", "ci").out
        assert call("keys", "list", "--format", "json").json["keys"][0]["state"] == "revoked"
        assert call("keys", "revoke", "ci").code == 2

    def test_a_name_is_taken_once(self, call: Call, stores: Stores) -> None:
        assert call("keys", "create", "ci", "--format", "json").json["name"] == "ci"
        assert call("keys", "create", "ci").code == 2

    @pytest.mark.parametrize("arguments", [("--scope", "."), ("--scope", "a b"), ("--expires", "soon")])
    def test_what_is_no_scope_or_span_is_refused(self, call: Call, stores: Stores, arguments: tuple[str, str]) -> None:
        assert call("keys", "create", "ci", *arguments).code == 2
        assert stores.keys.list_keys() == []

    def test_there_are_none_at_first(self, call: Call, stores: Stores) -> None:
        assert "no keys" in call("keys", "list").out


class TestServing:
    @pytest.mark.parametrize("command", ["api", "up"])
    def test_open_to_the_world_without_keys_is_refused(self, call: Call, lake: Path, command: str) -> None:
        answer = call(command, "--host", "0.0.0.0")
        assert answer.code == 2
        assert "without authentication" in answer.err

    def test_a_port_that_is_taken_is_said(self, call: Call, lake: Path) -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            answer = call("api", "--port", str(holder.getsockname()[1]))
        assert answer.code == 1
        assert "cannot listen" in answer.err

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
    def test_it_serves_until_it_is_told_to_stop(self, lake: Path, tmp_path: Path, number: int, code: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "icepack.cli.main", "up", "--port", str(port), "--without", "worker"]
        process = subprocess.Popen(command, cwd=tmp_path, env=dict(os.environ), stderr=subprocess.PIPE, text=True)
        try:
            self.wait_for_tables(process, f"http://127.0.0.1:{port}/api/v1/tables")
            process.send_signal(number)
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
            process.wait()
        assert process.returncode == code, said
        assert "Serving on" in said
        assert "Stopping." in said

    def wait_for_tables(self, process: subprocess.Popen[str], url: str) -> None:
        """Health sync finds the two that are not internal."""
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            try:
                if httpx.get(url).json()["total"] == 2:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise AssertionError("no tables were found")
