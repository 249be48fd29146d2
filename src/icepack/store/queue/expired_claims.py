"""Takes jobs back from workers whose lease has expired, but not right after the database was unreachable."""

from __future__ import annotations

from datetime import datetime, timedelta

from icepack.domain.job import Job
from icepack.domain.ports.queue import JobStore
from icepack.errors import EnvironmentFault


class ExpiredClaims:
    """Decides when expired claims may be taken back; the background thread is in service/worker/reaper.py.

    While the database is unreachable no worker can renew its lease, so all workers look dead when it returns. After
    any gap (this process has just started, the database did not answer, the machine was suspended) every worker gets
    the length of one lease to send a heartbeat.
    """

    def __init__(self, jobs: JobStore, lease: timedelta) -> None:
        self._jobs = jobs
        self._lease = lease
        self._last_seen_at: datetime | None = None
        self._grace_ends_at: datetime | None = None

    @property
    def interval(self) -> timedelta:
        """Time between calls of `tick`, short enough to notice any outage as long as a lease."""
        return self._lease / 4

    def tick(self) -> list[Job]:
        """Take back expired claims and return their jobs; call it again every `interval`, also after an error."""
        try:
            return self._jobs.reap() if self._is_grace_over(self._jobs.now()) else []
        except EnvironmentFault:
            self._last_seen_at = None
            raise

    def _is_grace_over(self, now: datetime) -> bool:
        """Measured by the database's clock; a jump of that clock counts as an outage."""
        steady = self._last_seen_at is not None and timedelta(0) <= now - self._last_seen_at < 2 * self._lease
        self._last_seen_at = now
        if not steady:
            self._grace_ends_at = now + self._lease
        return self._grace_ends_at is not None and now >= self._grace_ends_at
