"""What is queued, running and held right now, and who waits for work, in a few small statements."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, case, false, func, select

from icepack.domain.actions import ActionKind
from icepack.domain.observability import metric_definitions
from icepack.domain.observability.metric_definitions import Metric, Series
from icepack.store.schema import BUILDING, CURRENT, HELD, OPEN, cache_generations, jobs, lanes, native_disabled, workers
from icepack.store.sql.clock import DatabaseClock

COMPACT = ActionKind.COMPACT.value
_COMPACTIONS = {"queued": metric_definitions.PENDING, "running": metric_definitions.ACTIVE}

_NATIVE_DISABLED = select(func.count()).select_from(native_disabled)


class Gauges:
    def __init__(self, clock: DatabaseClock) -> None:
        self._now = select(clock.now())
        self._open = _open_jobs(clock)
        self._held = _held_lanes()

    def read(self, connection: Connection) -> dict[Series, float]:
        now = connection.execute(self._now).scalar_one()
        here = set(connection.scalars(select(workers.c.name).where(workers.c.expires_at > now)))
        return {
            **_of_queue(connection.execute(self._open).all(), now),
            **_of_lanes(connection.execute(self._held).all(), here, now),
            **_of_cache(connection, now),
            Series(metric_definitions.NATIVE_DISABLED.name): float(connection.scalar(_NATIVE_DISABLED) or 0),
        }


def _since(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """From when a job could have run."""
    return case((column > jobs.c.submitted_at, column), else_=jobs.c.submitted_at)


def _open_jobs(clock: DatabaseClock) -> Select[Any]:
    """By state, action and whether it is too early for them; the index alone answers."""
    early = func.coalesce(jobs.c.waits_until > clock.now(), false()).label("early")
    oldest = func.min(_since(jobs.c.not_before)).label("oldest")
    grouped = select(jobs.c.state, jobs.c.action, early, func.count().label("found"), oldest).where(OPEN)
    return grouped.group_by(jobs.c.state, jobs.c.action, early)


def _held_lanes() -> Select[Any]:
    """Who holds what, and since when the next job of the table could have run."""
    next_job = lanes.outerjoin(jobs, jobs.c.number == lanes.c.head_number)
    columns = (lanes.c.owner, lanes.c.job_number, lanes.c.taken_at, lanes.c.expires_at)
    return select(*columns, _since(jobs.c.not_before).label("due_at")).select_from(next_job).where(HELD)


def _of_queue(rows: Iterable[Row[Any]], now: datetime) -> dict[Series, float]:
    found: dict[Series, float] = {}
    oldest = now
    for row in rows:
        if row.state == "queued":
            _add(found, metric_definitions.DEPTH, row.found, row.action, "waiting" if row.early else "due")
            oldest = oldest if row.early else min(oldest, row.oldest)
        else:
            _add(found, metric_definitions.RUNNING, row.found, row.action)
        if row.action == COMPACT:
            _add(found, _COMPACTIONS[row.state], row.found)
    return {**found, Series(metric_definitions.AGE.name): (now - oldest).total_seconds()}


def _of_lanes(rows: Iterable[Row[Any]], here: set[str], now: datetime) -> dict[Series, float]:
    found: dict[Series, float] = {}
    alive: set[str] = set()
    lost: set[str] = set()
    longest = 0.0
    for row in rows:
        _add(found, metric_definitions.LOCKS, 1, "command" if row.job_number is None else "job")
        if row.job_number is not None:
            (alive if row.expires_at > now else lost).add(row.owner)
        if row.due_at is not None:
            _add(found, metric_definitions.LOCK_WAITS, 1)
            longest = max(longest, (now - max(row.due_at, row.taken_at)).total_seconds())
    counts = (
        *((metric_definitions.WORKERS, len(alive)), (metric_definitions.IDLE_WORKERS, len(here - alive - lost))),
        *((metric_definitions.LOST_WORKERS, len(lost)), (metric_definitions.LOCK_WAIT, longest)),
    )
    return found | {Series(metric.name): float(value) for metric, value in counts}


def _of_cache(connection: Connection, now: datetime) -> dict[Series, float]:
    current = connection.scalar(select(cache_generations.c.ended_at).where(CURRENT))
    newest = select(cache_generations.c.state).where(~BUILDING).order_by(cache_generations.c.number.desc()).limit(1)
    found = {Series(metric_definitions.CACHE_FAILING.name): float(connection.scalar(newest) == "failed")}
    if current is not None:
        found[Series(metric_definitions.CACHE_AGE.name)] = (now - current).total_seconds()
    return found


def _add(found: dict[Series, float], metric: Metric, count: float, *labels: str) -> None:
    series = Series(metric.name, labels)
    found[series] = found.get(series, 0.0) + count
