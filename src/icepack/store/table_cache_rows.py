"""Converts cached tables between database rows and domain objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Row, Text, cast

from icepack.domain.health import HealthReport
from icepack.domain.ports.table_cache import CachedTable, Generation, TableBrief, TableSummary, build_brief
from icepack.domain.recommendation import Recommendation
from icepack.domain.run import Totals, compute_totals
from icepack.domain.serialization import from_json, from_json_text, to_json
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.store.schema import cache_rows

T = TypeVar("T")


def to_row(generation: Generation, cached: CachedTable) -> dict[str, Any]:
    recommendation = cached.recommendation
    return {
        "table_name": str(cached.table),
        "generation": generation.number,
        "replaced_by": None,
        "removed": False,
        "catalog": cached.table.catalog,
        "metadata_location": cached.status.metadata_location,
        "inspected_at": cached.status.observed_at,
        "score": cached.health.score,
        "totals": to_json(compute_totals(cached.status, cached.health.score)),
        "status": to_json(cached.status),
        "health": to_json(cached.health),
        "recommendation": None if recommendation is None else to_json(recommendation),
        "brief": to_json(build_brief(cached)),
    }


def to_tombstone(generation: Generation, table: TableId) -> dict[str, Any]:
    """A row that marks a table as removed."""
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


# The documents as text, so that they are parsed once: directly into domain objects.
DOCUMENTS = [cast(cache_rows.c[name], Text).label(name) for name in ("status", "health", "recommendation")]


def to_table(row: Mapping[Any, Any]) -> CachedTable:
    recommendation = row["recommendation"]
    return CachedTable(
        status=_parse(TableStatus, row["status"]),
        health=_parse(HealthReport, row["health"]),
        recommendation=None if recommendation is None else _parse(Recommendation, recommendation),
    )


def _parse(kind: type[T], text: str) -> T:
    try:
        return from_json_text(kind, text)
    except ValidationError:
        # A table property contains a lone surrogate, which only Python's own JSON parser accepts.
        return from_json(kind, json.loads(text))


def to_summary(row: Row[Any]) -> TableSummary:
    return TableSummary(
        table=TableId.parse(row.table_name),
        metadata_location=row.metadata_location,
        inspected_at=row.inspected_at,
        score=row.score,
        totals=from_json(Totals, row.totals),
        brief=TableBrief() if row.brief is None else from_json(TableBrief, row.brief),
    )
