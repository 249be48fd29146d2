"""Keeps the database from growing without bound, a small transaction at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Column, ColumnElement, Connection, Engine, and_, delete, exists, not_, select, true, tuple_

from icepack.domain.ports.queue import KeepFor, Pruned, Retention
from icepack.domain.run import RunState
from icepack.store.admin.interrupted_runs import CutOff
from icepack.store.metrics.totals import count_ended
from icepack.store.schema import (
    NO_JOB,
    audit_events,
    events,
    fleet_days,
    health_assessments,
    job_keys,
    jobs,
    lanes,
    runs,
    table_statuses,
    trusted_classes,
)
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.transaction import reading, writing

BATCH_ROWS = 1000

_newer = runs.alias("newer")
# What the next recommendation is made from stays, however old: one run per table and action.
_LAST_SUCCESS = and_(
    runs.c.state == RunState.SUCCEEDED.value,
    ~exists().where(
        _newer.c.table_name == runs.c.table_name,
        _newer.c.state == RunState.SUCCEEDED.value,
        _newer.c.action == runs.c.action,
        _newer.c.finished_at > runs.c.finished_at,
    ),
)
_IDLE = and_(
    lanes.c.owner.is_(None),
    lanes.c.head_number.is_(None),
    lanes.c.wakes_at.is_(None),
    ~exists().where(jobs.c.table_name == lanes.c.table_name),
)


class SqlRetention(Retention):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None, batch_rows: int = BATCH_ROWS) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._batch = batch_rows

    def prune(self, keep: KeepFor) -> Pruned:
        """What is younger by the database's clock stays; so does what is still queued, running or held."""
        with plain_faults(self._engine.url):
            CutOff(self._engine, self._clock).mark()
            now = self._now()
            self._prune_days(now, keep.statuses)
            return Pruned(
                runs=self._prune(runs.c.started_at, now, keep.runs, not_(_LAST_SUCCESS)),
                jobs=self._prune_jobs(now, keep.jobs),
                events=self._prune(events.c.at, now, keep.jobs, NO_JOB),
                lanes=self._in_batches(self._drop_idle_lanes),
                statuses=self._prune(table_statuses.c.observed_at, now, keep.statuses),
                assessments=self._prune(health_assessments.c.assessed_at, now, keep.assessments),
                audit=self._prune(audit_events.c.at, now, keep.audit),
                classes=self._prune(trusted_classes.c.last_checked_at, now, keep.classes),
            )

    def _prune_days(self, now: datetime, keep: timedelta | None) -> None:
        if keep is not None:
            old = delete(fleet_days).where(fleet_days.c.day < (now - keep).date().isoformat())
            with writing(self._engine) as connection:
                connection.execute(old)

    def _now(self) -> datetime:
        with reading(self._engine) as connection:
            return connection.execute(select(self._clock.now())).scalar_one()

    def _prune(
        self, at: Column[datetime], now: datetime, keep: timedelta | None, spared: ColumnElement[bool] | None = None
    ) -> int:
        if keep is None:
            return 0
        table = at.table
        keys = tuple_(*table.primary_key)
        old = select(*table.primary_key).where(at < now - keep, true() if spared is None else spared)
        doomed = delete(table).where(keys.in_(old.order_by(at).limit(self._batch)))
        return self._in_batches(lambda connection: connection.execute(doomed).rowcount)

    def _prune_jobs(self, now: datetime, keep: timedelta | None) -> int:
        """With their events and keys, once they are in the totals; only jobs that have ended have an end to be old."""
        if keep is None:
            return 0
        count_ended(self._engine)
        ended = select(jobs.c.id).where(jobs.c.finished_at < now - keep, jobs.c.counted).order_by(jobs.c.finished_at)

        def drop(connection: Connection) -> int:
            ids = connection.scalars(ended.limit(self._batch)).all()
            connection.execute(delete(events).where(events.c.job_id.in_(ids)))
            connection.execute(delete(job_keys).where(job_keys.c.job_id.in_(ids)))
            connection.execute(delete(jobs).where(jobs.c.id.in_(ids)))
            return len(ids)

        return self._in_batches(drop)

    def _drop_idle_lanes(self, connection: Connection) -> int:
        idle = select(lanes.c.table_name).where(_IDLE).limit(self._batch)
        # Asked again of each row as it is locked: a submission may have come in between.
        return connection.execute(delete(lanes).where(lanes.c.table_name.in_(idle), _IDLE)).rowcount

    def _in_batches(self, drop: Callable[[Connection], int]) -> int:
        dropped, last = 0, self._batch
        while last >= self._batch:
            with writing(self._engine) as connection:
                last = drop(connection)
            dropped += last
        return dropped
