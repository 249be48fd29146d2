"""What a worker works with, and on what terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from icepack.domain.ports.queue import Attendance, JobStore
from icepack.service.maintenance import Runner, RunRequest, utc_now
from icepack.service.retry import Backoff, Patience, PatientHistory
from icepack.service.worker.reaper import Reaper
from icepack.tracing import Tracer


class WorkEnd(StrEnum):
    """What became of a worker's turn."""

    IDLE = "idle"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    FAILED = "failed"
    RETURNED = "returned"
    """Back in the queue, to be tried again."""
    LOST = "lost"
    """Another has it, or had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTerms:
    """How long a claim lasts unrenewed, how often an empty queue is asked, and when a failed job is tried again."""

    lease: timedelta = timedelta(seconds=60)
    poll: timedelta = timedelta(seconds=5)
    retry_delay: timedelta = timedelta(seconds=30)
    max_retry_delay: timedelta = timedelta(hours=1)

    def delay_before_retry(self, attempt: int) -> timedelta:
        return min(self.retry_delay * (1 << min(attempt - 1, 20)), self.max_retry_delay)

    @property
    def presence(self) -> timedelta:
        """How long one that waits is surely there: two more looks at the queue."""
        return max(3 * self.poll, timedelta(seconds=15))

    @property
    def backoff(self) -> Backoff:
        """Never so long that a lease could pass meanwhile."""
        return Backoff(longest_seconds=min(5.0, self.lease.total_seconds() / 4))


def as_it_is(request: RunRequest) -> RunRequest:
    """For runs without an estimate."""
    return request


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """All that a worker works with."""

    jobs: JobStore
    runner: Runner
    history: PatientHistory
    reaper: Reaper | None = None
    """For workers that stay."""
    attendance: Attendance | None = None
    """Where workers that stay say that they are there."""
    terms: WorkTerms = field(default_factory=WorkTerms)
    prepare: Callable[[RunRequest], RunRequest] = as_it_is
    """Adds the estimate, and raises Refused where that is over what the job may cost."""

    tracer: Tracer = field(default_factory=Tracer)
    clock: Callable[[], datetime] = utc_now

    @property
    def patience(self) -> Patience:
        return Patience(backoff=self.terms.backoff)
