"""Job: one action on one table that waits, runs under a claim and ends once.

The states and the moves between them are TRANSITIONS below, drawn in docs/job-states.md.
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


def sources(state: JobState) -> tuple[JobState, ...]:
    """From where a job may come into the state."""
    return tuple(origin for origin, targets in TRANSITIONS.items() if state in targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What is asked for: a larger priority goes first."""

    table: TableId
    action: Action
    priority: int = 0
    not_before: datetime | None = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    requester: str = ""
    idempotency_key: str | None = None
    fingerprint: str = ""
    """Of what the caller asked for; with it, a key that is used again means the same whatever was made of it since."""
    trace_context: str = ""
    retry_of: UUID | None = None
    estimated_seconds: float | None = None

    def __post_init__(self) -> None:
        if abs(self.priority) > MAX_PRIORITY:
            raise InvalidOption(f"Priority {self.priority} is out of range.", f"Use at most {MAX_PRIORITY:,}.")
        if self.max_attempts < 1:
            raise InvalidOption(f"{self.max_attempts} attempts are too few.", "A job needs at least one.")
        if self.not_before is not None and self.not_before.tzinfo is None:
            raise InvalidOption(f"{self.not_before.isoformat()} has no time zone.", "Add one, such as Z for UTC.")

    @property
    def digest(self) -> str:
        """The same for equal actions with equal parameters, whatever the order of their options."""
        text = json.dumps(action_to_json(self.action), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMark:
    """When a phase began; it lasted until the next did, or until the job ended."""

    phase: Phase
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a running job is; all in all, not since the last time."""

    partitions_completed: int = 0
    partitions_total: int = 0
    files_processed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    working_on: tuple[str, ...] = ()
    """Partitions that are rewritten right now, where the engine tells."""
    phases: tuple[PhaseMark, ...] = ()
    """Of the last attempt, in order; one that is planned anew goes through them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """How a claim ended the job for good."""

    state: JobState
    message: str = ""
    details: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.state.is_final:
            raise ValueError(f"{self.state} is no end of a job")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the database knows it; `number` grows in the order of submission."""

    id: UUID
    number: int
    table: TableId
    action: Action
    state: JobState
    priority: int
    max_attempts: int
    submitted_at: datetime
    attempts: int = 0
    """Counted at claim, so that a worker that died has used one up too."""
    not_before: datetime | None = None
    waits_until: datetime | None = None
    """Set while it is too early to run, whether the submitter or a retry's delay asked for that."""
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
    estimated_seconds: float | None = None
    """How long a run should take; null where nobody has worked it out."""
    version: int = JOB_VERSION

    @property
    def kind(self) -> ActionKind:
        return self.action.kind

    @property
    def attempts_left(self) -> int:
        return max(self.max_attempts - self.attempts, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's right to run a job: every write states its fence, a number that only grows."""

    job: Job
    fence: int
    worker: str
    lease: timedelta
    lease_ends_at: datetime
    """By the database's clock, which is the only one that counts."""

    @property
    def job_id(self) -> UUID:
        return self.job.id

    @property
    def table(self) -> TableId:
        return self.job.table


class Submitted(StrEnum):
    """What became of a submission."""

    CREATED = "created"
    COLLAPSED = "collapsed"
    """An equal job was queued already."""
    REPEATED = "repeated"
    """Its idempotency key had been seen before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    job: Job
    outcome: Submitted


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
    SPAN = "span"
    """A stretch of its trace: the run, its planning, its execution, its commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One line of a job's story; the number of a claim's event is its fence."""

    number: int
    job_id: UUID | None
    table: TableId
    at: datetime
    kind: JobEventKind
    actor: str = ""
    attempt: int = 0
    message: str = ""
    details: Mapping[str, Any] | None = None
    """Of a span: its ids, when it started and ended, and what went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; what is left out does not narrow."""

    states: frozenset[JobState] = frozenset()
    table: TableId | None = None
    catalog: str | None = None
    kind: ActionKind | None = None
    requester: str | None = None
    since: datetime | None = None
    """Those that wait, run or have ended at or after this moment."""
    until: datetime | None = None
    """Those that were asked for before this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """The newest first; `next_before` asks for the page after this one."""

    jobs: tuple[Job, ...]
    next_before: int | None


class ClaimLost(IcepackError):
    """The write of a worker whose claim has gone to another, or ended; it changed nothing."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(
            f"Worker '{claim.worker}' no longer holds job {claim.job_id} (fence {claim.fence}); nothing was written.",
            "Stop working on it: the job was handed on, cancelled or its lock broken.",
        )
        self.claim = claim


class JobNotFound(UsageError):
    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"There is no job {job_id}.", "It may have been pruned.")
        self.job_id = job_id


class JobStateConflict(UsageError):
    """The state machine has no such move."""

    def __init__(self, job: Job, wish: str) -> None:
        super().__init__(f"Job {job.id} is {job.state} and cannot be {wish}.")
        self.job = job


class IdempotencyKeyReused(UsageError):
    def __init__(self, key: str, job: Job) -> None:
        super().__init__(
            f"Idempotency key '{key}' belongs to job {job.id}, which asks for something else.", "Use a new key."
        )
        self.job = job
