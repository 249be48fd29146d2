"""Figures from the state database: running totals of ended jobs, and gauges that an index answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, case, select, update
from sqlalchemy.dialects import postgresql, sqlite

from icepack.domain.actions import ActionKind
from icepack.domain.job import JobState
from icepack.domain.observability.metric_definitions import Figures, FiguresPort, Series
from icepack.domain.observability.metric_totals import EndedJob, Tally, cost_figures, tally
from icepack.domain.plan.cost import CostModel
from icepack.domain.run import RunState
from icepack.store.metrics.gauges import Gauges
from icepack.store.schema import RUN_UNCOUNTED, UNCOUNTED, jobs, metric_totals, runs
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.transaction import reading, writing

BATCH_JOBS = 500
MOST_BATCHES = 4
"""In one reading: what a long silence has left is counted over several."""

_COLUMNS = (
    *(jobs.c.number, jobs.c.action, jobs.c.state, jobs.c.submitted_at, jobs.c.not_before, jobs.c.started_at),
    *(jobs.c.finished_at, jobs.c.details, jobs.c.collapsed_into),
)


class SqlFigures(FiguresPort):
    """Counts what has ended since it was last asked, then reads; any number may do so at once."""

    def __init__(self, engine: Engine, model: CostModel, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._model = model
        self._gauges = Gauges(clock or DatabaseClock())

    def read(self) -> Figures:
        with plain_faults(self._engine.url):
            count_ended(self._engine, MOST_BATCHES)
            with self._engine.connect() as connection:
                totals, gauges = read_totals(connection), self._gauges.read(connection)
        return {**totals, **cost_figures(totals, self._model), **gauges}


def count_ended(engine: Engine, most_batches: int | None = None) -> int:
    """Puts jobs that have ended into the totals, each exactly once; how many."""
    counted, batches = 0, 0
    while most_batches is None or batches < most_batches:
        jobs_found, runs_found = _any_uncounted(engine)
        last = max(_count_batch(engine) if jobs_found else 0, _count_runs(engine) if runs_found else 0)
        counted, batches = counted + last, batches + 1
        if last < BATCH_JOBS:
            break
    return counted


def _any_uncounted(engine: Engine) -> tuple[bool, bool]:
    """Of jobs and of runs; asked first, so that a reading in quiet times takes no lock."""
    of_jobs = select(jobs.c.number).where(UNCOUNTED).order_by(jobs.c.number).limit(1)
    of_runs = select(runs.c.job_id).where(RUN_UNCOUNTED).order_by(runs.c.job_id).limit(1)
    with reading(engine) as connection:
        return connection.scalar(of_jobs) is not None, connection.scalar(of_runs) is not None


def _count_runs(engine: Engine) -> int:
    """Runs by hand; those of jobs, which are counted by themselves, are only marked."""
    with writing(engine) as connection:
        found = select(runs).where(RUN_UNCOUNTED).order_by(runs.c.job_id).limit(BATCH_JOBS)
        rows = connection.execute(found.with_for_update(skip_locked=True)).all()
        ids = [row.job_id for row in rows]
        asked_for = set(connection.scalars(select(jobs.c.id).where(jobs.c.id.in_(ids))))
        by_hand = [_by_hand(row._mapping) for row in rows if row.job_id not in asked_for]
        if by_hand:
            _add(connection, tally(by_hand))
        if ids:
            connection.execute(update(runs).where(runs.c.job_id.in_(ids)).values(counted=True))
        return len(rows)


def _by_hand(row: Mapping[Any, Any]) -> EndedJob:
    state = RunState(row["state"])
    return EndedJob(
        kind=ActionKind(row["action"]),
        state=JobState.FAILED if state is RunState.REFUSED else JobState(state.value),
        submitted_at=row["started_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        record=row["record"],
        by_hand=True,
    )


def _count_batch(engine: Engine) -> int:
    with writing(engine) as connection:
        found = select(*_COLUMNS).where(UNCOUNTED).order_by(jobs.c.number).limit(BATCH_JOBS)
        # Whatever another is counting just now is passed over.
        rows = connection.execute(found.with_for_update(skip_locked=True)).all()
        if rows:
            _add(connection, tally(_ended(row._mapping) for row in rows))
            numbers = [row.number for row in rows]
            connection.execute(update(jobs).where(jobs.c.number.in_(numbers)).values(counted=True))
        return len(rows)


def _ended(row: Mapping[Any, Any]) -> EndedJob:
    return EndedJob(
        kind=ActionKind(row["action"]),
        state=JobState(row["state"]),
        submitted_at=row["submitted_at"],
        not_before=row["not_before"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        record=row["details"],
        collapsed=row["collapsed_into"] is not None,
    )


def _add(connection: Connection, found: Tally) -> None:
    made = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    new = made(metric_totals)
    larger = case((metric_totals.c.value < new.excluded.value, new.excluded.value), else_=metric_totals.c.value)
    for values, merged in ((found.sums, metric_totals.c.value + new.excluded.value), (found.peaks, larger)):
        if values:
            statement = new.on_conflict_do_update(index_elements=["name", "labels"], set_={"value": merged})
            connection.execute(statement, _rows(values))


def _rows(values: Mapping[Series, float]) -> list[dict[str, Any]]:
    """In one order for all, so that two who add at once never wait for each other."""
    rows = [
        {"name": series.name, "labels": json.dumps(series.values), "value": float(value)}
        for series, value in values.items()
    ]
    return sorted(rows, key=lambda row: (row["name"], row["labels"]))


def read_totals(connection: Connection) -> dict[Series, float]:
    found = connection.execute(select(metric_totals)).all()
    return {Series(row.name, tuple(json.loads(row.labels))): row.value for row in found}
