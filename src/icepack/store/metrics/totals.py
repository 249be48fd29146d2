"""Metric values from the state database. Implements the port `MetricsSource`.

Counters are running totals of ended jobs and runs; gauges are computed from the current state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, case, select, update

from icepack.domain.actions import ActionKind
from icepack.domain.job import JobState
from icepack.domain.observability.metric_definitions import MetricsSource, MetricValues, Series
from icepack.domain.observability.metric_totals import EndedJob, MetricTotals, compute_cost_metrics, count_ended_jobs
from icepack.domain.plan.cost import CostModel
from icepack.domain.run import RunState
from icepack.store.metrics.gauges import Gauges
from icepack.store.queue.rows import ENDED_JOB_COLUMNS, to_ended_job
from icepack.store.schema import JOB_UNCOUNTED, RUN_UNCOUNTED, jobs, metric_totals, runs
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.transaction import read_connection, write_transaction
from icepack.store.sql.upsert import upsert

# Number of jobs or runs that are counted in one transaction.
BATCH_ROWS = 500
# Number of batches that one read counts; a longer backlog is counted over several reads.
MAX_BATCHES_PER_READ = 4


class SqlMetricsSource(MetricsSource):
    """Counts the jobs that have ended since the last read, then reads all values; reads may run concurrently."""

    def __init__(self, engine: Engine, model: CostModel, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._model = model
        self._gauges = Gauges(clock or DatabaseClock())

    def read(self) -> MetricValues:
        with translate_errors(self._engine.url):
            add_ended_to_totals(self._engine, MAX_BATCHES_PER_READ)
            with self._engine.connect() as connection:
                totals, gauges = _read_totals(connection), self._gauges.read(connection)
        return {**totals, **compute_cost_metrics(totals, self._model), **gauges}


def add_ended_to_totals(engine: Engine, max_batches: int | None = None) -> None:
    """Add ended jobs and runs to the totals, each exactly once."""
    batches, last_rows = 0, BATCH_ROWS
    while last_rows >= BATCH_ROWS and (max_batches is None or batches < max_batches):
        has_jobs, has_runs = _find_uncounted(engine)
        last_rows = max(_count_jobs(engine) if has_jobs else 0, _count_runs(engine) if has_runs else 0)
        batches += 1


def _find_uncounted(engine: Engine) -> tuple[bool, bool]:
    """Whether there are jobs and runs to count; checked first, so that a read without any takes no lock."""
    first_job = select(jobs.c.number).where(JOB_UNCOUNTED).order_by(jobs.c.number).limit(1)
    first_run = select(runs.c.job_id).where(RUN_UNCOUNTED).order_by(runs.c.job_id).limit(1)
    with read_connection(engine) as connection:
        return connection.scalar(first_job) is not None, connection.scalar(first_run) is not None


def _count_jobs(engine: Engine) -> int:
    with write_transaction(engine) as connection:
        uncounted = select(*ENDED_JOB_COLUMNS).where(JOB_UNCOUNTED).order_by(jobs.c.number).limit(BATCH_ROWS)
        # Rows that a concurrent read is counting are skipped.
        rows = connection.execute(uncounted.with_for_update(skip_locked=True)).all()
        if rows:
            _add_to_totals(connection, count_ended_jobs(to_ended_job(row._mapping) for row in rows))
            numbers = [row.number for row in rows]
            connection.execute(update(jobs).where(jobs.c.number.in_(numbers)).values(counted=True))
        return len(rows)


def _count_runs(engine: Engine) -> int:
    """Count runs that were started by a command; runs of jobs are only marked, because their job is counted."""
    with write_transaction(engine) as connection:
        uncounted = select(runs).where(RUN_UNCOUNTED).order_by(runs.c.job_id).limit(BATCH_ROWS)
        rows = connection.execute(uncounted.with_for_update(skip_locked=True)).all()
        ids = [row.job_id for row in rows]
        job_ids = set(connection.scalars(select(jobs.c.id).where(jobs.c.id.in_(ids))))
        without_job = [_run_to_ended_job(row._mapping) for row in rows if row.job_id not in job_ids]
        if without_job:
            _add_to_totals(connection, count_ended_jobs(without_job))
        if ids:
            connection.execute(update(runs).where(runs.c.job_id.in_(ids)).values(counted=True))
        return len(rows)


def _run_to_ended_job(row: Mapping[Any, Any]) -> EndedJob:
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


def _add_to_totals(connection: Connection, totals: MetricTotals) -> None:
    for values, merge in ((totals.sums, _sum_values), (totals.maxima, _max_value)):
        if values:
            connection.execute(upsert(metric_totals, connection.dialect, merge), _to_rows(values))


def _sum_values(stored: Any, new: Any) -> dict[str, Any]:
    return {"value": stored.value + new.value}


def _max_value(stored: Any, new: Any) -> dict[str, Any]:
    return {"value": case((stored.value < new.value, new.value), else_=stored.value)}


def _to_rows(values: Mapping[Series, float]) -> list[dict[str, Any]]:
    """Rows in a fixed order, so that two concurrent writers cannot deadlock."""
    rows = [
        {"name": series.name, "labels": json.dumps(series.values), "value": float(value)}
        for series, value in values.items()
    ]
    return sorted(rows, key=lambda row: (row["name"], row["labels"]))


def _read_totals(connection: Connection) -> dict[Series, float]:
    rows = connection.execute(select(metric_totals)).all()
    return {Series(row.name, tuple(json.loads(row.labels))): row.value for row in rows}
