"""A worker with the wiring of `icepack worker` that is killed or frozen at a named point.

chaos.py starts it as a separate process: chaos_worker.py CONFIG POINT FOLDER.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from icepack.cli.commands.worker import exit_code
from icepack.cli.signals import stop_on_signal
from icepack.config import load_config
from icepack.domain.actions import Action
from icepack.domain.ports.engine import EngineResult, Progress, RunContext
from icepack.domain.table import TableId
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.worker.job_execution import JobRunner
from icepack.wiring import App


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    """Freezes Python only: its JVM keeps running and commits without it."""
    os.kill(os.getpid(), signal.SIGSTOP)


def freeze_with_jvm() -> None:
    os.kill(_gateway().proc.pid, signal.SIGSTOP)
    freeze()


def kill_jvm() -> None:
    os.kill(_gateway().proc.pid, signal.SIGKILL)


def die_without_jvm() -> None:
    """The JVM exits when its standard input closes, so another process keeps that open."""
    holder = subprocess.Popen(["sleep", "120"], pass_fds=[_gateway().proc.stdin.fileno()], start_new_session=True)
    (FOLDER / f"holder-{os.getpid()}").write_text(str(holder.pid))
    die()


def _gateway() -> Any:
    from pyspark import SparkContext

    return SparkContext._gateway


def die_soon() -> None:
    """Dies while the statement is being sent, executed or answered."""

    def die_after_delay() -> None:
        time.sleep(random.uniform(0, 0.004))
        die()

    threading.Thread(target=die_after_delay).start()


MID_REWRITE: dict[str, Callable[[], None]] = {
    "mid_rewrite": die,
    "jvm_dies": kill_jvm,
    "jvm_lives_on": die_without_jvm,
    "frozen": freeze,
    "frozen_with_jvm": freeze_with_jvm,
}


class ChaosJobs:
    """A job store that kills the worker after a claim or during a finish."""

    def __init__(self, real: Any, point: str) -> None:
        self._real = real
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def claim(self, *args: Any) -> Any:
        claim = self._real.claim(*args)
        if claim is not None and self._point == "after_claim":
            die()
        return claim

    def finish(self, *args: Any) -> Any:
        if self._point == "mid_finish":
            die_soon()
        answer = self._real.finish(*args)
        if self._point == "mid_finish":
            time.sleep(1)
        return answer


class ChaosEngine:
    """An engine that kills or freezes the worker during a rewrite or right after its commit."""

    can_stamp = True

    def __init__(self, real: Any, point: str) -> None:
        self._real = real
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        if self._point in MID_REWRITE:
            context = replace(context, progress=self._inject_fault)
        result: EngineResult = self._real.run(table, action, context)
        if self._point == "after_commit":
            die()
        return result

    def _inject_fault(self, progress: Progress) -> None:
        if progress.groups_done and self._point in MID_REWRITE:
            inject, self._point = MID_REWRITE[self._point], "survived"
            inject()


class ChaosApp(App):
    @cached_property
    def job_runner(self) -> JobRunner:
        job_runner = App.job_runner.func(self)
        engine = ChaosEngine(self.engine, POINT)
        runner = MaintenanceRunner(replace(self.run_dependencies, engine=engine))
        return replace(job_runner, jobs=ChaosJobs(job_runner.jobs, POINT), runner=runner)


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    app = ChaosApp(load_config(CONFIG, environ=os.environ, cwd=FOLDER), os.environ)
    try:
        with stop_on_signal(app.worker.stop):
            return exit_code(app.worker.run_one_job(), loop=False, interrupted=False)
    finally:
        app.close()


if __name__ == "__main__":
    CONFIG, POINT, FOLDER = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    sys.exit(main())
