"""What the processes that never end share: a step that is taken again and again, and work in several threads."""

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
    tell: Callable[[str], None] = log.warning,
    backoff: Backoff | None = None,
) -> None:
    """Takes the step until told to stop; what goes wrong is told, and tried again sooner at first, then more rarely.

    Only a wrong configuration ends it, since no waiting mends that.
    """
    pauses = backoff or Backoff(first_seconds=1.0, longest_seconds=max(every.total_seconds(), 1.0))
    failures, said = 0, ""
    while not stop.is_set():
        trouble = _trouble(step)
        if trouble != said:
            tell(trouble or "All is well again.")
        failures, said = (failures + 1, trouble) if trouble else (0, "")
        stop.wait(pauses.pause_seconds(failures) if failures else every.total_seconds())


def _trouble(step: Callable[[], object]) -> str:
    """What went wrong in the step; empty when nothing did."""
    try:
        step()
    except UsageError:
        raise
    except Cancelled:
        return ""
    except IcepackError as exc:
        return str(exc)
    except Exception as exc:
        log.exception("an unexpected fault")
        return f"Unexpected {type(exc).__name__}: {exc}"
    return ""


def spread(work: Callable[[T], R], items: Sequence[T], threads: int, stop: Event | None = None) -> list[R]:
    """The answers in the order of the items; the first exception, or being told to stop, ends it all."""

    def one(item: T) -> R:
        if stop is not None and stop.is_set():
            raise Cancelled("Stopped on the way; what is left is done the next time.")
        return work(item)

    if threads <= 1 or len(items) <= 1:
        return [one(item) for item in items]
    pool = ThreadPoolExecutor(min(threads, len(items)))
    try:
        return list(pool.map(one, items))
    finally:
        pool.shutdown(cancel_futures=True)
