"""The real server as a process of its own, over a lake that is there already."""

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

PATIENCE_SECONDS = 180.0


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
        self._mark = str(config)
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "icepack.cli.main", "--config", str(config), *command],
                stdout=output,
                stderr=output,
                env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
                start_new_session=True,
            )

    def wait(self) -> None:
        self.until(self._answers, "The server's first answer")

    def until(self, condition: Any, what: str) -> Any:
        end = time.monotonic() + PATIENCE_SECONDS
        while not (found := condition()):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"{what} did not come:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.1)
        return found

    def end(self) -> None:
        for pid in [self.process.pid, *self._children()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def _children(self) -> list[int]:
        """Its worker, by the line that it was started with."""
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdecimal() and self._mark in (path / "cmdline").read_text():
                    found.append(int(path.name))
        return [pid for pid in found if pid != self.process.pid]
