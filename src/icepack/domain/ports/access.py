"""What the API asks of the shared state besides the queue: keys, sessions, overrides, and lists to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Protocol
from uuid import UUID

from icepack.domain.access import EVERYTHING, ApiKey, Scopes, Session
from icepack.domain.actions import ActionKind
from icepack.domain.job import JobEvent, JobFilter, JobProgress, JobState
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.table import TableId
from icepack.errors import Refused, UsageError

Document = dict[str, Any]
"""A record as JSON has it, read without being taken apart."""


class KeyNotFound(UsageError):
    def __init__(self, name: str) -> None:
        super().__init__(f"There is no key '{name}'.", "`icepack keys list` shows what there is.")


class KeyExists(UsageError):
    def __init__(self, name: str) -> None:
        super().__init__(f"There is a valid key '{name}' already.", "Revoke it first, or choose another name.")


class KeyStore(Protocol):
    """Keys are looked up by their id and compared by the digest of their secret."""

    def add(self, key: ApiKey, digest: str) -> None: ...

    def find(self, key_id: str) -> tuple[ApiKey, str] | None:
        """The key and its digest, valid or not."""
        ...

    def list_keys(self) -> list[ApiKey]: ...

    def revoke(self, name: str, at: datetime) -> ApiKey:
        """Ends the valid key of this name or id, and every session that was traded for it."""
        ...


class SessionStore(Protocol):
    def open(self, digest: str, session: Session, now: datetime) -> None: ...

    def find(self, digest: str, now: datetime) -> Session | None:
        """None when it has ended, or the key that it was traded for has."""
        ...

    def end(self, digest: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What was set through the API, on top of the configuration; each change counts the version up."""

    entries: tuple[Mapping[str, Any], ...] = ()
    version: int = 0
    changed_at: datetime | None = None
    changed_by: str = ""


class VersionConflict(Refused):
    def __init__(self, found: int) -> None:
        super().__init__(f"Somebody else has changed this meanwhile; it is at version {found}.", "Read it again first.")
        self.found = found


class OverrideStore(Protocol):
    """One document for each kind: `policies`, `schedules`."""

    def read(self, kind: str) -> Overrides: ...

    def replace(self, kind: str, entries: Sequence[Mapping[str, Any]], *, expected: int | None, by: str) -> Overrides:
        """Raises VersionConflict unless it is at the expected version; None does not mind."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDocuments:
    """The newest first; `next_before` asks for the page after this one."""

    jobs: tuple[Document, ...]
    next_before: int | None


@dataclass(slots=True, kw_only=True)
class JobText:
    """A job as lists show it: the inside of its JSON object, and what else is worked out of it."""

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
    runs: tuple[Document, ...]
    next_before: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSum:
    """Estimates beside what was measured, summed up over runs that have ended."""

    runs: int = 0
    estimated_dollars: float = 0.0
    estimated_seconds: float = 0.0
    realised_seconds: float = 0.0
    get_requests: int = 0
    put_requests: int = 0
    estimated_files_removed: int = 0
    files_removed: int = 0
    """Fewer files that readers have to open."""
    estimated_bytes_rewritten: int = 0
    bytes_rewritten: int = 0
    bytes_removed: int = 0
    """By which rewritten files are smaller than those they replaced."""
    files_deleted: int = 0
    """From the storage, by expiry and the removal of orphans."""
    bytes_deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One day's runs of one action, or all runs of one table."""

    key: tuple[str, ...]
    sums: CostSum


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """How far a running job is."""

    job_id: UUID
    table: TableId
    progress: JobProgress
    kind: ActionKind
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounts:
    busy: int = 0
    """Those that hold a job and keep their claim alive."""
    idle: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """The run that made a snapshot."""

    action: ActionKind
    has_job: bool
    """Whether there is a job of that id to look at; a run by hand has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDocument:
    """A cached table's records as JSON."""

    status: Document
    health: Document
    recommendation: Document | None = field(default=None)


class Board(Protocol):
    """Lists to show, each read with one statement and narrowed to what the reader may see."""

    def jobs(
        self, wanted: JobFilter, scopes: Scopes = EVERYTHING, *, limit: int = 50, before: int | None = None
    ) -> JobDocuments: ...

    def job_texts(
        self, wanted: JobFilter, scopes: Scopes = EVERYTHING, *, limit: int = 50, before: int | None = None
    ) -> tuple[list[JobText], int | None]:
        """The same as JSON, and where the page after this one begins."""
        ...

    def job_counts(self, scopes: Scopes = EVERYTHING) -> Mapping[JobState, int]: ...

    def ended_counts(self, since: datetime, scopes: Scopes = EVERYTHING) -> Mapping[JobState, int]:
        """Jobs that have ended since, by how they did."""
        ...

    def trend(self, since: date, scopes: Scopes = EVERYTHING) -> list[TrendPoint]:
        """The fleet on each day on which it was looked at, the oldest first."""
        ...

    def has_key(self, key: str) -> bool:
        """Whether a job has answered to the idempotency key."""
        ...

    def keyed_jobs(self, prefix: str) -> list[UUID]:
        """The jobs whose idempotency keys begin with the prefix, oldest first."""
        ...

    def oldest_due(self) -> datetime | None:
        """Since when the job that has waited longest could have run."""
        ...

    def events_after(self, number: int, *, limit: int = 1000) -> list[JobEvent]:
        """Of jobs, by number."""
        ...

    def newest_event(self) -> int: ...

    def running(self) -> list[RunningJob]: ...

    def workers(self) -> WorkerCounts: ...

    def table(self, table: TableId) -> TableDocument | None: ...

    def runs(self, table: TableId, *, limit: int = 50, before: datetime | None = None) -> RunDocuments: ...

    def committers(self, table: TableId, ids: Sequence[UUID]) -> Mapping[UUID, Committer]:
        """What is still known of the runs that committed snapshots of the table."""
        ...

    def points(self, table: TableId, *, limit: int = 200) -> list[Document]: ...

    def costs_by_day(self, since: datetime, scopes: Scopes = EVERYTHING) -> list[CostLine]:
        """Keyed by day and action."""
        ...

    def costs_by_table(self, since: datetime, scopes: Scopes = EVERYTHING, *, limit: int = 20) -> list[CostLine]:
        """Those that took longest first."""
        ...
