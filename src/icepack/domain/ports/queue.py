"""What the service layer asks of the shared state: the queue, the locks, the cache and what is kept over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from icepack.domain.access import EVERYTHING, Scopes
from icepack.domain.actions import ActionKind
from icepack.domain.health import HealthReport, IssueCode, Severity
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
from icepack.domain.observability.fleet_trend import FleetLine
from icepack.domain.observability.trace import Span
from icepack.domain.policy import own_settings
from icepack.domain.recommendation.recommend import Recommendation
from icepack.domain.run import Totals
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.errors import IcepackError, Refused


class JobStore(Protocol):
    """The queue. Whatever takes a claim raises ClaimLost, having changed nothing, when its fence is stale.

    To say again how a claim ended, because the answer was lost, does no harm.
    """

    def submit(self, request: JobRequest) -> Submission: ...

    def claim(self, worker: str, lease: timedelta) -> Claim | None: ...

    def heartbeat(self, claim: Claim) -> bool:
        """Renew the lease; True when the job is to be cancelled."""
        ...

    def progress(self, claim: Claim, progress: JobProgress) -> None: ...

    def trace(self, claim: Claim, spans: Sequence[Span]) -> None:
        """Write spans into the job's story."""
        ...

    def finish(self, claim: Claim, outcome: JobOutcome) -> None: ...

    def fail(self, claim: Claim, message: str, *, retry: bool = True, delay: timedelta = timedelta(0)) -> Job:
        """Back to the queue while attempts are left and a retry makes sense; else failed."""
        ...

    def hand_back(self, claim: Claim, message: str = "") -> Job:
        """Back to the queue without having used up an attempt."""
        ...

    def cancel(self, job_id: UUID, *, by: str = "") -> Job:
        """At once when queued; a running job's worker is told at its next heartbeat."""
        ...

    def retry(self, job_id: UUID, *, requester: str = "") -> Submission:
        """A new job that asks for what a finished one asked for."""
        ...

    def get(self, job_id: UUID) -> Job: ...

    def list_jobs(self, wanted: JobFilter | None = None, *, limit: int = 50, before: int | None = None) -> JobPage: ...

    def events(self, job_id: UUID) -> list[JobEvent]: ...

    def counts(self) -> Mapping[JobState, int]: ...

    def reap(self, *, limit: int = 1000) -> list[Job]:
        """Take back what is held past its lease; the jobs among it, as they stand afterwards."""
        ...

    def now(self) -> datetime:
        """The database's time."""
        ...

    def close(self) -> None: ...


