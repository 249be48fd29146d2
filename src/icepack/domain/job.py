"""Job: one action on one table. A job is queued, runs under a claim and ends exactly once.

TRANSITIONS lists the allowed state changes; docs/job-states.md has a diagram of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from icepack.domain.actions import Action, ActionKind, action_to_json
from icepack.domain.observability.trace import Phase
from icepack.domain.table import TableId
from icepack.errors import IcepackError, InvalidOption, UsageError

JOB_VERSION = 1
MAX_PRIORITY = 1_000_000
DEFAULT_MAX_ATTEMPTS = 3


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return not TRANSITIONS[self]


TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.CANCELLED}),
    JobState.RUNNING: frozenset({JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


def list_source_states(state: JobState) -> tuple[JobState, ...]:
    """Lists the states from which a job may change to this state."""
    return tuple(origin for origin, targets in TRANSITIONS.items() if state in targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A request to run an action; jobs with a larger priority run first."""

    table: TableId
    action: Action
    priority: int = 0
    not_before: datetime | None = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    requester: str = ""
    idempotency_key: str | None = None
    # Identifies the original request: repeating it with the same idempotency key is accepted, even if its parameters
    # were completed differently since.
    fingerprint: str = ""
    trace_context: str = ""
    retry_of: UUID | None = None
    estimated_seconds: float | None = None

    def __post_init__(self) -> None:
        if abs(self.priority) > MAX_PRIORITY:
            raise InvalidOption(
                f"Priority {self.priority} is out of range.", f"Use -{MAX_PRIORITY:,} to {MAX_PRIORITY:,}."
            )
        if self.max_attempts < 1:
            raise InvalidOption(f"Cannot run a job with {self.max_attempts} attempts.", "Allow at least one.")
        if self.not_before is not None and self.not_before.tzinfo is None:
            raise InvalidOption(f"{self.not_before.isoformat()} has no time zone.", "Add one, such as Z for UTC.")

    @property
    def digest(self) -> str:
        """A hash that is equal for equal actions with equal parameters, whatever the order of their options."""
        text = json.dumps(action_to_json(self.action), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMark:
    """When a phase started; it lasts until the next phase starts or the job ends."""

    phase: Phase
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The progress of a running job; the numbers are totals, not increments."""

    partitions_completed: int = 0
    partitions_total: int = 0
    files_processed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    # The partitions that are being rewritten now, if the engine reports them.
    working_on: tuple[str, ...] = ()
    # The phases of the last attempt, in order; an attempt that is planned again repeats them.
    phases: tuple[PhaseMark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The final state that a worker reports for its job."""

    state: JobState
    message: str = ""
    details: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.state.is_final:
            raise ValueError(f"{self.state} is not a final job state")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as stored in the database; `number` increases in the order of submission."""

    id: UUID
    number: int
    table: TableId
    action: Action
    state: JobState
    priority: int
    max_attempts: int
    submitted_at: datetime
    # Counted at claim, so that a worker that dies has used one attempt as well.
    attempts: int = 0
    not_before: datetime | None = None
    # When the job becomes due, if it is not due yet: set by the submitter or by the delay of a retry.
    waits_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    requester: str = ""
    idempotency_key: str | None = None
    trace_context: str = ""
    worker: str | None = None
    fence: int | None = None
    lease_ends_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    message: str = ""
    progress: JobProgress = JobProgress()
    details: Mapping[str, Any] | None = None
    retry_of: UUID | None = None
    collapsed_into: UUID | None = None
    # The estimated duration of a run; null if there is no estimate.
    estimated_seconds: float | None = None
    version: int = JOB_VERSION

    @property
    def kind(self) -> ActionKind:
        return self.action.kind

    @property
    def attempts_left(self) -> int:
        return max(self.max_attempts - self.attempts, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's claim on a job; every write carries its fence, a number that only increases."""

    job: Job
    fence: int
    worker: str
    lease: timedelta
    # By the database's clock, because leases use no other clock.
    lease_ends_at: datetime

    @property
    def job_id(self) -> UUID:
        return self.job.id

    @property
    def table(self) -> TableId:
        return self.job.table


class SubmissionOutcome(StrEnum):
    """Whether a submission created a job or returned an existing one."""

    CREATED = "created"
    # An equal job was already queued, and is returned instead.
    COLLAPSED = "collapsed"
    # The idempotency key was used before, and its job is returned.
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    job: Job
    outcome: SubmissionOutcome


class JobEventKind(StrEnum):
    SUBMITTED = "submitted"
    COLLAPSED = "collapsed"
    CLAIMED = "claimed"
    HANDED_BACK = "handed_back"
    RETRIED = "retried"
    EXPIRED = "expired"
    CANCEL_REQUESTED = "cancel_requested"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOCKED = "locked"
    RELEASED = "released"
    BROKEN = "broken"
    # A span of the job's trace: the run, its planning, its execution or its commit.
    SPAN = "span"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One event of a job; the number of a claim event is the claim's fence."""

    number: int
    job_id: UUID | None
    table: TableId
    at: datetime
    kind: JobEventKind
    actor: str = ""
    attempt: int = 0
    message: str = ""
    # For a span: its ids, when it started and ended, and its error.
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; a condition that is not set does not restrict the list."""

    states: frozenset[JobState] = frozenset()
    table: TableId | None = None
    catalog: str | None = None
    kind: ActionKind | None = None
    requester: str | None = None
    # Jobs that are queued or running, or ended at or after this time.
    since: datetime | None = None
    # Jobs that were submitted before this time.
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """A page of jobs, newest first; `next_before` requests the next page."""

    jobs: tuple[Job, ...]
    next_before: int | None


class ClaimLost(IcepackError):
    """A worker tried to write with a claim that it no longer holds; nothing was written."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(
            f"Worker '{claim.worker}' no longer holds job {claim.job_id} (fence {claim.fence}); nothing was written.",
            "Stop working on it: another worker has claimed the job, it was cancelled, or its lock was broken.",
        )
        self.claim = claim


class JobNotFound(UsageError):
    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"Job {job_id} not found.", "It may have been deleted when its retention ended.")
        self.job_id = job_id


class JobStateConflict(UsageError):
    """The job's state does not allow the requested change."""

    def __init__(self, job: Job, change: str) -> None:
        super().__init__(f"Job {job.id} is {job.state} and cannot be {change}.")
        self.job = job


class IdempotencyKeyReused(UsageError):
    def __init__(self, key: str, job: Job) -> None:
        super().__init__(
            f"Idempotency key '{key}' belongs to job {job.id}, which has a different request.", "Use a new key."
        )
        self.job = job
