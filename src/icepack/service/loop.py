"""Helpers of the long-running processes: a step that repeats at an interval, and work in several threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import TypeVar

from icepack.errors import Cancelled, IcepackError, UsageError
from icepack.service.retry import Backoff

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


def repeat(
    step: Callable[[], object],
    *,
    every: timedelta,
    stop: Event,
    report: Callable[[str], None] = log.warning,
    backoff: Backoff | None = None,
) -> None:
    """Runs the step at an interval until `stop` is set.

    A failure is reported and the step is retried with backoff. A configuration error ends the loop, because no retry
    can fix it.
    """
    backoff = backoff or Backoff(initial_seconds=1.0, max_seconds=max(every.total_seconds(), 1.0))
    failures, reported = 0, ""
    while not stop.is_set():
        error = _run_step(step)
        if error != reported:
            report(error or "Recovered.")
        failures, reported = (failures + 1, error) if error else (0, "")
        stop.wait(backoff.delay_seconds(failures) if failures else every.total_seconds())


def _run_step(step: Callable[[], object]) -> str:
    """Runs the step once and returns its error message, or an empty string."""
    try:
        step()
    except UsageError:
        raise
    except Cancelled:
        return ""
    except IcepackError as exc:
        return str(exc)
    except Exception as exc:
        log.exception("step failed unexpectedly")
        return f"Unexpected {type(exc).__name__}: {exc}"
    return ""


def map_in_threads(work: Callable[[T], R], items: Sequence[T], threads: int, stop: Event | None = None) -> list[R]:
    """Returns the results in the order of the items; the first exception, or `stop`, ends the whole call."""

    def run_one(item: T) -> R:
        if stop is not None and stop.is_set():
            raise Cancelled("Stopped before all tables were processed; the next round processes the rest.")
        return work(item)

    if threads <= 1 or len(items) <= 1:
        return [run_one(item) for item in items]
    pool = ThreadPoolExecutor(min(threads, len(items)))
    try:
        return list(pool.map(run_one, items))
    finally:
        pool.shutdown(cancel_futures=True)
