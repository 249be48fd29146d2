"""Marks runs as failed whose process ended before it recorded a result."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Select, and_, exists, or_, select, update

from icepack.domain.job import JobState
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import from_json, to_json
from icepack.store.schema import SLOT_HELD, jobs, runs, table_slots
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.transaction import read_connection, write_transaction

# How long after the end of a job its run may stay unrecorded: a worker ends its job before it writes the history.
GRACE_PERIOD = timedelta(minutes=10)
BATCH_ROWS = 200
INTERRUPTED_MESSAGE = "Interrupted: the process ended before it recorded a result."

_RUNNING = runs.c.state == RunState.RUNNING.value
_FINAL_STATES = [state.value for state in JobState if state.is_final]


class InterruptedRuns:
    """Finds runs that are recorded as running although their process is gone."""

    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()

    def mark(self) -> int:
        """Mark interrupted runs as failed and return their number; a run that still lives overwrites the mark."""
        with read_connection(self._engine) as connection:
            now = connection.execute(select(self._clock.now())).scalar_one()
            found = connection.execute(self._select_interrupted(now - GRACE_PERIOD)).all()
        failed = [replace(from_json(RunRecord, row.record), finished_at=now, **_FAILED) for row in found]
        if not failed:
            return 0
        with write_transaction(self._engine) as connection:
            return sum(_update_run(connection, record) for record in failed)

    def _select_interrupted(self, ended_before: Any) -> Select[Any]:
        """Runs without a job that may go on, and without a command that still renews the lock of the table."""
        may_go_on = or_(jobs.c.state.not_in(_FINAL_STATES), jobs.c.finished_at >= ended_before)
        has_job = exists().where(jobs.c.id == runs.c.job_id, may_go_on)
        is_locked = and_(SLOT_HELD, table_slots.c.job_number.is_(None), table_slots.c.expires_at > self._clock.now())
        has_command = exists().where(table_slots.c.table_name == runs.c.table_name, is_locked)
        return select(runs.c.record).where(_RUNNING, ~has_job, ~has_command).limit(BATCH_ROWS)


_FAILED: dict[str, Any] = {"state": RunState.FAILED, "message": INTERRUPTED_MESSAGE, "retryable": True}


def _update_run(connection: Connection, record: RunRecord) -> int:
    values = {
        "state": record.state.value,
        "finished_at": record.finished_at,
        "message": record.message,
        "record": to_json(record),
    }
    return connection.execute(update(runs).where(runs.c.job_id == record.job_id, _RUNNING).values(values)).rowcount
