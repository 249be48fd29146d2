"""Jobs as lists show them, written as JSON straight from their rows: what is JSON in a column stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any

from sqlalchemy import Engine, Integer, Select, Text, bindparam, cast, literal_column, or_, select

from icepack.domain.access import Scopes
from icepack.domain.job import JOB_VERSION, JobFilter, JobProgress, JobState
from icepack.domain.ports.access import JobText
from icepack.domain.serialization import to_json_text
from icepack.domain.table import TableId
from icepack.store.schema import UtcDateTime, jobs
from icepack.store.sql.prepared import Prepared
from icepack.store.sql.scopes import within
from icepack.store.sql.transaction import reading

MOST_STATEMENTS = 256
MOST_ENDED = 5000
_JSON = ("parameters", "progress")
_LEFT_OUT = {"details", "digest", "catalog", "namespace", "counted"}
_COLUMNS = [
    cast(column, Text).label(column.name) if column.name in _JSON else column
    for column in jobs.c
    if column.name not in _LEFT_OUT
]
_NAMES = tuple(str(column.name) for column in _COLUMNS)
_NUMBER = _NAMES.index("number")
_EQUAL = {"table": jobs.c.table_name, "catalog": jobs.c.catalog, "kind": jobs.c.action, "requester": jobs.c.requester}
_SINCE, _UNTIL = (bindparam(name, type_=UtcDateTime()) for name in ("since", "until"))
_BOUNDS = {
    "before": jobs.c.number < bindparam("before", type_=jobs.c.number.type),
    "since": or_(jobs.c.finished_at.is_(None), jobs.c.finished_at >= _SINCE),
    "until": jobs.c.submitted_at < _UNTIL,
}
_NO_PROGRESS = to_json_text(JobProgress())


class JobTexts:
    """Statements are compiled once for each set of filters: SQLAlchemy's bookkeeping would cost more than the query."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._prepared: dict[Any, Prepared] = {}
        self._ended: dict[int, JobText] = {}

    def page(self, wanted: JobFilter, scopes: Scopes, rows: int, before: int | None) -> list[JobText]:
        given = {name: str(value) for name in _EQUAL if (value := getattr(wanted, name)) is not None}
        states = {f"state_{place}": state for place, state in enumerate(sorted(wanted.states))}
        bounds = {"before": before, "since": wanted.since, "until": wanted.until}
        values: dict[str, Any] = {**given, **states, **{k: v for k, v in bounds.items() if v is not None}}
        shape = (tuple(values), scopes, rows)
        return [self._ended.get(row[_NUMBER]) or self._written(row) for row in self._rows(shape, values)]

    def _written(self, row: Sequence[Any]) -> JobText:
        """A job that has ended stays as it is, and is written once."""
        made = _text(dict(zip(_NAMES, row, strict=True)))
        if made.state.is_final:
            if len(self._ended) >= MOST_ENDED:
                self._ended.clear()
            self._ended[made.number] = made
        return made

    def _rows(self, shape: Any, values: dict[str, Any]) -> Sequence[Any]:
        if self._engine.dialect.name == "postgresql":
            return self._statement(shape).all(self._engine, values)
        with reading(self._engine) as connection:
            return connection.execute(self._select(*shape), values).all()

    def _statement(self, shape: Any) -> Prepared:
        if shape not in self._prepared:
            if len(self._prepared) >= MOST_STATEMENTS:
                self._prepared.clear()
            self._prepared[shape] = Prepared(self._select(*shape), self._engine.dialect)
        return self._prepared[shape]

    def _select(self, names: tuple[str, ...], scopes: Scopes, rows: int) -> Select[Any]:
        narrowing = [_EQUAL[name] == bindparam(name, type_=Text) for name in names if name in _EQUAL]
        states = [bindparam(name, type_=Text) for name in names if name.startswith("state_")]
        if states:
            narrowing.append(jobs.c.state.in_(states))
        narrowing += [_BOUNDS[name] for name in names if name in _BOUNDS]
        found = select(*_COLUMNS).where(within(jobs, scopes, self._engine.dialect), *narrowing)
        # Written into the statement: a bound limit would let a prepared plan expect any number of rows, and sort them.
        return found.order_by(jobs.c.number.desc()).limit(literal_column(str(int(rows)), Integer))


def _text(row: dict[str, Any]) -> JobText:
    progress = _NO_PROGRESS if row["progress"] in ("{}", None) else row["progress"]
    text = (
        f'"id":"{row["id"]}","number":{row["number"]},"table":{_table(row["table_name"])},'
        f'"table_name":{_quoted(row["table_name"])},"action":{row["parameters"]},"state":"{row["state"]}",'
        f'"priority":{-row["rank"]},"max_attempts":{row["max_attempts"]},"submitted_at":{_time(row["submitted_at"])},'
        f'"attempts":{row["attempts"]},"not_before":{_time(row["not_before"])},'
        f'"waits_until":{_time(row["waits_until"])},"started_at":{_time(row["started_at"])},'
        f'"finished_at":{_time(row["finished_at"])},"requester":{_quoted(row["requester"])},'
        f'"idempotency_key":{_optional(row["idempotency_key"])},"trace_context":{_quoted(row["trace_context"])},'
        f'"worker":{_optional(row["worker"])},"fence":{_plain(row["fence"])},'
        f'"cancel_requested_at":{_time(row["cancel_requested_at"])},"message":{_quoted(row["message"])},'
        f'"progress":{progress},"retry_of":{_id(row["retry_of"])},"collapsed_into":{_id(row["collapsed_into"])},'
        f'"estimated_seconds":{_plain(row["estimated_seconds"])},"version":{JOB_VERSION}'
    )
    return JobText(
        number=row["number"],
        job_id=str(row["id"]),
        state=JobState(row["state"]),
        submitted_at=_time(row["submitted_at"]),
        started_at=row["started_at"],
        estimated_seconds=row["estimated_seconds"],
        progress=progress,
        text=text,
    )


_quoted = encode_basestring_ascii


def _optional(text: str | None) -> str:
    return "null" if text is None else _quoted(text)


def _plain(number: float | None) -> str:
    return "null" if number is None or not isfinite(number) else repr(number)


def _id(value: Any) -> str:
    return "null" if value is None else f'"{value}"'


def _time(moment: datetime | None) -> str:
    if moment is None:
        return "null"
    return f'"{moment.astimezone(UTC).isoformat().removesuffix("+00:00")}Z"'


@lru_cache(maxsize=20_000)
def _table(name: str) -> str:
    return to_json_text(TableId.parse(name))
