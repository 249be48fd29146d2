"""Runs that were cut off: their process ended before it could say how they went."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Select, and_, exists, or_, select, update

from icepack.domain.job import JobState
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import from_json, to_json
from icepack.store.schema import HELD, jobs, lanes, runs
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.transaction import reading, writing

GRACE = timedelta(minutes=10)
"""A worker ends its job first and writes the history afterwards."""
BATCH_ROWS = 200
CUT_OFF = "Cut off: its process ended before it could say how it went."

_RUNNING = runs.c.state == RunState.RUNNING.value
_ENDED = [state.value for state in JobState if state.is_final]


class CutOff:
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()

    def mark(self) -> int:
        """How many were marked; one that was only given up too early writes its own end over the mark."""
        with reading(self._engine) as connection:
            now = connection.execute(select(self._clock.now())).scalar_one()
            found = connection.execute(self._dead(now - GRACE)).all()
        ended = [replace(from_json(RunRecord, row.record), finished_at=now, **_MARK) for row in found]
        if not ended:
            return 0
        with writing(self._engine) as connection:
            return sum(_mark(connection, record) for record in ended)

    def _dead(self, ended_before: Any) -> Select[Any]:
        """Of a job that may go on nothing is said; a run by hand lives as long as it renews its table's lock."""
        goes_on = or_(jobs.c.state.not_in(_ENDED), jobs.c.finished_at >= ended_before)
        in_job = exists().where(jobs.c.id == runs.c.job_id, goes_on)
        by_hand = and_(HELD, lanes.c.job_number.is_(None), lanes.c.expires_at > self._clock.now())
        in_hand = exists().where(lanes.c.table_name == runs.c.table_name, by_hand)
        return select(runs.c.record).where(_RUNNING, ~in_job, ~in_hand).limit(BATCH_ROWS)


_MARK: dict[str, Any] = {"state": RunState.FAILED, "message": CUT_OFF, "retryable": True}


def _mark(connection: Connection, record: RunRecord) -> int:
    marked = {
        "state": record.state.value,
        "finished_at": record.finished_at,
        "message": record.message,
        "record": to_json(record),
    }
    return connection.execute(update(runs).where(runs.c.job_id == record.job_id, _RUNNING).values(marked)).rowcount
