"""The filters of job lists as SQL conditions.

Values are bound by name: a statement depends only on which filters are set, so it can be compiled once and reused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Text, bindparam, or_

from icepack.domain.job import JobFilter
from icepack.store.schema import jobs
from icepack.store.sql.types import UtcDateTime

_EXACT_COLUMNS = {
    "table": jobs.c.table_name,
    "catalog": jobs.c.catalog,
    "kind": jobs.c.action,
    "requester": jobs.c.requester,
}
_EXACT_CONDITIONS = {name: column == bindparam(name, type_=Text) for name, column in _EXACT_COLUMNS.items()}
_SINCE, _UNTIL = (bindparam(name, type_=UtcDateTime()) for name in ("since", "until"))
_RANGE_CONDITIONS = {
    "before": jobs.c.number < bindparam("before", type_=jobs.c.number.type),
    "since": or_(jobs.c.finished_at.is_(None), jobs.c.finished_at >= _SINCE),
    "until": jobs.c.submitted_at < _UNTIL,
}
_STATE_PREFIX = "state_"


def filter_values(wanted: JobFilter, before: int | None) -> dict[str, Any]:
    """The values of the filters that are set; `before` is the number of the last job on the previous page."""
    exact = {name: str(value) for name in _EXACT_COLUMNS if (value := getattr(wanted, name)) is not None}
    states = {f"{_STATE_PREFIX}{index}": state.value for index, state in enumerate(sorted(wanted.states))}
    ranges = {"before": before, "since": wanted.since, "until": wanted.until}
    return {**exact, **states, **{name: value for name, value in ranges.items() if value is not None}}


def filter_conditions(names: Iterable[str]) -> list[ColumnElement[bool]]:
    """The conditions for the filters that are set, given the names of their values."""
    conditions = {**_EXACT_CONDITIONS, **_RANGE_CONDITIONS}
    names = list(names)
    states = [bindparam(name, type_=Text) for name in names if name.startswith(_STATE_PREFIX)]
    found = [conditions[name] for name in names if name in conditions]
    return [*found, jobs.c.state.in_(states)] if states else found
