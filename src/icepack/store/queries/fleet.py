"""Read-only queries for the API in SQLite or PostgreSQL. Implements the port `FleetQueries`.

JSON documents are returned as they are stored, without converting them to domain objects and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Engine, Integer, Select, Table, Text, and_, bindparam, func, select

from icepack.domain.access import ALL_TABLES, Scopes
from icepack.domain.actions import ActionKind
from icepack.domain.job import JOB_VERSION, JobEvent, JobFilter, JobProgress, JobState
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.ports.queries import (
    Committer,
    CostLine,
    CostSum,
    Document,
    FleetQueries,
    JobDocuments,
    JobListItem,
    RunDocuments,
    RunningJob,
    TableDocument,
    WorkerCounts,
)
from icepack.domain.run import RunState
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.store.queries.job_filters import filter_conditions, filter_values
from icepack.store.queries.job_list import JobListQuery
from icepack.store.queue.rows import (
    JOB_COLUMNS,
    LISTED_FIELDS,
    RUNNING_JOB_COLUMNS,
    to_document,
    to_event,
    to_running_job,
)
from icepack.store.schema import (
    EFFECT_COLUMNS,
    JOB_DUE,
    SLOT_HELD,
    cache_rows,
    events,
    fleet_days,
    job_keys,
    jobs,
    runs,
    table_slots,
    table_statuses,
    workers,
)
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.dates import utc_date
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.query import PreparedQuery
from icepack.store.sql.scopes import scope_condition
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import read_connection
from icepack.store.sql.types import text_literal
from icepack.store.table_cache import select_visible

_FLOAT_SUMS = ("estimated_dollars", "estimated_seconds", "realised_seconds")
_INTEGER_SUMS = ("get_requests", "put_requests", *EFFECT_COLUMNS)
_DAY_SUMS = ("tables", "score_sum", "data_files", "delete_files", "bytes", "records")
_NO_PROGRESS = to_json(JobProgress())
_TABLE_DOCUMENTS = (cache_rows.c.status, cache_rows.c.health, cache_rows.c.recommendation)


class SqlFleetQueries(FleetQueries):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._job_list = JobListQuery(engine)
        name, limit = bindparam("table", type_=Text), bindparam("limit_rows", type_=Integer)
        self._select_table = PreparedQuery(
            engine, select_visible(*_TABLE_DOCUMENTS).where(cache_rows.c.table_name == name)
        )
        newest_first = (runs.c.started_at.desc(), runs.c.job_id.desc())
        of_table = select(runs.c.record, runs.c.started_at).where(runs.c.table_name == name)
        self._select_runs = PreparedQuery(engine, of_table.order_by(*newest_first).limit(limit))
        older = of_table.where(runs.c.started_at < bindparam("before", type_=runs.c.started_at.type))
        self._select_older_runs = PreparedQuery(engine, older.order_by(*newest_first).limit(limit))
        observed_at = table_statuses.c.observed_at
        points = select(observed_at, table_statuses.c.totals).where(table_statuses.c.table_name == name)
        self._select_points = PreparedQuery(engine, points.order_by(observed_at.desc()).limit(limit))

    def jobs(
        self, wanted: JobFilter, scopes: Scopes = ALL_TABLES, *, limit: int = 50, before: int | None = None
    ) -> JobDocuments:
        values = filter_values(wanted, before)
        statement = select(*(JOB_COLUMNS[name] for name in LISTED_FIELDS))
        statement = statement.where(self._visible(jobs, scopes), *filter_conditions(values))
        rows = self._fetch(statement.order_by(jobs.c.number.desc()).limit(limit + 1), values)
        documents = tuple(_job_document(row) for row in rows[:limit])
        return JobDocuments(jobs=documents, next_before=documents[-1]["number"] if len(rows) > limit else None)

    def list_jobs_as_json(
        self, wanted: JobFilter, scopes: Scopes = ALL_TABLES, *, limit: int = 50, before: int | None = None
    ) -> tuple[list[JobListItem], int | None]:
        with translate_errors(self._engine.url):
            items = self._job_list.fetch_page(wanted, scopes, limit + 1, before)
        return items[:limit], items[limit - 1].number if len(items) > limit else None

    def job_counts(self, scopes: Scopes = ALL_TABLES) -> Mapping[JobState, int]:
        statement = select(jobs.c.state, func.count()).where(self._visible(jobs, scopes)).group_by("state")
        counts = {row[0]: row[1] for row in self._fetch(statement)}
        return {state: counts.get(state.value, 0) for state in JobState}

    def ended_counts(self, since: datetime, scopes: Scopes = ALL_TABLES) -> Mapping[JobState, int]:
        is_recent = jobs.c.finished_at >= since
        statement = select(jobs.c.state, func.count()).where(is_recent, self._visible(jobs, scopes)).group_by("state")
        counts = {row[0]: row[1] for row in self._fetch(statement)}
        return {state: counts.get(state.value, 0) for state in JobState if state.is_final}

    def trend(self, since: date, scopes: Scopes = ALL_TABLES) -> list[TrendPoint]:
        sums = [func.sum(fleet_days.c[name]) for name in _DAY_SUMS]
        is_recent = fleet_days.c.day >= since.isoformat()
        statement = select(fleet_days.c.day, *sums).where(is_recent, self._visible(fleet_days, scopes))
        rows = self._fetch(statement.group_by(fleet_days.c.day).order_by(fleet_days.c.day))
        return [_to_trend_point(row[0], dict(zip(_DAY_SUMS, map(int, row[1:]), strict=True))) for row in rows]

    def has_key(self, key: str) -> bool:
        return bool(self._fetch(select(job_keys.c.key).where(job_keys.c.key == clean_text(key))))

    def keyed_jobs(self, prefix: str) -> list[UUID]:
        # SQLite's LIKE ignores case, so the prefix is compared exactly as well.
        has_exact_prefix = func.substr(job_keys.c.key, 1, len(prefix)) == prefix
        has_prefix = and_(job_keys.c.key.startswith(prefix, autoescape=True), has_exact_prefix)
        statement = select(jobs.c.id).join(job_keys, job_keys.c.job_id == jobs.c.id).where(has_prefix)
        return [row.id for row in self._fetch(statement.order_by(jobs.c.number))]

    def oldest_due(self) -> datetime | None:
        heads = table_slots.join(jobs, jobs.c.number == table_slots.c.head_number)
        oldest = select(func.min(jobs.c.submitted_at)).select_from(heads).where(JOB_DUE, table_slots.c.owner.is_(None))
        submitted_at: datetime | None = self._fetch(oldest)[0][0]
        return submitted_at

    def events_after(self, number: int, *, limit: int = 1000) -> list[JobEvent]:
        statement = select(events).where(events.c.number > number, events.c.job_id.is_not(None))
        return [to_event(row._mapping) for row in self._fetch(statement.order_by(events.c.number).limit(limit))]

    def newest_event(self) -> int:
        return self._fetch(select(func.max(events.c.number)))[0][0] or 0

    def running(self) -> list[RunningJob]:
        is_running = jobs.c.state == text_literal(JobState.RUNNING.value)
        return [to_running_job(row._mapping) for row in self._fetch(select(*RUNNING_JOB_COLUMNS).where(is_running))]

    def workers(self) -> WorkerCounts:
        now = self._clock.now()
        is_busy = and_(SLOT_HELD, table_slots.c.job_number.is_not(None), table_slots.c.expires_at > now)
        busy = {row.owner for row in self._fetch(select(table_slots.c.owner).where(is_busy).distinct())}
        registered = {row.name for row in self._fetch(select(workers.c.name).where(workers.c.expires_at > now))}
        return WorkerCounts(busy=len(busy), idle=len(registered - busy))

    def table(self, table: TableId) -> TableDocument | None:
        row = self._select_table.fetch_one(table=str(table))
        return None if row is None else TableDocument(**row)

    def runs(self, table: TableId, *, limit: int = 50, before: datetime | None = None) -> RunDocuments:
        values = {"table": str(table), "limit_rows": limit + 1}
        if before is None:
            rows = self._select_runs.fetch_all(**values)
        else:
            rows = self._select_older_runs.fetch_all(**values, before=before)
        next_before = rows[limit - 1]["started_at"] if len(rows) > limit else None
        return RunDocuments(runs=tuple(row["record"] for row in rows[:limit]), next_before=next_before)

    def committers(self, table: TableId, ids: Sequence[UUID]) -> Mapping[UUID, Committer]:
        if not ids:
            return {}
        with_job = runs.outerjoin(jobs, jobs.c.id == runs.c.job_id)
        statement = select(runs.c.job_id, runs.c.action, jobs.c.number).select_from(with_job)
        rows = self._fetch(statement.where(runs.c.table_name == str(table), runs.c.job_id.in_(ids)))
        return {row.job_id: Committer(action=ActionKind(row.action), has_job=row.number is not None) for row in rows}

    def points(self, table: TableId, *, limit: int = 200) -> list[Document]:
        """The newest points in chronological order, for a chart."""
        return [dict(row) for row in reversed(self._select_points.fetch_all(table=str(table), limit_rows=limit))]

    def costs_by_day(self, since: datetime, scopes: Scopes = ALL_TABLES) -> list[CostLine]:
        return self._sum_costs(since, scopes, utc_date(runs.c.started_at), runs.c.action)

    def costs_by_table(self, since: datetime, scopes: Scopes = ALL_TABLES, *, limit: int = 20) -> list[CostLine]:
        lines = self._sum_costs(since, scopes, runs.c.table_name)
        return sorted(lines, key=lambda line: (-line.sums.realised_seconds, line.key))[:limit]

    def _sum_costs(self, since: datetime, scopes: Scopes, *keys: Any) -> list[CostLine]:
        """Costs of the runs that have ended, grouped by the keys."""
        sums = [func.sum(runs.c[name]) for name in (*_FLOAT_SUMS, *_INTEGER_SUMS)]
        has_ended = and_(runs.c.started_at >= since, runs.c.state != text_literal(RunState.RUNNING.value))
        statement = select(*keys, func.count(), *sums).where(has_ended, self._visible(runs, scopes))
        rows = self._fetch(statement.group_by(*keys).order_by(*keys))
        width = len(keys)
        return [CostLine(key=tuple(row[:width]), sums=_to_cost_sum(row[width], row[width + 1 :])) for row in rows]

    def _visible(self, table: Table, scopes: Scopes) -> ColumnElement[bool]:
        return scope_condition(table, scopes, self._engine.dialect)

    def _fetch(self, statement: Select[Any], values: Mapping[str, Any] | None = None) -> Any:
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            return connection.execute(statement, values).all()


def _to_cost_sum(count: int, sums: Sequence[Any]) -> CostSum:
    """Integer sums are converted because PostgreSQL returns them as decimals."""
    floats = dict(zip(_FLOAT_SUMS, sums, strict=False))
    integers = dict(zip(_INTEGER_SUMS, map(int, sums[len(_FLOAT_SUMS) :]), strict=True))
    return CostSum(runs=count, **floats, **integers)


def _to_trend_point(day: str, sums: dict[str, int]) -> TrendPoint:
    score = sums.pop("score_sum")
    average = round(score / sums["tables"], 1) if sums["tables"] else None
    return TrendPoint(day=day, average_score=average, **sums)


@lru_cache(maxsize=20_000)
def _table_document(name: str) -> Document:
    table = TableId.parse(name)
    return {"catalog": table.catalog, "namespace": list(table.namespace), "name": table.name}


def _job_document(row: Sequence[Any]) -> Document:
    """A job as `to_json` renders it, without its details."""
    document = to_document(row)
    progress = {**_NO_PROGRESS, **document["progress"]}
    return {**document, "table": _table_document(document["table_name"]), "progress": progress, "version": JOB_VERSION}
