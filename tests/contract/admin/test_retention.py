"""Pruning: which records are deleted and which are history."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Engine, event, func, select

from contract.queue_harness import DAWN, DONE, LEASE, Queue, SettableClock, request
from contract.sample_runs import NOON, ODD, ORDERS, run, totals
from contract.sample_tables import status
from icepack.domain.actions import ExpireSnapshots
from icepack.domain.health import assess_health
from icepack.domain.job import JobNotFound, JobState, SubmissionOutcome
from icepack.domain.ports.audit import AuditEvent
from icepack.domain.ports.history import PruneResult, RetentionPeriods, StatusPoint
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.store.admin.audit import SqlAuditLog
from icepack.store.admin.retention import SqlRetention
from icepack.store.history import SqlHistoryStore
from icepack.store.schema import events, job_keys, table_slots

DAY = timedelta(days=1)
KEEP_ALL = RetentionPeriods(runs=None, jobs=None, statuses=None, assessments=None, audit=None, classes=None)


@pytest.fixture
def history(engine: Engine) -> SqlHistoryStore:
    return SqlHistoryStore(engine)


@pytest.fixture
def audit(engine: Engine) -> SqlAuditLog:
    return SqlAuditLog(engine)


@pytest.fixture
def retention(engine: Engine) -> SqlRetention:
    return SqlRetention(engine, SettableClock(engine), batch_rows=3)


def _point(table: TableId = ORDERS, *, days: float = 0, files: int = 10) -> StatusPoint:
    return StatusPoint(table=table, observed_at=DAWN + days * DAY, totals=totals(1, files))


def test_nothing_is_deleted_without_a_retention_period(
    queue: Queue, history: SqlHistoryStore, audit: SqlAuditLog, retention: SqlRetention
) -> None:
    history.save(run())
    history.save_status([_point()])
    history.save_health([assess_health(status(ORDERS), NOON)])
    audit.record(AuditEvent(at=DAWN, actor="ann", action="x"))
    queue.submit()
    queue.jobs.finish(queue.claim(), DONE)
    queue.wait(10_000 * 86_400)
    before = queue.dump()
    assert retention.prune(KEEP_ALL) == PruneResult()
    assert queue.dump() == before


def test_only_records_older_than_their_period_are_deleted(
    queue: Queue, history: SqlHistoryStore, audit: SqlAuditLog, retention: SqlRetention
) -> None:
    history.save_status([_point(days=days) for days in range(10)])
    history.save_health([assess_health(status(ORDERS), DAWN + days * DAY) for days in range(10)])
    for days in range(10):
        audit.record(AuditEvent(at=DAWN + days * DAY, actor="ann", action="x"))
    queue.wait(9.5 * 86_400)
    deleted = retention.prune(replace(KEEP_ALL, statuses=2 * DAY, assessments=3 * DAY, audit=4 * DAY))
    assert deleted == PruneResult(statuses=8, assessments=7, audit=6)
    assert [point.observed_at for point in history.statuses(ORDERS)] == [DAWN + 8 * DAY, DAWN + 9 * DAY]
    assert len(history.assessments(ORDERS)) == 3
    assert len(audit.entries()) == 4


def test_runs_that_recommendations_need_are_kept(
    queue: Queue, history: SqlHistoryStore, retention: SqlRetention
) -> None:
    for minutes in range(5):
        history.save(run(minutes=minutes))
        history.save(run(minutes=minutes, action=ExpireSnapshots()))
        history.save(run(minutes=minutes, state=RunState.FAILED))
    history.save(run(ODD))
    before = history.past_runs(ORDERS), history.past_runs(ODD)
    queue.wait(100 * 86_400)
    assert retention.prune(replace(KEEP_ALL, runs=30 * DAY)).runs == 13
    assert (history.past_runs(ORDERS), history.past_runs(ODD)) == before
    assert len(history.runs()) == 3


def test_only_finished_jobs_are_deleted_with_their_events_and_keys(queue: Queue, retention: SqlRetention) -> None:
    for number in range(5):
        queue.submit(f"lake.sales.old{number}", idempotency_key=f"key{number}")
    old = list(queue.claim_all())
    for claim in old:
        queue.jobs.finish(claim, DONE)
    queue.locks.release(queue.locks.acquire(ORDERS, "cli", LEASE))
    running = queue.submit("lake.sales.running")
    queue.claim()
    queued = queue.submit("lake.sales.old0", not_before=DAWN + 300 * DAY)
    queue.wait(100 * 86_400)
    young = queue.submit("lake.sales.young")
    queue.jobs.cancel(young.id)
    deleted = retention.prune(replace(KEEP_ALL, jobs=30 * DAY))
    assert deleted == PruneResult(jobs=5, events=2, lanes=5)
    assert {job.id for job in queue.jobs.list_jobs().jobs} == {running.id, queued.id, young.id}
    with pytest.raises(JobNotFound):
        queue.jobs.get(old[0].job_id)
    with queue.engine.connect() as connection:
        assert connection.scalars(select(job_keys.c.key)).all() == []
        assert set(connection.scalars(select(events.c.job_id))) == {running.id, queued.id, young.id}
        assert connection.execute(select(func.count()).select_from(table_slots)).scalar_one() == 3


def test_fences_keep_increasing_after_pruning(queue: Queue, retention: SqlRetention) -> None:
    queue.submit()
    first = queue.claim()
    queue.jobs.finish(first, DONE)
    queue.wait(100 * 86_400)
    retention.prune(RetentionPeriods())
    assert queue.jobs.counts()[JobState.SUCCEEDED] == 0
    assert queue.jobs.submit(request()).outcome is SubmissionOutcome.CREATED
    assert queue.claim().fence > first.fence


def test_pruning_deletes_in_small_batches(queue: Queue, history: SqlHistoryStore, retention: SqlRetention) -> None:
    history.save_status([_point(days=days) for days in range(10)])
    queue.wait(100 * 86_400)
    removed: list[int] = []

    def record(*arguments: object) -> None:
        if str(arguments[2]).startswith("DELETE FROM table_statuses"):
            removed.append(arguments[1].rowcount)  # type: ignore[attr-defined]

    event.listen(queue.engine, "after_cursor_execute", record)
    try:
        assert retention.prune(replace(KEEP_ALL, statuses=DAY)).statuses == 10
    finally:
        event.remove(queue.engine, "after_cursor_execute", record)
    assert removed == [3, 3, 3, 1]
