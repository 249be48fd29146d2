"""Schemas of the whole fleet: overview, costs, locks and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from icepack.api.schemas.base import ResponseModel
from icepack.api.schemas.tables import TableSummaryView
from icepack.domain.job import JobState
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.ports.queries import WorkerCounts
from icepack.domain.table import TableId
from icepack.service.views.overview import CostFigures, TableFigures


class CacheView(ResponseModel):
    generation: int | None
    refreshed_at: datetime | None
    age: str | None
    refreshing_since: datetime | None
    failed_at: datetime | None
    failure: str


class OverviewView(ResponseModel):
    tables: TableFigures
    # The last 30 days, the oldest first; days without an inspection are omitted.
    trend: list[TrendPoint]
    # The runs of the last 30 days: what they saved and cost, estimated and realised.
    maintenance: CostFigures
    # The tables with the lowest scores.
    sickest: list[TableSummaryView]
    jobs: dict[JobState, int]
    # Jobs that finished within the last 24 hours, by state.
    jobs_last_day: dict[JobState, int]
    workers: WorkerCounts
    cache: CacheView
    # The number of tables for which the native rewrite is disabled.
    native_disabled: int = 0


class CostView(ResponseModel):
    """Estimated and realised costs of runs; seconds are measured, prices come from the configuration."""

    since: datetime
    until: datetime
    total: CostFigures
    by_day: dict[str, CostFigures]
    by_action: dict[str, CostFigures]
    # The tables with the longest run time.
    by_table: dict[str, CostFigures]


class LockView(ResponseModel):
    table: TableId
    table_name: str
    owner: str
    token: int
    purpose: str
    taken_at: datetime
    expires_at: datetime
    expired: bool
    job_id: UUID | None


class LocksView(ResponseModel):
    locks: list[LockView]


class AuditEntry(ResponseModel):
    number: int
    at: datetime
    actor: str
    action: str
    subject: str
    origin: str
    outcome: str
    details: dict[str, Any]


class AuditPage(ResponseModel):
    entries: list[AuditEntry]
    next_before: int | None
