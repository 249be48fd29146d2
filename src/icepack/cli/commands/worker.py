"""The worker command: runs queued jobs."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from threading import Thread

import click

from icepack.cli.context import open_app
from icepack.cli.exit_codes import FAILED, INTERRUPTED, JOB_RETURNED, SUCCEEDED
from icepack.cli.signals import stop_on_signal
from icepack.service.worker.job_execution import WorkResult

_EXIT_CODES = {WorkResult.FAILED: FAILED, WorkResult.RETURNED: JOB_RETURNED, WorkResult.LOST: JOB_RETURNED}


@click.command()
@click.option("--loop", is_flag=True, help="Keep running jobs until stopped, and requeue the jobs of dead workers.")
@click.option(
    "--attached", is_flag=True, help="Stop when standard input closes, so that it ends with its parent process."
)
@click.pass_context
def worker(ctx: click.Context, loop: bool, attached: bool) -> int:
    """Run one queued job and exit; with --loop, keep running jobs until stopped.

    SIGTERM and Ctrl-C stop it cleanly: the running job goes back to the queue unless it has already committed. A second
    signal exits at once.
    """
    with open_app(ctx) as app:
        logging.getLogger("icepack").setLevel(logging.INFO)
        if attached:
            _stop_when_stdin_closes(app.worker.stop)
        with stop_on_signal(app.worker.stop) as received:
            result = app.worker.run_until_stopped() if loop else app.worker.run_one_job()
        return exit_code(result, loop=loop, interrupted=signal.SIGINT in received)


def _stop_when_stdin_closes(stop: Callable[[], None]) -> None:
    """Notices that the parent process has died: a killed parent closes the pipe, and cannot signal in any other way."""

    def wait() -> None:
        sys.stdin.buffer.read()
        stop()

    Thread(target=wait, name="icepack-input", daemon=True).start()


def exit_code(result: WorkResult, *, loop: bool, interrupted: bool) -> int:
    """Returns the exit code; a loop reports only a job that it returned, because failed jobs have their own record."""
    code = _EXIT_CODES.get(result, SUCCEEDED)
    if loop and code != JOB_RETURNED:
        code = SUCCEEDED
    return INTERRUPTED if interrupted and code == SUCCEEDED and result is not WorkResult.SUCCEEDED else code
