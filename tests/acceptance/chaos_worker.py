"""`icepack worker`, built from the same wiring, that dies or freezes at a named point.

Started by chaos.py as a process of its own: chaos_worker.py CONFIG POINT FOLDER.
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

from icepack.cli.commands.worker import exit_code, told_to_stop
from icepack.config import load_config
from icepack.domain.actions import Action
from icepack.domain.ports.engine import EngineResult, Progress, RunContext
from icepack.domain.table import TableId
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.worker.context import Desk
from icepack.wiring import App


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    """Python alone: its JVM works on, and commits behind its back."""
    os.kill(os.getpid(), signal.SIGSTOP)


def freeze_with_jvm() -> None:
    os.kill(_gateway().proc.pid, signal.SIGSTOP)
    freeze()


def lose_the_jvm() -> None:
    os.kill(_gateway().proc.pid, signal.SIGKILL)


def die_and_leave_the_jvm() -> None:
    """The JVM ends when its standard input does; another process holds that open."""
    holder = subprocess.Popen(["sleep", "120"], pass_fds=[_gateway().proc.stdin.fileno()], start_new_session=True)
    (FOLDER / f"holder-{os.getpid()}").write_text(str(holder.pid))
    die()


def _gateway() -> Any:
    from pyspark import SparkContext

    return SparkContext._gateway


def die_any_moment_now() -> None:
    """While the statement is on its way, or carried out, or answered."""

    def soon() -> None:
        time.sleep(random.uniform(0, 0.004))
        die()

    threading.Thread(target=soon).start()


MID_REWRITE: dict[str, Callable[[], None]] = {
    "mid_rewrite": die,
    "jvm_dies": lose_the_jvm,
    "jvm_lives_on": die_and_leave_the_jvm,
    "frozen": freeze,
    "frozen_with_jvm": freeze_with_jvm,
}


class ChaosJobs:
    """The job store, fatal around a claim and in the middle of a finish."""

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
            die_any_moment_now()
        answer = self._real.finish(*args)
        if self._point == "mid_finish":
            time.sleep(1)
        return answer


class ChaosEngine:
    """The engine, fatal in the middle of a rewrite and right after its commit."""

    can_stamp = True

    def __init__(self, real: Any, point: str) -> None:
        self._real = real
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        if self._point in MID_REWRITE:
            context = replace(context, progress=self._strike)
        result: EngineResult = self._real.run(table, action, context)
        if self._point == "after_commit":
            die()
        return result

    def _strike(self, progress: Progress) -> None:
        if progress.groups_done and self._point in MID_REWRITE:
            deed, self._point = MID_REWRITE[self._point], "survived"
            deed()


class ChaosApp(App):
    @cached_property
    def desk(self) -> Desk:
        desk = App.desk.func(self)
        engine = ChaosEngine(self.engine, POINT)
        runner = MaintenanceRunner(replace(self.run_tools, engine=engine))
        return replace(desk, jobs=ChaosJobs(desk.jobs, POINT), runner=runner)


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    app = ChaosApp(load_config(CONFIG, environ=os.environ, cwd=FOLDER), os.environ)
    try:
        with told_to_stop(app.worker.stop):
            return exit_code(app.worker.work_once(), loop=False, interrupted=False)
    finally:
        app.close()


if __name__ == "__main__":
    CONFIG, POINT, FOLDER = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    sys.exit(main())
