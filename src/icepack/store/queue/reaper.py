"""The reaper: takes jobs back from workers that died, and is slow to believe it."""

from __future__ import annotations

from datetime import datetime, timedelta

from icepack.domain.job import Job
from icepack.domain.ports.queue import JobStore
from icepack.errors import EnvironmentFault


class Reaper:
    """While the database was away no worker could renew its lease, so all look dead when it returns.

    Whenever the reaper has not seen the database for a while, be it that it has just started, that the database did
    not answer or that the machine slept, it gives every worker one lease's time to be heard again.
    """

    def __init__(self, jobs: JobStore, lease: timedelta) -> None:
        self._jobs = jobs
        self._lease = lease
        self._seen_at: datetime | None = None
        self._idle_until: datetime | None = None

    @property
    def interval(self) -> timedelta:
        """Often enough that the database cannot have been away for a lease unnoticed."""
        return self._lease / 4

    def tick(self) -> list[Job]:
        """The jobs taken back; call it every `interval`, and go on after a fault."""
        try:
            return self._jobs.reap() if self._is_sure(self._jobs.now()) else []
        except EnvironmentFault:
            self._seen_at = None
            raise

    def _is_sure(self, now: datetime) -> bool:
        """By the database's own clock; one that jumps is no better than one that was away."""
        steady = self._seen_at is not None and timedelta(0) <= now - self._seen_at < 2 * self._lease
        self._seen_at = now
        if not steady:
            self._idle_until = now + self._lease
        return self._idle_until is not None and now >= self._idle_until
