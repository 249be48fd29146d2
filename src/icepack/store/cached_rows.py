"""Cached tables between their rows and the domain."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from icepack.domain.health import HealthReport
from icepack.domain.queue_ports import CachedTable, Generation, TableBrief, TableSummary, brief_of
from icepack.domain.recommendation import Recommendation
from icepack.domain.run import Totals, totals
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.domain.wire import from_json, to_json


def to_row(generation: Generation, cached: CachedTable) -> dict[str, Any]:
    advice = cached.recommendation
    return {
        "table_name": str(cached.table),
        "generation": generation.number,
        "replaced_by": None,
        "removed": False,
        "catalog": cached.table.catalog,
        "metadata_location": cached.status.metadata_location,
        "inspected_at": cached.status.observed_at,
        "score": cached.health.score,
        "totals": to_json(totals(cached.status, cached.health.score)),
        "status": to_json(cached.status),
        "health": to_json(cached.health),
        "recommendation": None if advice is None else to_json(advice),
        "brief": to_json(brief_of(cached)),
    }


def to_tombstone(generation: Generation, table: TableId) -> dict[str, Any]:
    documents = ("totals", "status", "health", "recommendation", "brief")
    empty = dict.fromkeys(("replaced_by", "inspected_at", "score", *documents))
    return {
        **empty,
        "table_name": str(table),
        "generation": generation.number,
        "removed": True,
        "catalog": table.catalog,
        "metadata_location": "",
    }


def to_table(row: Row[Any]) -> CachedTable:
    return CachedTable(
        status=from_json(TableStatus, row.status),
        health=from_json(HealthReport, row.health),
        recommendation=None if row.recommendation is None else from_json(Recommendation, row.recommendation),
    )


def to_summary(row: Row[Any]) -> TableSummary:
    return TableSummary(
        table=TableId.parse(row.table_name),
        metadata_location=row.metadata_location,
        inspected_at=row.inspected_at,
        score=row.score,
        totals=from_json(Totals, row.totals),
        brief=TableBrief() if row.brief is None else from_json(TableBrief, row.brief),
    )
