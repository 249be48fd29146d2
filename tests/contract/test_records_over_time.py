"""What is kept over time, and what is let go of again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import Engine, event, func, select

from icepack.domain.actions import ExpireSnapshots
from icepack.domain.health import assess
from icepack.domain.job import JobNotFound, JobState, Submitted
from icepack.domain.ports.queue import AuditEvent, KeepFor, Pruned, StatusPoint
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.store.admin.audit import SqlAuditLog
from icepack.store.admin.retention import SqlRetention
from icepack.store.history import SqlHistoryStore
from icepack.store.schema import events, job_keys, lanes

from .observed import status
from .queueing import DAWN, DONE, LEASE, Queue, StandingClock, request
from .records import NOON, ODD, ORDERS, run, totals

DAY = timedelta(days=1)
FOREVER = KeepFor(runs=None, jobs=None, statuses=None, assessments=None, audit=None, classes=None)


@pytest.fixture
def kept(engine: Engine) -> SqlHistoryStore:
    return SqlHistoryStore(engine)


@pytest.fixture
def audit(engine: Engine) -> SqlAuditLog:
    return SqlAuditLog(engine)


@pytest.fixture
def retention(engine: Engine) -> SqlRetention:
    return SqlRetention(engine, StandingClock(engine), batch_rows=3)


def _point(table: TableId = ORDERS, *, days: float = 0, files: int = 10) -> StatusPoint:
    return StatusPoint(table=table, observed_at=DAWN + days * DAY, totals=totals(1, files))


def test_figures_come_back_oldest_first(kept: SqlHistoryStore) -> None:
    points = [_point(days=days, files=days) for days in (3, 1, 2)]
    kept.save_status(points)
    kept.save_status([_point(ODD)])
    kept.save_status([])
    assert kept.statuses(ORDERS) == sorted(points, key=lambda point: point.observed_at)
    assert kept.statuses(ODD) == [_point(ODD)]


def test_of_many_figures_the_newest_are_given(kept: SqlHistoryStore) -> None:
    points = [_point(days=days) for days in range(6)]
    kept.save_status(points)
    assert kept.statuses(ORDERS, limit=2) == points[-2:]
    assert kept.statuses(ORDERS, since=DAWN + 3 * DAY) == points[3:]


def test_saving_the_same_moment_again_replaces_it(kept: SqlHistoryStore) -> None:
    kept.save_status([_point(files=1)])
    tokyo = timezone(timedelta(hours=9))
    kept.save_status([replace(_point(files=2), observed_at=DAWN.astimezone(tokyo))])
    assert kept.statuses(ORDERS) == [_point(files=2)]


def test_assessments_come_back_newest_first_with_all_they_found(kept: SqlHistoryStore) -> None:
    reports = [assess(status(ODD, files), NOON + files * DAY) for files in (1, 300, 20)]
    kept.save_health(reports)
    kept.save_health(reports[:1])
    newest_first = sorted(reports, key=lambda report: report.assessed_at, reverse=True)
    assert any(report.issues for report in reports)
    assert kept.assessments(ODD) == newest_first
    assert kept.assessments(ODD, limit=1) == newest_first[:1]
    assert kept.assessments(ODD, since=NOON + 20 * DAY) == newest_first[:2]
    assert kept.assessments(ORDERS) == []


def test_the_audit_log_tells_who_did_what_when_from_where_and_how_it_ended(audit: SqlAuditLog) -> None:
    told = AuditEvent(
        at=datetime(2026, 11, 15, 12, tzinfo=UTC),
        actor="ann 雪",
        action="job.cancel",
        subject="lake.sales.orders",
        origin="10.0.0.7",
        outcome="done",
        details={"job": "7", "nul": "\0"},
    )
    written = audit.record(told)
    assert written == replace(told, number=written.number)
    assert audit.entries() == [written]


def test_the_audit_log_is_searched_newest_first(audit: SqlAuditLog) -> None:
    said = [("ann", "cancel", "a"), ("bob", "cancel", "b"), ("ann", "submit", "b"), ("ann", "cancel", "b")]
    written = [
        audit.record(AuditEvent(at=DAWN + number * DAY, actor=actor, action=action, subject=subject))
        for number, (actor, action, subject) in enumerate(said)
    ]
    first, second, third, fourth = written
    assert audit.entries() == [fourth, third, second, first]
    assert audit.entries(limit=2) == [fourth, third]
    assert audit.entries(before=third.number) == [second, first]
    assert audit.entries(actor="ann", action="cancel") == [fourth, first]
    assert audit.entries(subject="b", since=DAWN + 2 * DAY) == [fourth, third]


def test_nothing_goes_that_is_to_be_kept_for_ever(
    queue: Queue, kept: SqlHistoryStore, audit: SqlAuditLog, retention: SqlRetention
) -> None:
    kept.save(run())
    kept.save_status([_point()])
    kept.save_health([assess(status(ORDERS), NOON)])
    audit.record(AuditEvent(at=DAWN, actor="ann", action="x"))
    queue.submit()
    queue.jobs.finish(queue.claim(), DONE)
    queue.wait(10_000 * 86_400)
    before = queue.dump()
    assert retention.prune(FOREVER) == Pruned()
    assert queue.dump() == before


def test_what_is_older_goes_and_what_is_younger_stays(
    queue: Queue, kept: SqlHistoryStore, audit: SqlAuditLog, retention: SqlRetention
) -> None:
    kept.save_status([_point(days=days) for days in range(10)])
    kept.save_health([assess(status(ORDERS), DAWN + days * DAY) for days in range(10)])
    for days in range(10):
        audit.record(AuditEvent(at=DAWN + days * DAY, actor="ann", action="x"))
    queue.wait(9.5 * 86_400)
    gone = retention.prune(replace(FOREVER, statuses=2 * DAY, assessments=3 * DAY, audit=4 * DAY))
    assert gone == Pruned(statuses=8, assessments=7, audit=6)
    assert [point.observed_at for point in kept.statuses(ORDERS)] == [DAWN + 8 * DAY, DAWN + 9 * DAY]
    assert len(kept.assessments(ORDERS)) == 3
    assert len(audit.entries()) == 4


def test_runs_that_the_next_recommendation_needs_stay(
    queue: Queue, kept: SqlHistoryStore, retention: SqlRetention
) -> None:
    for minutes in range(5):
        kept.save(run(minutes=minutes))
        kept.save(run(minutes=minutes, action=ExpireSnapshots()))
        kept.save(run(minutes=minutes, state=RunState.FAILED))
    kept.save(run(ODD))
    before = kept.past_runs(ORDERS), kept.past_runs(ODD)
    queue.wait(100 * 86_400)
    assert retention.prune(replace(FOREVER, runs=30 * DAY)).runs == 13
    assert (kept.past_runs(ORDERS), kept.past_runs(ODD)) == before
    assert len(kept.runs()) == 3


def test_only_jobs_that_have_ended_go_with_all_that_belongs_to_them(queue: Queue, retention: SqlRetention) -> None:
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
    gone = retention.prune(replace(FOREVER, jobs=30 * DAY))
    assert gone == Pruned(jobs=5, events=2, lanes=5)
    assert {job.id for job in queue.jobs.list_jobs().jobs} == {running.id, queued.id, young.id}
    with pytest.raises(JobNotFound):
        queue.jobs.get(old[0].job_id)
    with queue.engine.connect() as connection:
        assert connection.scalars(select(job_keys.c.key)).all() == []
        assert set(connection.scalars(select(events.c.job_id))) == {running.id, queued.id, young.id}
        assert connection.execute(select(func.count()).select_from(lanes)).scalar_one() == 3


def test_fences_go_on_growing_after_everything_was_pruned(queue: Queue, retention: SqlRetention) -> None:
    queue.submit()
    first = queue.claim()
    queue.jobs.finish(first, DONE)
    queue.wait(100 * 86_400)
    retention.prune(KeepFor())
    assert queue.jobs.counts()[JobState.SUCCEEDED] == 0
    assert queue.jobs.submit(request()).outcome is Submitted.CREATED
    assert queue.claim().fence > first.fence


def test_pruning_goes_in_small_steps(queue: Queue, kept: SqlHistoryStore, retention: SqlRetention) -> None:
    kept.save_status([_point(days=days) for days in range(10)])
    queue.wait(100 * 86_400)
    removed: list[int] = []

    def note(*told: object) -> None:
        if str(told[2]).startswith("DELETE FROM table_statuses"):
            removed.append(told[1].rowcount)  # type: ignore[attr-defined]

    event.listen(queue.engine, "after_cursor_execute", note)
    try:
        assert retention.prune(replace(FOREVER, statuses=DAY)).statuses == 10
    finally:
        event.remove(queue.engine, "after_cursor_execute", note)
    assert removed == [3, 3, 3, 1]
