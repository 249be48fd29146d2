"""Two processes of each kind run at the same time and are ended by SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from icepack.service.fleet.schedule_log import ACTOR, PASS
from icepack.store.backend import Stores

from .fakes import list_queued
from .test_fleet_commands import catalog  # noqa: F401

COMMANDS = (["scheduler"], ["orchestrate", "--loop"], ["health-sync"])
MAIN = "import sys; from icepack.cli.main import main; main(sys.argv[1:])"


def start(folder: Path, number: int, arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", MAIN, *arguments]
    with (folder / f"{number}.log").open("w") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)


def wait_for(what: Callable[[], object], seconds: float = 300.0) -> None:
    give_up_at = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < give_up_at, "timed out"
        time.sleep(0.2)


def test_two_processes_of_each_kind_share_the_work_and_stop_on_sigterm(
    catalog: SqlCatalog,  # noqa: F811
    stores: Stores,
    tmp_path: Path,
) -> None:
    running = [start(tmp_path, number, arguments) for number, arguments in enumerate((*COMMANDS, *COMMANDS))]
    logs = [tmp_path / f"{number}.log" for number in range(len(running))]
    try:
        wait_for(lambda: all("Started" in log.read_text() for log in logs))
        wait_for(lambda: stores.cache.state().generation)
        wait_for(lambda: stores.audit.entries(actor=ACTOR, action=PASS))
        wait_for(lambda: list_queued(stores))
        for process in running:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(timeout=120) for process in running]
        assert codes == [0] * len(running), [log.read_text() for log in logs]
    finally:
        for process in running:
            process.kill()
    jobs = list_queued(stores)
    assert len({(job.table, job.kind) for job in jobs}) == len(jobs) > 0
