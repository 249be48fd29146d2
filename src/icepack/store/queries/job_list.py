"""Pages of jobs as JSON, rendered directly from rows; values that are stored as JSON are not parsed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import Engine, Select, Text, cast, select

from icepack.domain.access import Scopes
from icepack.domain.job import JOB_VERSION, JobFilter, JobProgress, JobState
from icepack.domain.ports.queries import JobListItem
from icepack.domain.serialization import to_json_text
from icepack.domain.table import TableId
from icepack.store.queries.job_filters import filter_conditions, filter_values
from icepack.store.queue.rows import JOB_COLUMNS, LISTED_FIELDS, to_document
from icepack.store.schema import jobs
from icepack.store.sql.prepared import PreparedStatement
from icepack.store.sql.scopes import scope_condition
from icepack.store.sql.transaction import read_connection
from icepack.store.sql.types import UtcDateTime, integer_literal

# The caches are cleared when they have this many entries.
MAX_CACHED_STATEMENTS = 256
MAX_CACHED_JOBS = 5000

_JSON_FIELDS = ("action", "progress")
_COLUMNS = [
    cast(JOB_COLUMNS[name], Text).label(name) if name in _JSON_FIELDS else JOB_COLUMNS[name] for name in LISTED_FIELDS
]
_NUMBER = LISTED_FIELDS.index("number")
_TIME_FIELDS = tuple(name for name in LISTED_FIELDS if isinstance(JOB_COLUMNS[name].type, UtcDateTime))
_NO_PROGRESS = to_json_text(JobProgress())


class JobListQuery:
    """Compiles a statement once per set of filters: SQLAlchemy's work per call would cost more than the query."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._statements: dict[Any, PreparedStatement] = {}
        self._finished: dict[int, JobListItem] = {}

    def fetch_page(self, wanted: JobFilter, scopes: Scopes, limit: int, before: int | None) -> list[JobListItem]:
        values = filter_values(wanted, before)
        rows = self._fetch_rows((tuple(values), scopes, limit), values)
        return [self._finished.get(row[_NUMBER]) or self._render(row) for row in rows]

    def _render(self, row: Sequence[Any]) -> JobListItem:
        """Render a job; one that has finished does not change any more and is cached."""
        item = _render_job(row)
        if item.state.is_final:
            if len(self._finished) >= MAX_CACHED_JOBS:
                self._finished.clear()
            self._finished[item.number] = item
        return item

    def _fetch_rows(self, key: Any, values: dict[str, Any]) -> Sequence[Any]:
        if self._engine.dialect.name == "postgresql":
            return self._prepare(key).fetch_tuples(self._engine, values)
        with read_connection(self._engine) as connection:
            return connection.execute(self._select(*key), values).all()

    def _prepare(self, key: Any) -> PreparedStatement:
        if key not in self._statements:
            if len(self._statements) >= MAX_CACHED_STATEMENTS:
                self._statements.clear()
            self._statements[key] = PreparedStatement(self._select(*key), self._engine.dialect)
        return self._statements[key]

    def _select(self, filters: tuple[str, ...], scopes: Scopes, limit: int) -> Select[Any]:
        visible = scope_condition(jobs, scopes, self._engine.dialect)
        statement = select(*_COLUMNS).where(visible, *filter_conditions(filters))
        return statement.order_by(jobs.c.number.desc()).limit(integer_literal(limit))


def _render_job(row: Sequence[Any]) -> JobListItem:
    document = to_document(row)
    progress = document["progress"] if document["progress"] not in ("{}", None) else _NO_PROGRESS
    times = {name: _to_utc(document[name]) for name in _TIME_FIELDS}
    fragments = {
        "table": _render_table(document["table_name"]),
        "action": orjson.Fragment(document["action"]),
        "progress": orjson.Fragment(progress),
    }
    text = _dump({**document, **times, **fragments, "version": JOB_VERSION})
    return JobListItem(
        number=document["number"],
        job_id=str(document["id"]),
        state=JobState(document["state"]),
        submitted_at=_dump(times["submitted_at"]),
        started_at=document["started_at"],
        estimated_seconds=document["estimated_seconds"],
        progress=progress,
        text=text[1:-1],
    )


def _dump(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_UTC_Z).decode()


def _to_utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.astimezone(UTC)


@lru_cache(maxsize=20_000)
def _render_table(name: str) -> orjson.Fragment:
    return orjson.Fragment(to_json_text(TableId.parse(name)))
