"""Deletes old records in small transactions. Implements the port `Retention`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Column, ColumnElement, Connection, Engine, and_, delete, exists, not_, select, true, tuple_

from icepack.domain.ports.history import PruneResult, Retention, RetentionPeriods
from icepack.domain.run import RunState
from icepack.store.admin.interrupted_runs import InterruptedRuns
from icepack.store.metrics.totals import add_ended_to_totals
from icepack.store.schema import (
    EVENT_WITHOUT_JOB,
    audit_events,
    events,
    fleet_days,
    health_assessments,
    job_keys,
    jobs,
    runs,
    table_slots,
    table_statuses,
    trusted_classes,
)
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.transaction import read_connection, write_transaction

# Number of rows that one transaction deletes.
BATCH_ROWS = 1000

_newer = runs.alias("newer")
# The last success of each action on a table is kept, however old: recommendations are based on it.
_LAST_SUCCESS = and_(
    runs.c.state == RunState.SUCCEEDED.value,
    ~exists().where(
        _newer.c.table_name == runs.c.table_name,
        _newer.c.state == RunState.SUCCEEDED.value,
        _newer.c.action == runs.c.action,
        _newer.c.finished_at > runs.c.finished_at,
    ),
)
_SLOT_IDLE = and_(
    table_slots.c.owner.is_(None),
    table_slots.c.head_number.is_(None),
    table_slots.c.wakes_at.is_(None),
    ~exists().where(jobs.c.table_name == table_slots.c.table_name),
)


class SqlRetention(Retention):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None, batch_rows: int = BATCH_ROWS) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._batch_rows = batch_rows

    def prune(self, keep: RetentionPeriods) -> PruneResult:
        """Delete records older than their period by the database's clock, except what is queued, running or held."""
        with translate_errors(self._engine.url):
            InterruptedRuns(self._engine, self._clock).mark()
            now = self._read_clock()
            self._prune_days(now, keep.statuses)
            return PruneResult(
                runs=self._prune(runs.c.started_at, now, keep.runs, not_(_LAST_SUCCESS)),
                jobs=self._prune_jobs(now, keep.jobs),
                events=self._prune(events.c.at, now, keep.jobs, EVENT_WITHOUT_JOB),
                lanes=self._in_batches(self._delete_idle_slots),
                statuses=self._prune(table_statuses.c.observed_at, now, keep.statuses),
                assessments=self._prune(health_assessments.c.assessed_at, now, keep.assessments),
                audit=self._prune(audit_events.c.at, now, keep.audit),
                classes=self._prune(trusted_classes.c.last_checked_at, now, keep.classes),
            )

    def _prune_days(self, now: datetime, keep: timedelta | None) -> None:
        if keep is not None:
            old = delete(fleet_days).where(fleet_days.c.day < (now - keep).date().isoformat())
            with write_transaction(self._engine) as connection:
                connection.execute(old)

    def _read_clock(self) -> datetime:
        with read_connection(self._engine) as connection:
            return connection.execute(select(self._clock.now())).scalar_one()

    def _prune(
        self, at: Column[datetime], now: datetime, keep: timedelta | None, condition: ColumnElement[bool] | None = None
    ) -> int:
        if keep is None:
            return 0
        table = at.table
        keys = tuple_(*table.primary_key)
        old = select(*table.primary_key).where(at < now - keep, true() if condition is None else condition)
        statement = delete(table).where(keys.in_(old.order_by(at).limit(self._batch_rows)))
        return self._in_batches(lambda connection: connection.execute(statement).rowcount)

    def _prune_jobs(self, now: datetime, keep: timedelta | None) -> int:
        """Delete finished jobs that are in the metric totals, with their events and keys."""
        if keep is None:
            return 0
        add_ended_to_totals(self._engine)
        ended = select(jobs.c.id).where(jobs.c.finished_at < now - keep, jobs.c.counted).order_by(jobs.c.finished_at)

        def delete_batch(connection: Connection) -> int:
            ids = connection.scalars(ended.limit(self._batch_rows)).all()
            connection.execute(delete(events).where(events.c.job_id.in_(ids)))
            connection.execute(delete(job_keys).where(job_keys.c.job_id.in_(ids)))
            connection.execute(delete(jobs).where(jobs.c.id.in_(ids)))
            return len(ids)

        return self._in_batches(delete_batch)

    def _delete_idle_slots(self, connection: Connection) -> int:
        idle = select(table_slots.c.table_name).where(_SLOT_IDLE).limit(self._batch_rows)
        # The condition is checked again on each locked row: a job may have been submitted meanwhile.
        return connection.execute(delete(table_slots).where(table_slots.c.table_name.in_(idle), _SLOT_IDLE)).rowcount

    def _in_batches(self, delete_batch: Callable[[Connection], int]) -> int:
        deleted, last = 0, self._batch_rows
        while last >= self._batch_rows:
            with write_transaction(self._engine) as connection:
                last = delete_batch(connection)
            deleted += last
        return deleted
