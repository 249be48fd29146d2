"""Lists to show, read straight from their rows: nothing is taken apart only to be put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Engine, Integer, Select, Text, and_, bindparam, func, select

from icepack.domain.access import EVERYTHING, Scopes
from icepack.domain.actions import ActionKind
from icepack.domain.job import JOB_VERSION, JobEvent, JobFilter, JobProgress, JobState
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.ports.access import (
    Board,
    Committer,
    CostLine,
    CostSum,
    Document,
    JobDocuments,
    JobText,
    RunDocuments,
    RunningJob,
    TableDocument,
    WorkerCounts,
)
from icepack.domain.run import RunState
from icepack.domain.serialization import from_json, to_json
from icepack.domain.table import TableId
from icepack.store.queries.job_list import JobTexts
from icepack.store.queue.rows import conditions, to_event
from icepack.store.schema import (
    DUE,
    EFFECT_COLUMNS,
    HELD,
    cache_rows,
    constant,
    events,
    fleet_days,
    job_keys,
    jobs,
    lanes,
    runs,
    table_statuses,
    workers,
)
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.dates import day_of
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.query import Query
from icepack.store.sql.scopes import within
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import reading
from icepack.store.table_cache import visible

_HEAVY = ("details", "digest", "catalog", "namespace")
_LISTED = [column for column in jobs.c if column.name not in {*_HEAVY, "counted"}]
# Plain text: the names that columns have are of a kind of their own, which takes long to write as JSON.
_NAMES = tuple(str(column.name) for column in _LISTED)
_SPANS = ("estimated_dollars", "estimated_seconds", "realised_seconds")
_COUNTS = ("get_requests", "put_requests", *EFFECT_COLUMNS)
_DAY_SUMS = ("tables", "score_sum", "data_files", "delete_files", "bytes", "records")
_NO_PROGRESS = to_json(JobProgress())
_DOCUMENTS = (cache_rows.c.status, cache_rows.c.health, cache_rows.c.recommendation)


class SqlBoard(Board):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._texts = JobTexts(engine)
        named, rows = bindparam("table", type_=Text), bindparam("rows", type_=Integer)
        self._table = Query(engine, visible(*_DOCUMENTS).where(cache_rows.c.table_name == named))
        newest = (runs.c.started_at.desc(), runs.c.job_id.desc())
        run_rows = select(runs.c.record, runs.c.started_at).where(runs.c.table_name == named)
        self._runs = Query(engine, run_rows.order_by(*newest).limit(rows))
        older = runs.c.started_at < bindparam("before", type_=runs.c.started_at.type)
        self._older_runs = Query(engine, run_rows.where(older).order_by(*newest).limit(rows))
        seen_at = table_statuses.c.observed_at
        points = select(seen_at, table_statuses.c.totals).where(table_statuses.c.table_name == named)
        self._points = Query(engine, points.order_by(seen_at.desc()).limit(rows))

    def jobs(
        self, wanted: JobFilter, scopes: Scopes = EVERYTHING, *, limit: int = 50, before: int | None = None
    ) -> JobDocuments:
        mine = within(jobs, scopes, self._engine.dialect)
        statement = select(*_LISTED).where(mine, *conditions(wanted, before)).order_by(jobs.c.number.desc())
        rows = self._rows(statement.limit(limit + 1))
        found = tuple(job_document(row) for row in rows[:limit])
        return JobDocuments(jobs=found, next_before=found[-1]["number"] if len(rows) > limit else None)

    def job_texts(
        self, wanted: JobFilter, scopes: Scopes = EVERYTHING, *, limit: int = 50, before: int | None = None
    ) -> tuple[list[JobText], int | None]:
        with plain_faults(self._engine.url):
            found = self._texts.page(wanted, scopes, limit + 1, before)
        return found[:limit], found[limit - 1].number if len(found) > limit else None

    def job_counts(self, scopes: Scopes = EVERYTHING) -> Mapping[JobState, int]:
        mine = within(jobs, scopes, self._engine.dialect)
        found = {row[0]: row[1] for row in self._rows(select(jobs.c.state, func.count()).where(mine).group_by("state"))}
        return {state: found.get(state.value, 0) for state in JobState}

    def ended_counts(self, since: datetime, scopes: Scopes = EVERYTHING) -> Mapping[JobState, int]:
        mine = within(jobs, scopes, self._engine.dialect)
        ended = select(jobs.c.state, func.count()).where(jobs.c.finished_at >= since, mine).group_by("state")
        found = {row[0]: row[1] for row in self._rows(ended)}
        return {state: found.get(state.value, 0) for state in JobState if state.is_final}

    def trend(self, since: date, scopes: Scopes = EVERYTHING) -> list[TrendPoint]:
        mine = within(fleet_days, scopes, self._engine.dialect)
        sums = [func.sum(fleet_days.c[name]) for name in _DAY_SUMS]
        statement = select(fleet_days.c.day, *sums).where(fleet_days.c.day >= since.isoformat(), mine)
        rows = self._rows(statement.group_by(fleet_days.c.day).order_by(fleet_days.c.day))
        return [_trend_point(row[0], dict(zip(_DAY_SUMS, map(int, row[1:]), strict=True))) for row in rows]

    def has_key(self, key: str) -> bool:
        return bool(self._rows(select(job_keys.c.key).where(job_keys.c.key == storable(key))))

    def keyed_jobs(self, prefix: str) -> list[UUID]:
        # SQLite's LIKE takes small letters for capitals, so the beginning is compared once more.
        exactly = func.substr(job_keys.c.key, 1, len(prefix)) == prefix
        begins = and_(job_keys.c.key.startswith(prefix, autoescape=True), exactly)
        statement = select(jobs.c.id).join(job_keys, job_keys.c.job_id == jobs.c.id).where(begins)
        return [row.id for row in self._rows(statement.order_by(jobs.c.number))]

    def oldest_due(self) -> datetime | None:
        head = lanes.join(jobs, jobs.c.number == lanes.c.head_number)
        waiting = select(func.min(jobs.c.submitted_at)).select_from(head).where(DUE, lanes.c.owner.is_(None))
        found: datetime | None = self._rows(waiting)[0][0]
        return found

    def events_after(self, number: int, *, limit: int = 1000) -> list[JobEvent]:
        statement = select(events).where(events.c.number > number, events.c.job_id.is_not(None))
        return [to_event(row._mapping) for row in self._rows(statement.order_by(events.c.number).limit(limit))]

    def newest_event(self) -> int:
        return self._rows(select(func.max(events.c.number)))[0][0] or 0

    def running(self) -> list[RunningJob]:
        statement = select(jobs.c.id, jobs.c.table_name, jobs.c.progress, jobs.c.action, jobs.c.started_at)
        rows = self._rows(statement.where(jobs.c.state == constant(JobState.RUNNING.value)))
        return [
            RunningJob(
                job_id=row.id,
                table=TableId.parse(row.table_name),
                progress=from_json(JobProgress, row.progress),
                kind=ActionKind(row.action),
                started_at=row.started_at,
            )
            for row in rows
        ]

    def workers(self) -> WorkerCounts:
        now = self._clock.now()
        held = select(lanes.c.owner).where(HELD, lanes.c.job_number.is_not(None), lanes.c.expires_at > now)
        busy = {row.owner for row in self._rows(held.distinct())}
        here = {row.name for row in self._rows(select(workers.c.name).where(workers.c.expires_at > now))}
        return WorkerCounts(busy=len(busy), idle=len(here - busy))

    def table(self, table: TableId) -> TableDocument | None:
        row = self._table.first(table=str(table))
        return None if row is None else TableDocument(**row)

    def runs(self, table: TableId, *, limit: int = 50, before: datetime | None = None) -> RunDocuments:
        values = {"table": str(table), "rows": limit + 1}
        rows = self._runs.all(**values) if before is None else self._older_runs.all(**values, before=before)
        more = rows[limit - 1]["started_at"] if len(rows) > limit else None
        return RunDocuments(runs=tuple(row["record"] for row in rows[:limit]), next_before=more)

    def committers(self, table: TableId, ids: Sequence[UUID]) -> Mapping[UUID, Committer]:
        joined = runs.outerjoin(jobs, jobs.c.id == runs.c.job_id)
        statement = select(runs.c.job_id, runs.c.action, jobs.c.number).select_from(joined)
        rows = self._rows(statement.where(runs.c.table_name == str(table), runs.c.job_id.in_(ids))) if ids else ()
        return {row.job_id: Committer(action=ActionKind(row.action), has_job=row.number is not None) for row in rows}

    def points(self, table: TableId, *, limit: int = 200) -> list[Document]:
        """The newest, oldest of them first, as a chart wants them."""
        return [dict(row) for row in reversed(self._points.all(table=str(table), rows=limit))]

    def costs_by_day(self, since: datetime, scopes: Scopes = EVERYTHING) -> list[CostLine]:
        day = day_of(runs.c.started_at)
        return self._costs(since, scopes, day, runs.c.action)

    def costs_by_table(self, since: datetime, scopes: Scopes = EVERYTHING, *, limit: int = 20) -> list[CostLine]:
        lines = self._costs(since, scopes, runs.c.table_name)
        return sorted(lines, key=lambda line: (-line.sums.realised_seconds, line.key))[:limit]

    def _costs(self, since: datetime, scopes: Scopes, *keys: Any) -> list[CostLine]:
        sums = [func.sum(runs.c[name]) for name in (*_SPANS, *_COUNTS)]
        statement = select(*keys, func.count(), *sums).where(self._ended(since, scopes)).group_by(*keys).order_by(*keys)
        width = len(keys)
        return [
            CostLine(key=tuple(row[:width]), sums=_sums(row[width], row[width + 1 :])) for row in self._rows(statement)
        ]

    def _ended(self, since: datetime, scopes: Scopes) -> ColumnElement[bool]:
        mine = within(runs, scopes, self._engine.dialect)
        return and_(runs.c.started_at >= since, runs.c.state != constant(RunState.RUNNING.value), mine)

    def _rows(self, statement: Select[Any]) -> Any:
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            return connection.execute(statement).all()


def _sums(count: int, sums: Sequence[Any]) -> CostSum:
    """PostgreSQL's sums of whole numbers are decimals."""
    spans = dict(zip(_SPANS, sums, strict=False))
    counts = dict(zip(_COUNTS, map(int, sums[len(_SPANS) :]), strict=True))
    return CostSum(runs=count, **spans, **counts)


def _trend_point(day: str, sums: dict[str, int]) -> TrendPoint:
    score = sums.pop("score_sum")
    average = round(score / sums["tables"], 1) if sums["tables"] else None
    return TrendPoint(day=day, average_score=average, **sums)


@lru_cache(maxsize=20_000)
def _table_document(name: str) -> Document:
    table = TableId.parse(name)
    return {"catalog": table.catalog, "namespace": list(table.namespace), "name": table.name}


def job_document(row: Sequence[Any]) -> Document:
    """A job as `to_json` has it, without its details; the action is taken as it is kept."""
    document = dict(zip(_NAMES, row, strict=True))
    document["action"] = document.pop("parameters")
    document["priority"] = -document.pop("rank")
    document["progress"] = {**_NO_PROGRESS, **document["progress"]}
    document["table"] = _table_document(document["table_name"])
    document["version"] = JOB_VERSION
    return document
