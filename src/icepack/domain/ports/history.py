"""Ports to what is kept over time: runs, table statuses and health reports, and how long they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Protocol

from icepack.domain.actions import ActionKind
from icepack.domain.health import HealthReport
from icepack.domain.observability.fleet_trend import NamespaceTotals
from icepack.domain.recommendation import PastRun
from icepack.domain.run import RunRecord, RunState, Totals
from icepack.domain.table import TableId


class HistoryStore(Protocol):
    """Stores run records."""

    def save(self, record: RunRecord) -> None: ...

    def runs(
        self,
        *,
        table: TableId | None = None,
        kind: ActionKind | None = None,
        state: RunState | None = None,
        limit: int = 50,
    ) -> list[RunRecord]: ...

    def past_runs(self, table: TableId) -> list[PastRun]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPoint:
    """A table's totals at one point in time."""

    table: TableId
    observed_at: datetime
    totals: Totals


class StatusHistory(Protocol):
    """Stores table statuses and health reports over time."""

    def save_status(self, points: Sequence[StatusPoint]) -> None: ...

    def statuses(self, table: TableId, *, since: datetime | None = None, limit: int = 1000) -> list[StatusPoint]: ...

    def save_health(self, reports: Sequence[HealthReport]) -> None: ...

    def assessments(self, table: TableId, *, since: datetime | None = None, limit: int = 100) -> list[HealthReport]: ...

    def save_day(self, day: date, lines: Sequence[NamespaceTotals]) -> None:
        """Stores the fleet's totals of a day, replacing what was stored for that day before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPeriods:
    """How long each kind of record is kept; None keeps it forever."""

    runs: timedelta | None = timedelta(days=365)
    jobs: timedelta | None = timedelta(days=30)
    statuses: timedelta | None = timedelta(days=365)
    assessments: timedelta | None = timedelta(days=90)
    audit: timedelta | None = timedelta(days=365)
    classes: timedelta | None = timedelta(days=365)
    """File classes whose values were compared. A class that is deleted is compared again when it next occurs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    """How many records were deleted."""

    runs: int = 0
    jobs: int = 0
    events: int = 0
    lanes: int = 0
    statuses: int = 0
    assessments: int = 0
    audit: int = 0
    classes: int = 0


class Retention(Protocol):
    """Deletes records that are past their retention period."""

    def prune(self, keep: RetentionPeriods) -> PruneResult: ...
