"""Port to the table cache: the status, health and recommendation of every table at the last refresh."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from icepack.domain.actions import ActionKind
from icepack.domain.health import HealthReport, IssueCode, Severity
from icepack.domain.policy import select_policy_properties
from icepack.domain.recommendation import Recommendation
from icepack.domain.run import Totals
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.errors import IcepackError, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTable:
    """Everything that is known about one table."""

    status: TableStatus
    health: HealthReport
    recommendation: Recommendation | None = None

    @property
    def table(self) -> TableId:
        return self.status.table


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBrief:
    """The parts of a cached table's documents that table lists show."""

    issues: tuple[IssueCode, ...] = ()
    severity: Severity | None = None
    """The severity of the worst issue."""
    actions: tuple[ActionKind, ...] = ()
    """The recommended actions, in order."""
    estimated_dollars: float = 0.0
    """The estimated cost of all recommended actions."""
    partitions: int = 0
    last_compaction_at: datetime | None = None
    last_commit_at: datetime | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """The table properties that determine its policy."""


def build_brief(cached: CachedTable) -> TableBrief:
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
        properties=select_policy_properties(cached.status.properties),
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
    """A refresh in progress; readers see none of it until it is swapped in."""

    number: int
    owner: str
    lease: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """Which generation readers see, how old it is, and the result of refreshes since then."""

    generation: int | None = None
    refreshed_at: datetime | None = None
    age: timedelta | None = None
    refreshing_since: datetime | None = None
    failed_at: datetime | None = None
    failure: str = ""


class RefreshInProgress(Refused):
    """Another process is refreshing the table cache."""

    def __init__(self, owner: str, expires_at: datetime) -> None:
        super().__init__(
            f"'{owner}' is refreshing the table cache (until {expires_at:%H:%M:%S} UTC at the latest).",
            "Wait until that refresh has finished.",
        )


class RefreshLost(IcepackError):
    """The refresh was aborted or taken over by another process."""

    def __init__(self, generation: Generation) -> None:
        super().__init__(f"Refresh {generation.number} of the table cache was aborted; nothing was written.")
        self.generation = generation


class TableCache(Protocol):
    """Every table as of the last complete refresh."""

    def begin(self, owner: str, lease: timedelta) -> Generation: ...

    def write(self, generation: Generation, tables: Iterable[CachedTable]) -> None: ...

    def remove(self, generation: Generation, tables: Iterable[TableId]) -> None: ...

    def swap(self, generation: Generation) -> CacheState:
        """Makes everything that was written visible at once; tables that were not written are carried over."""
        ...

    def abort(self, generation: Generation, reason: str) -> CacheState: ...

    def state(self) -> CacheState: ...

    def locations(self) -> Mapping[TableId, str]:
        """Returns the metadata location of each cached table; it changes whenever the table does."""
        ...

    def get(self, table: TableId) -> CachedTable | None: ...

    def summaries(
        self, *, catalog: str | None = None, after: TableId | None = None, limit: int | None = None
    ) -> list[TableSummary]: ...

    def tables(self) -> Iterator[CachedTable]:
        """Yields every table, all from the same generation, no matter how long the iteration takes."""
        ...

    def close(self) -> None: ...
