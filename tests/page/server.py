"""Runs the real server in its own process, on an existing lake."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import yaml

TIMEOUT_SECONDS = 180.0


class Server:
    def __init__(self, folder: Path, settings: dict[str, Any], command: tuple[str, ...] = ("api",)) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        config = folder / f"icepack-{port}.yaml"
        config.write_text(yaml.safe_dump({**settings, "server": {"port": port, "requests_per_second": 0}}))
        self.log = folder / f"server-{port}.log"
        self._config = str(config)
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "icepack.cli.main", "--config", str(config), *command],
                stdout=output,
                stderr=output,
                env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
                start_new_session=True,
            )

    def wait(self) -> None:
        self.wait_until(self._is_ready, "The first response of the server")

    def wait_until(self, condition: Any, what: str) -> Any:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not (found := condition()):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"{what} did not arrive:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.1)
        return found

    def stop(self) -> None:
        for pid in [self.process.pid, *self._children()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/health", timeout=5) as response:
                return bool(response.status == 200)
        except (URLError, OSError):
            return False

    def _children(self) -> list[int]:
        """Process ids of the worker, found by the configuration file in their command line."""
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdecimal() and self._config in (path / "cmdline").read_text():
                    found.append(int(path.name))
        return [pid for pid in found if pid != self.process.pid]
