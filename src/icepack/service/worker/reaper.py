"""The reaper's round: jobs whose worker died go back to the queue, or fail with their last attempt."""

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

LAST_WAIT_SECONDS = 1.0


class Reaper(Protocol):
    @property
    def interval(self) -> timedelta: ...

    def tick(self) -> list[Job]:
        """The jobs that were taken back."""
        ...


@contextmanager
def reaping(reaper: Reaper) -> Iterator[None]:
    """Reaps in the background; any number of processes may."""
    done = Event()
    thread = Thread(target=_reap_on, args=(reaper, done), name="icepack-reaper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(LAST_WAIT_SECONDS)


def _reap_on(reaper: Reaper, done: Event) -> None:
    """Nothing that goes wrong ends it."""
    away = False
    while not done.wait(reaper.interval.total_seconds()):
        try:
            for job in reaper.tick():
                log.warning("job %s was held past its lease and is %s now", job.id, job.state)
            away = False
        except EnvironmentFault as exc:
            if not away:
                log.warning("the reaper has lost the database: %s", exc)
            away = True
        except Exception:
            log.exception("the reaper stumbled")
