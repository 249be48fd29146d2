"""Ports to the job queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from icepack.domain.job import (
    Claim,
    Job,
    JobEvent,
    JobFilter,
    JobOutcome,
    JobPage,
    JobProgress,
    JobRequest,
    JobState,
    Submission,
)
from icepack.domain.observability.trace import Span


class JobStore(Protocol):
    """The job queue.

    A method that takes a claim raises ClaimLost, without changing anything, if the claim's fence is stale. Reporting
    the end of a claim a second time, because the first answer was lost, is safe.
    """

    def submit(self, request: JobRequest) -> Submission: ...

    def claim(self, worker: str, lease: timedelta) -> Claim | None: ...

    def heartbeat(self, claim: Claim) -> bool:
        """Renews the lease; returns True if cancellation of the job was requested."""
        ...

    def progress(self, claim: Claim, progress: JobProgress) -> None: ...

    def trace(self, claim: Claim, spans: Sequence[Span]) -> None:
        """Stores spans with the job."""
        ...

    def finish(self, claim: Claim, outcome: JobOutcome) -> None: ...

    def fail(self, claim: Claim, message: str, *, retry: bool = True, delay: timedelta = timedelta(0)) -> Job:
        """Returns the job to the queue if attempts are left and `retry` is set; otherwise marks it as failed."""
        ...

    def hand_back(self, claim: Claim, message: str = "") -> Job:
        """Returns the job to the queue without counting the attempt."""
        ...

    def cancel(self, job_id: UUID, *, by: str = "") -> Job:
        """Cancels a queued job immediately; the worker of a running job learns of it at its next heartbeat."""
        ...

    def retry(self, job_id: UUID, *, requester: str = "") -> Submission:
        """Submits a new job with the parameters of a finished one."""
        ...

    def get(self, job_id: UUID) -> Job: ...

    def list_jobs(self, wanted: JobFilter | None = None, *, limit: int = 50, before: int | None = None) -> JobPage: ...

    def events(self, job_id: UUID) -> list[JobEvent]: ...

    def counts(self) -> Mapping[JobState, int]: ...

    def reap(self, *, limit: int = 1000) -> list[Job]:
        """Reclaims jobs and locks whose lease has expired; returns the jobs in their new state."""
        ...

    def now(self) -> datetime:
        """Returns the database's time."""
        ...

    def close(self) -> None: ...


class WorkerRegistry(Protocol):
    """Idle workers that are waiting for jobs."""

    def register(self, worker: str, lease: timedelta) -> None:
        """Registers the worker until the lease expires."""
        ...

    def unregister(self, worker: str) -> None: ...