class Attendance(Protocol):
    """Who waits for work."""

    def attend(self, worker: str, lease: timedelta) -> None:
        """Here, and surely for as long as the lease."""
        ...

    def leave(self, worker: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLock:
    """Who holds a table, for what and until when; `token` only grows."""

    table: TableId
    owner: str
    token: int
    purpose: str
    taken_at: datetime
    expires_at: datetime
    expired: bool
    job_id: UUID | None = None


class TableLocked(Refused):
    def __init__(self, lock: TableLock) -> None:
        reason = f" for {lock.purpose}" if lock.purpose else ""
        super().__init__(
            f"{lock.table} is held by '{lock.owner}'{reason} until {lock.expires_at:%Y-%m-%d %H:%M:%S} UTC.",
            "Wait for it; `icepack locks` shows who holds what.",
        )
        self.lock = lock


class LockLost(IcepackError):
    def __init__(self, lock: TableLock) -> None:
        super().__init__(
            f"'{lock.owner}' no longer holds {lock.table} (token {lock.token}).",
            "Stop working on the table: the lock expired and was taken, or was broken.",
        )
        self.lock = lock


class TableLocks(Protocol):
    """One holder per table, be it a worker's job or a command."""

    def acquire(self, table: TableId, owner: str, lease: timedelta, purpose: str = "") -> TableLock:
        """Raises TableLocked while another holds it."""
        ...

    def renew(self, lock: TableLock, lease: timedelta) -> TableLock: ...

    def release(self, lock: TableLock) -> bool:
        """False when it was no longer this owner's."""
        ...

    def list_locks(self) -> list[TableLock]: ...

    def break_lock(self, table: TableId, *, force: bool = False, by: str = "") -> TableLock | None:
        """Without force only an expired one; a job that held it goes back to the queue, its worker loses the claim."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTable:
    """All that is known of one table."""

    status: TableStatus
    health: HealthReport
    recommendation: Recommendation | None = None

    @property
    def table(self) -> TableId:
        return self.status.table


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBrief:
    """What a list of tables shows of their documents."""

    issues: tuple[IssueCode, ...] = ()
    severity: Severity | None = None
    """That of the worst issue."""
    actions: tuple[ActionKind, ...] = ()
    """What is recommended, in order."""
    estimated_dollars: float = 0.0
    """An estimate: what all of that should cost."""
    partitions: int = 0
    last_compaction_at: datetime | None = None
    last_commit_at: datetime | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Those from which its policy follows."""


def brief_of(cached: CachedTable) -> TableBrief:
    actions = cached.recommendation.actions if cached.recommendation else ()
    severities = {issue.severity for issue in cached.health.issues}
    return TableBrief(
        issues=tuple(issue.code for issue in cached.health.issues),
        severity=next((severity for severity in reversed(Severity) if severity in severities), None),
        actions=tuple(recommended.kind for recommended in actions),
        estimated_dollars=sum(recommended.cost.dollars for recommended in actions),
        partitions=len(cached.status.partitions),
        last_compaction_at=cached.status.last_compaction_at,
        last_commit_at=cached.status.snapshots.newest_at,
        properties=own_settings(cached.status.properties),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """A cached table without its documents."""

    table: TableId
    metadata_location: str
    inspected_at: datetime
    score: int
    totals: Totals
    brief: TableBrief = TableBrief()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A refresh under way; readers see nothing of it until the swap."""

    number: int
    owner: str
    lease: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """What readers see now, how old it is, and what came of the refreshes since."""

    generation: int | None = None
    refreshed_at: datetime | None = None
    age: timedelta | None = None
    refreshing_since: datetime | None = None
    failed_at: datetime | None = None
    failure: str = ""


class RefreshUnderWay(Refused):
    def __init__(self, owner: str, expires_at: datetime) -> None:
        super().__init__(
            f"'{owner}' is refreshing the table cache (until {expires_at:%H:%M:%S} UTC at the latest).",
            "Wait for it to end.",
        )


class RefreshLost(IcepackError):
    def __init__(self, generation: Generation) -> None:
        super().__init__(f"Refresh {generation.number} of the table cache was given up; nothing was written.")
        self.generation = generation


class TableCache(Protocol):
    """The last complete look at all tables."""

    def begin(self, owner: str, lease: timedelta) -> Generation: ...

    def write(self, generation: Generation, tables: Iterable[CachedTable]) -> None: ...

    def remove(self, generation: Generation, tables: Iterable[TableId]) -> None: ...

    def swap(self, generation: Generation) -> CacheState:
        """Everything written becomes visible at once; what was not mentioned is carried over."""
        ...

    def give_up(self, generation: Generation, reason: str) -> CacheState: ...

    def state(self) -> CacheState: ...

    def locations(self) -> Mapping[TableId, str]:
        """Each cached table's metadata location: where it is still the same, nothing has changed."""
        ...

    def get(self, table: TableId) -> CachedTable | None: ...

    def summaries(
        self, *, catalog: str | None = None, after: TableId | None = None, limit: int | None = None
    ) -> list[TableSummary]: ...

    def tables(self) -> Iterator[CachedTable]:
        """Every table, all of one generation, however long the reading takes."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPoint:
    """A table's figures at one moment."""

    table: TableId
    observed_at: datetime
    totals: Totals


class StatusHistory(Protocol):
    """How tables fared over time."""

    def save_status(self, points: Sequence[StatusPoint]) -> None: ...

    def statuses(self, table: TableId, *, since: datetime | None = None, limit: int = 1000) -> list[StatusPoint]: ...

    def save_health(self, reports: Sequence[HealthReport]) -> None: ...

    def assessments(self, table: TableId, *, since: datetime | None = None, limit: int = 100) -> list[HealthReport]: ...

    def save_day(self, day: date, lines: Sequence[FleetLine]) -> None:
        """The whole fleet on a day, in place of what was said of that day before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """Who did what, when, from where, and what came of it."""

    at: datetime
    actor: str
    action: str
    subject: str = ""
    origin: str = ""
    outcome: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0


class AuditLog(Protocol):
    def record(self, event: AuditEvent) -> AuditEvent: ...

    def entries(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        before: int | None = None,
        scopes: Scopes = EVERYTHING,
    ) -> list[AuditEvent]:
        """With scopes, those about a table that they cover."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepFor:
    """How long each kind of record is kept; None keeps it for ever."""

    runs: timedelta | None = timedelta(days=365)
    jobs: timedelta | None = timedelta(days=30)
    statuses: timedelta | None = timedelta(days=365)
    assessments: timedelta | None = timedelta(days=90)
    audit: timedelta | None = timedelta(days=365)
    classes: timedelta | None = timedelta(days=365)
    """Classes of files whose values were compared; one that is dropped is compared again when it is next met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many records went."""

    runs: int = 0
    jobs: int = 0
    events: int = 0
    lanes: int = 0
    statuses: int = 0
    assessments: int = 0
    audit: int = 0
    classes: int = 0


class Retention(Protocol):
    def prune(self, keep: KeepFor) -> Pruned: ...
