"""Port to the read-only queries behind the API and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Protocol
from uuid import UUID

from icepack.domain.access import ALL_TABLES, Scopes
from icepack.domain.actions import ActionKind
from icepack.domain.job import JobEvent, JobFilter, JobProgress, JobState
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.table import TableId

# A stored JSON record that is passed on without being parsed into its dataclass.
Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDocuments:
    """A page of jobs, newest first; `next_before` is the cursor of the next page."""

    jobs: tuple[Document, ...]
    next_before: int | None


@dataclass(slots=True, kw_only=True)
class JobListItem:
    """A job as lists show it: the inside of its JSON object, and the values that more fields are computed from."""

    number: int
    job_id: str
    state: JobState
    submitted_at: str
    """As JSON."""
    started_at: datetime | None
    estimated_seconds: float | None
    progress: str
    """As JSON."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocuments:
    """A page of run records, newest first."""

    runs: tuple[Document, ...]
    next_before: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSum:
    """Estimates and measurements, summed over finished runs."""

    runs: int = 0
    estimated_dollars: float = 0.0
    estimated_seconds: float = 0.0
    realised_seconds: float = 0.0
    get_requests: int = 0
    put_requests: int = 0
    estimated_files_removed: int = 0
    files_removed: int = 0
    """Data files removed from scans."""
    estimated_bytes_rewritten: int = 0
    bytes_rewritten: int = 0
    bytes_removed: int = 0
    """By how much rewritten files are smaller than the files they replaced."""
    files_deleted: int = 0
    """Deleted from storage by snapshot expiry and orphan removal."""
    bytes_deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """The runs of one action on one day, or all runs of one table."""

    key: tuple[str, ...]
    sums: CostSum


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A running job and its progress."""

    job_id: UUID
    table: TableId
    progress: JobProgress
    kind: ActionKind
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounts:
    busy: int = 0
    """Workers that hold a job and renew its claim."""
    idle: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """The run that committed a snapshot."""

    action: ActionKind
    has_job: bool
    """Whether a job with that id exists; a run started by a command has no job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDocument:
    """A cached table's records as JSON."""

    status: Document
    health: Document
    recommendation: Document | None = field(default=None)


class FleetQueries(Protocol):
    """Reads lists with one statement each, limited to the tables that the reader may see."""

    def jobs(
        self, wanted: JobFilter, scopes: Scopes = ALL_TABLES, *, limit: int = 50, before: int | None = None
    ) -> JobDocuments: ...

    def list_jobs_as_json(
        self, wanted: JobFilter, scopes: Scopes = ALL_TABLES, *, limit: int = 50, before: int | None = None
    ) -> tuple[list[JobListItem], int | None]:
        """Returns the jobs as JSON text, and the cursor of the next page."""
        ...

    def job_counts(self, scopes: Scopes = ALL_TABLES) -> Mapping[JobState, int]: ...

    def ended_counts(self, since: datetime, scopes: Scopes = ALL_TABLES) -> Mapping[JobState, int]:
        """Counts the jobs that have ended since then, by final state."""
        ...

    def trend(self, since: date, scopes: Scopes = ALL_TABLES) -> list[TrendPoint]:
        """Returns the fleet's totals of each day that has any, oldest first."""
        ...

    def has_key(self, key: str) -> bool:
        """Whether a job with this idempotency key exists."""
        ...

    def keyed_jobs(self, prefix: str) -> list[UUID]:
        """Returns the jobs whose idempotency key starts with the prefix, oldest first."""
        ...

    def oldest_due(self) -> datetime | None:
        """Returns since when the longest waiting job could have run."""
        ...

    def events_after(self, number: int, *, limit: int = 1000) -> list[JobEvent]:
        """Returns the job events after the given event number, in order."""
        ...

    def newest_event(self) -> int: ...

    def running(self) -> list[RunningJob]: ...

    def workers(self) -> WorkerCounts: ...

    def table(self, table: TableId) -> TableDocument | None: ...

    def runs(self, table: TableId, *, limit: int = 50, before: datetime | None = None) -> RunDocuments: ...

    def committers(self, table: TableId, ids: Sequence[UUID]) -> Mapping[UUID, Committer]:
        """Returns, by job id, the runs that committed snapshots of the table, if they are still recorded."""
        ...

    def points(self, table: TableId, *, limit: int = 200) -> list[Document]: ...

    def costs_by_day(self, since: datetime, scopes: Scopes = ALL_TABLES) -> list[CostLine]:
        """Returns costs keyed by day and action."""
        ...

    def costs_by_table(self, since: datetime, scopes: Scopes = ALL_TABLES, *, limit: int = 20) -> list[CostLine]:
        """Returns costs keyed by table, those with the longest run time first."""
        ...
