"""Presents the whole fleet as JSON: the overview and the locks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from icepack.api.presenters.tables import present_summary
from icepack.domain.ports.locks import TableLock
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.service.views.overview import Overview


def present_overview(overview: Overview, native_disabled: Collection[TableId]) -> dict[str, Any]:
    return {
        "tables": overview.tables,
        "trend": overview.trend,
        "maintenance": overview.maintenance,
        "sickest": [
            present_summary(summary) | {"native_disabled": summary.table in native_disabled}
            for summary in overview.sickest
        ],
        "workers": overview.workers,
        "jobs": dict(overview.jobs),
        "jobs_last_day": dict(overview.jobs_last_day),
        "cache": to_json(overview.cache),
        "native_disabled": overview.native_disabled,
    }


def present_lock(lock: TableLock) -> dict[str, Any]:
    return {**to_json(lock), "table_name": str(lock.table)}
