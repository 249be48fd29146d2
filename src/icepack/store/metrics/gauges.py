"""Gauges of the current state: queued and running jobs, locks, workers and the age of the table cache.

A few small statements that indexes answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, case, false, func, select

from icepack.domain.actions import ActionKind
from icepack.domain.observability import metric_definitions
from icepack.domain.observability.metric_definitions import Metric, Series
from icepack.store.schema import (
    GENERATION_BUILDING,
    GENERATION_CURRENT,
    JOB_OPEN,
    SLOT_HELD,
    cache_generations,
    jobs,
    native_disabled,
    table_slots,
    workers,
)
from icepack.store.sql.clock import DatabaseClock

_COMPACT = ActionKind.COMPACT.value
_COMPACTION_GAUGES = {"queued": metric_definitions.PENDING, "running": metric_definitions.ACTIVE}

_COUNT_NATIVE_DISABLED = select(func.count()).select_from(native_disabled)


class Gauges:
    def __init__(self, clock: DatabaseClock) -> None:
        self._select_now = select(clock.now())
        self._select_open_jobs = _select_open_jobs(clock)
        self._select_held_slots = _select_held_slots()

    def read(self, connection: Connection) -> dict[Series, float]:
        now = connection.execute(self._select_now).scalar_one()
        registered = set(connection.scalars(select(workers.c.name).where(workers.c.expires_at > now)))
        native_disabled_tables = connection.scalar(_COUNT_NATIVE_DISABLED) or 0
        return {
            **_queue_gauges(connection.execute(self._select_open_jobs).all(), now),
            **_lock_gauges(connection.execute(self._select_held_slots).all(), registered, now),
            **_cache_gauges(connection, now),
            Series(metric_definitions.NATIVE_DISABLED.name): float(native_disabled_tables),
        }


def _due_at() -> ColumnElement[Any]:
    """When a job became due."""
    not_before = jobs.c.not_before
    return case((not_before > jobs.c.submitted_at, not_before), else_=jobs.c.submitted_at)


def _select_open_jobs(clock: DatabaseClock) -> Select[Any]:
    """Unfinished jobs by state, action and whether they still wait; the index alone answers the query."""
    is_waiting = func.coalesce(jobs.c.waits_until > clock.now(), false()).label("is_waiting")
    oldest = func.min(_due_at()).label("oldest")
    grouped = select(jobs.c.state, jobs.c.action, is_waiting, func.count().label("job_count"), oldest).where(JOB_OPEN)
    return grouped.group_by(jobs.c.state, jobs.c.action, is_waiting)


def _select_held_slots() -> Select[Any]:
    """The holders of tables, and when the next job of each table became due."""
    with_next_job = table_slots.outerjoin(jobs, jobs.c.number == table_slots.c.head_number)
    columns = (table_slots.c.owner, table_slots.c.job_number, table_slots.c.taken_at, table_slots.c.expires_at)
    return select(*columns, _due_at().label("due_at")).select_from(with_next_job).where(SLOT_HELD)


def _queue_gauges(rows: Iterable[Row[Any]], now: datetime) -> dict[Series, float]:
    values: dict[Series, float] = {}
    oldest = now
    for row in rows:
        if row.state == "queued":
            _add(values, metric_definitions.DEPTH, row.job_count, row.action, "waiting" if row.is_waiting else "due")
            oldest = oldest if row.is_waiting else min(oldest, row.oldest)
        else:
            _add(values, metric_definitions.RUNNING, row.job_count, row.action)
        if row.action == _COMPACT:
            _add(values, _COMPACTION_GAUGES[row.state], row.job_count)
    return {**values, Series(metric_definitions.AGE.name): (now - oldest).total_seconds()}


def _lock_gauges(rows: Iterable[Row[Any]], registered: set[str], now: datetime) -> dict[Series, float]:
    values: dict[Series, float] = {}
    alive: set[str] = set()
    lost: set[str] = set()
    longest_wait = 0.0
    for row in rows:
        _add(values, metric_definitions.LOCKS, 1, "command" if row.job_number is None else "job")
        if row.job_number is not None:
            (alive if row.expires_at > now else lost).add(row.owner)
        if row.due_at is not None:
            _add(values, metric_definitions.LOCK_WAITS, 1)
            longest_wait = max(longest_wait, (now - max(row.due_at, row.taken_at)).total_seconds())
    counts = (
        *((metric_definitions.WORKERS, len(alive)), (metric_definitions.IDLE_WORKERS, len(registered - alive - lost))),
        *((metric_definitions.LOST_WORKERS, len(lost)), (metric_definitions.LOCK_WAIT, longest_wait)),
    )
    return values | {Series(metric.name): float(value) for metric, value in counts}


def _cache_gauges(connection: Connection, now: datetime) -> dict[Series, float]:
    refreshed_at = connection.scalar(select(cache_generations.c.ended_at).where(GENERATION_CURRENT))
    ended = select(cache_generations.c.state).where(~GENERATION_BUILDING)
    last_state = connection.scalar(ended.order_by(cache_generations.c.number.desc()).limit(1))
    values = {Series(metric_definitions.CACHE_FAILING.name): float(last_state == "failed")}
    if refreshed_at is not None:
        values[Series(metric_definitions.CACHE_AGE.name)] = (now - refreshed_at).total_seconds()
    return values


def _add(values: dict[Series, float], metric: Metric, count: float, *labels: str) -> None:
    series = Series(metric.name, labels)
    values[series] = values.get(series, 0.0) + count
