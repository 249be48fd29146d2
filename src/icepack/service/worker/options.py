"""How a worker claims, renews and retries jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from icepack.service.retry import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Lease of a claim, poll interval of an empty queue, and delays between attempts of a failed job."""

    lease: timedelta = timedelta(seconds=60)
    poll: timedelta = timedelta(seconds=5)
    retry_delay: timedelta = timedelta(seconds=30)
    max_retry_delay: timedelta = timedelta(hours=1)

    def delay_before_retry(self, attempt: int) -> timedelta:
        backoff = Backoff(
            initial_seconds=self.retry_delay.total_seconds(),
            max_seconds=self.max_retry_delay.total_seconds(),
            jitter=0.0,
        )
        return timedelta(seconds=backoff.delay_seconds(attempt))

    @property
    def registration_lease(self) -> timedelta:
        """How long an idle worker counts as present: for two more polls of the queue."""
        return max(3 * self.poll, timedelta(seconds=15))

    @property
    def backoff(self) -> Backoff:
        """Delays between failed database calls, always shorter than a lease."""
        return Backoff(max_seconds=min(5.0, self.lease.total_seconds() / 4))
