"""Reclaims the jobs of dead workers in a background thread.

A reclaimed job returns to the queue, or fails if it has no attempts left.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Protocol

from icepack.domain.job import Job
from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)

# How long to wait at the end for an iteration that is still running.
JOIN_SECONDS = 1.0


class PeriodicReaper(Protocol):
    """Reclaims jobs whose lease has expired; called at an interval."""

    @property
    def interval(self) -> timedelta: ...

    def tick(self) -> list[Job]:
        """Returns the jobs that were reclaimed."""
        ...


@contextmanager
def run_reaper(reaper: PeriodicReaper) -> Iterator[None]:
    """Runs the reaper in the background; any number of processes may do so."""
    done = Event()
    thread = Thread(target=_reap_until, args=(reaper, done), name="icepack-reaper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(JOIN_SECONDS)


def _reap_until(reaper: PeriodicReaper, done: Event) -> None:
    """Reaps until `done` is set; no failure ends it."""
    is_unavailable = False
    while not done.wait(reaper.interval.total_seconds()):
        try:
            for job in reaper.tick():
                log.warning("job %s was held past its lease and is now %s", job.id, job.state)
            is_unavailable = False
        except EnvironmentFault as exc:
            if not is_unavailable:
                log.warning("reaper has lost the database: %s", exc)
            is_unavailable = True
        except Exception:
            log.exception("reaper iteration failed")
