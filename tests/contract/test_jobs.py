"""What every job store must do: from submission to the end, with and without trouble."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from icepack.domain.actions import Action, Compact, ExpireSnapshots, RewriteManifests, Strategy
from icepack.domain.job import (
    Claim,
    ClaimLost,
    IdempotencyKeyReused,
    JobEventKind,
    JobFilter,
    JobNotFound,
    JobOutcome,
    JobProgress,
    JobState,
    JobStateConflict,
    Submitted,
)
from icepack.domain.observability.trace import Span, TraceContext
from icepack.domain.ports.queue import JobStore
from icepack.domain.table import TableId
from icepack.store.jobs import SqlJobStore

from .invariants import assert_sound
from .queueing import DAWN, DONE, LEASE, Queue, request
from .records import ACTIONS, ODD

NASTY = "nul \0, half a pair \udc80, 'quotes' %s :x 雪"
PROGRESS = JobProgress(
    partitions_completed=5, partitions_total=10, files_processed=150, bytes_read=5 * 2**30, bytes_written=2**42
)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.kind)
def test_what_was_asked_for_comes_back(queue: Queue, action: Action) -> None:
    asked = request(
        ODD,
        action,
        priority=7,
        not_before=DAWN + timedelta(hours=1),
        max_attempts=5,
        requester="naïve 雪",
        idempotency_key="key 🧊",
        trace_context="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        retry_of=UUID(int=7),
    )
    made = queue.jobs.submit(asked)
    job = queue.jobs.get(made.job.id)
    assert made.outcome is Submitted.CREATED
    assert job == made.job
    kept = set(asked.__dataclass_fields__) - {"fingerprint"}
    assert {name: getattr(job, name) for name in kept} == {name: getattr(asked, name) for name in kept}
    assert (job.state, job.attempts, job.submitted_at) == (JobState.QUEUED, 0, DAWN)
    assert job.waits_until == asked.not_before


def test_a_job_that_is_not_there_is_named(queue: Queue) -> None:
    missing = uuid4()
    for ask in (queue.jobs.get, queue.jobs.cancel, queue.jobs.retry):
        with pytest.raises(JobNotFound, match=str(missing)):
            ask(missing)


def test_a_claim_tells_all_about_the_job(queue: Queue) -> None:
    submitted = queue.submit(ODD, ACTIONS[0], trace_context="trace")
    claim = queue.claim("wörker")
    assert claim.job == queue.jobs.get(submitted.id)
    assert (claim.job_id, claim.table, claim.worker, claim.lease) == (submitted.id, ODD, "wörker", LEASE)
    assert claim.lease_ends_at == claim.job.lease_ends_at == DAWN + LEASE
    assert (claim.job.state, claim.job.attempts, claim.job.worker) == (JobState.RUNNING, 1, "wörker")
    assert claim.job.started_at == DAWN
    assert claim.job.fence == claim.fence


def test_an_empty_queue_gives_nothing(queue: Queue) -> None:
    assert queue.jobs.claim("worker", LEASE) is None


def test_a_job_is_claimed_once(queue: Queue) -> None:
    job = queue.submit()
    assert [claim.job_id for claim in queue.claim_all()] == [job.id]


@pytest.mark.parametrize("state", [state for state in JobState if state.is_final])
def test_a_job_ends_as_its_worker_says(queue: Queue, state: JobState) -> None:
    queue.submit()
    claim = queue.claim()
    queue.wait(5)
    queue.jobs.finish(claim, JobOutcome(state=state, message=NASTY, details={"deep": {"π": [1, None]}}))
    job = queue.jobs.get(claim.job_id)
    assert (job.state, job.finished_at, job.lease_ends_at) == (state, DAWN + timedelta(seconds=5), None)
    assert job.message == "nul , half a pair ?, 'quotes' %s :x 雪"
    assert job.details == {"deep": {"π": [1, None]}}
    assert queue.locks.list_locks() == []
    assert_sound(queue.engine)


def test_the_end_can_be_told_twice_and_counts_once(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.jobs.finish(claim, DONE)
    before = queue.dump()
    queue.jobs.finish(claim, DONE)
    assert queue.dump() == before
    with pytest.raises(ClaimLost):
        queue.jobs.finish(claim, JobOutcome(state=JobState.FAILED))
    assert queue.dump() == before


def test_coming_back_can_be_told_twice_and_counts_once(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    returned = queue.jobs.hand_back(claim, "SIGTERM")
    assert queue.jobs.hand_back(claim, "SIGTERM") == returned
    again = queue.claim()
    failed = queue.jobs.fail(again, "no luck")
    assert queue.jobs.fail(again, "no luck") == failed
    with pytest.raises(ClaimLost):
        queue.jobs.hand_back(claim, "SIGTERM")


def test_progress_is_kept_and_starts_anew_with_each_attempt(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.jobs.progress(claim, PROGRESS)
    assert queue.jobs.get(claim.job_id).progress == PROGRESS
    queue.jobs.hand_back(claim)
    assert queue.claim().job.progress == JobProgress()
    assert queue.jobs.get(claim.job_id).progress == JobProgress()


def test_a_heartbeat_renews_the_lease_and_the_lock(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.wait(20)
    assert queue.jobs.heartbeat(claim) is False
    (lock,) = queue.locks.list_locks()
    assert lock.expires_at == queue.jobs.get(claim.job_id).lease_ends_at == DAWN + timedelta(seconds=20) + LEASE
    queue.wait(20)
    assert queue.jobs.reap() == []


def test_a_late_heartbeat_still_counts_while_nobody_has_taken_the_job(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.wait(3600)
    assert queue.jobs.heartbeat(claim) is False
    assert queue.jobs.reap() == []


def test_a_running_job_is_cancelled_through_its_worker(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    asked = queue.jobs.cancel(claim.job_id, by="ann")
    assert (asked.state, asked.cancel_requested_at) == (JobState.RUNNING, DAWN)
    queue.wait(1)
    assert queue.jobs.cancel(claim.job_id).cancel_requested_at == DAWN
    assert queue.jobs.heartbeat(claim) is True
    queue.jobs.finish(claim, JobOutcome(state=JobState.CANCELLED))
    assert [event.kind for event in queue.jobs.events(claim.job_id)] == [
        JobEventKind.SUBMITTED,
        JobEventKind.CLAIMED,
        JobEventKind.CANCEL_REQUESTED,
        JobEventKind.CANCELLED,
    ]


@pytest.mark.parametrize("lose", ["fail", "hand_back", "reap"])
def test_a_job_that_was_to_be_cancelled_does_not_come_back(queue: Queue, lose: str) -> None:
    queue.submit()
    claim = queue.claim()
    queue.jobs.cancel(claim.job_id)
    if lose == "reap":
        queue.wait(60)
        assert [job.state for job in queue.jobs.reap()] == [JobState.CANCELLED]
    else:
        assert getattr(queue.jobs, lose)(claim, "stopped").state is JobState.CANCELLED
    assert queue.jobs.claim("worker", LEASE) is None


def test_a_queued_job_is_cancelled_at_once_and_the_next_takes_its_place(queue: Queue) -> None:
    first, second = queue.submit(priority=1), queue.submit(action=ExpireSnapshots())
    cancelled = queue.jobs.cancel(first.id, by="ann")
    assert (cancelled.state, cancelled.message, cancelled.finished_at) == (
        JobState.CANCELLED, "Cancelled by ann.", DAWN,
    )  # fmt: skip
    assert queue.jobs.cancel(first.id) == cancelled
    assert_sound(queue.engine)
    assert [claim.job_id for claim in queue.claim_all()] == [second.id]


def test_what_has_ended_cannot_be_cancelled(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.jobs.finish(claim, DONE)
    with pytest.raises(JobStateConflict, match="is succeeded and cannot be cancelled"):
        queue.jobs.cancel(claim.job_id)


def test_a_failed_attempt_comes_back_until_attempts_are_used_up(queue: Queue) -> None:
    job = queue.submit(max_attempts=2)
    first = queue.jobs.fail(queue.claim(), "disk full")
    assert (first.state, first.attempts, first.message) == (JobState.QUEUED, 1, "disk full")
    second = queue.jobs.fail(queue.claim(), "disk still full")
    assert (second.state, second.attempts, second.attempts_left) == (JobState.FAILED, 2, 0)
    assert (second.id, second.finished_at, second.message) == (job.id, DAWN, "disk still full")
    assert queue.jobs.claim("worker", LEASE) is None
    assert_sound(queue.engine)


def test_what_cannot_get_better_fails_at_once(queue: Queue) -> None:
    queue.submit(max_attempts=9)
    assert queue.jobs.fail(queue.claim(), "no such column", retry=False).state is JobState.FAILED


def test_a_retry_waits_as_long_as_it_is_told(queue: Queue) -> None:
    queue.submit()
    waiting = queue.jobs.fail(queue.claim(), "conflict", delay=timedelta(seconds=10))
    assert waiting.waits_until == DAWN + timedelta(seconds=10)
    queue.wait(9.5)
    assert queue.jobs.claim("worker", LEASE) is None
    queue.wait(1)
    assert queue.claim().job.attempts == 2


def test_handing_back_uses_up_no_attempt(queue: Queue) -> None:
    queue.submit(max_attempts=1)
    for attempt in (1, 2, 3):
        claim = queue.claim()
        assert claim.job.attempts == attempt
        assert queue.jobs.hand_back(claim, "SIGTERM").state is JobState.QUEUED
    assert queue.jobs.fail(queue.claim(), "broken").state is JobState.FAILED


Write = Callable[[JobStore, Claim], object]
WRITES: dict[str, Write] = {
    "heartbeat": lambda jobs, claim: jobs.heartbeat(claim),
    "progress": lambda jobs, claim: jobs.progress(claim, PROGRESS),
    "finish": lambda jobs, claim: jobs.finish(claim, DONE),
    "fail": lambda jobs, claim: jobs.fail(claim, "late"),
    "hand_back": lambda jobs, claim: jobs.hand_back(claim, "late"),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("how", ["reaped", "claimed again", "claimed again by the same", "finished", "broken"])
def test_a_stale_fence_writes_nothing_and_is_told(queue: Queue, write: str, how: str) -> None:
    queue.submit()
    stale = queue.claim("zombie")
    if how == "broken":
        queue.locks.break_lock(stale.table, force=True)
    else:
        queue.wait(60)
        queue.jobs.reap()
    if how in ("claimed again", "finished"):
        queue.claim("heir")
    if how == "claimed again by the same":
        queue.claim("zombie")
    if how == "finished":
        (lock,) = queue.locks.list_locks()
        queue.jobs.finish(replace(stale, worker="heir", fence=lock.token), JobOutcome(state=JobState.FAILED))
    before = queue.dump()
    with pytest.raises(ClaimLost, match="Worker 'zombie' no longer holds job"):
        WRITES[write](queue.jobs, stale)
    assert queue.dump() == before


@pytest.mark.parametrize("write", WRITES)
def test_a_fence_is_of_no_use_to_another_worker(queue: Queue, write: str) -> None:
    queue.submit()
    claim = queue.claim()
    before = queue.dump()
    with pytest.raises(ClaimLost):
        WRITES[write](queue.jobs, replace(claim, worker="thief"))
    assert queue.dump() == before


def test_fences_only_grow(queue: Queue) -> None:
    fences = []
    for number in range(3):
        queue.submit(f"lake.sales.t{number}")
        for claim in queue.claim_all():
            fences.append(claim.fence)
            queue.jobs.finish(claim, DONE)
        lock = queue.locks.acquire(TableId.parse("lake.sales.t0"), "cli", LEASE)
        fences.append(lock.token)
        queue.locks.release(lock)
    assert fences == sorted(set(fences))


def test_equal_queued_jobs_collapse_into_one(queue: Queue) -> None:
    first = queue.submit(action=Compact(options={"a": "1", "b": "2"}), requester="ann")
    again = queue.jobs.submit(request(action=Compact(options={"b": "2", "a": "1"}), requester="bob"))
    assert (again.outcome, again.job.id) == (Submitted.COLLAPSED, first.id)
    events = queue.jobs.events(first.id)
    assert [(event.kind, event.actor) for event in events] == [("submitted", "ann"), ("collapsed", "bob")]
    assert len(list(queue.claim_all())) == 1


def test_different_jobs_never_collapse(queue: Queue) -> None:
    asked = [
        request(),
        request("lake.sales.returns"),
        request("other.sales.orders"),
        request(action=RewriteManifests()),
        request(action=Compact(strategy=Strategy.DELETE_FILES)),
        request(action=Compact(partition_filter="day = 1")),
        request(action=Compact(options={"x": "1"})),
    ]
    assert {queue.jobs.submit(one).outcome for one in asked} == {Submitted.CREATED}


def test_a_running_or_finished_job_takes_no_new_wish(queue: Queue) -> None:
    ids = {queue.submit().id}
    claim = queue.claim()
    ids.add(queue.submit().id)
    queue.jobs.finish(claim, DONE)
    queue.jobs.finish(queue.claim(), DONE)
    ids.add(queue.submit().id)
    assert len(ids) == 3


def test_collapsing_keeps_the_more_urgent_wish(queue: Queue) -> None:
    low = queue.submit("lake.sales.low", priority=1, not_before=DAWN + timedelta(hours=2))
    queue.submit("lake.sales.high", priority=2)
    queue.submit("lake.sales.low", priority=3, not_before=DAWN + timedelta(hours=1))
    assert queue.jobs.get(low.id).waits_until == DAWN + timedelta(hours=1)
    raised = queue.submit("lake.sales.low", priority=0)
    assert (raised.priority, raised.waits_until) == (3, None)
    assert [claim.job.table.name for claim in queue.claim_all()] == ["low", "high"]
    assert_sound(queue.engine)


def test_collapsing_does_not_undo_the_delay_of_a_retry(queue: Queue) -> None:
    queue.submit()
    failed = queue.jobs.fail(queue.claim(), "conflict", delay=timedelta(minutes=5))
    collapsed = queue.jobs.submit(request())
    assert (collapsed.outcome, collapsed.job.id) == (Submitted.COLLAPSED, failed.id)
    assert collapsed.job.waits_until == failed.waits_until


@pytest.mark.parametrize("how", ["fail", "hand_back", "reap", "break"])
def test_a_job_that_comes_back_absorbs_its_equal(queue: Queue, how: str) -> None:
    first = queue.submit(idempotency_key="one")
    claim = queue.claim()
    second = queue.submit(priority=4, idempotency_key="two")
    assert first.id != second.id
    if how == "reap":
        queue.wait(60)
        queue.jobs.reap()
    elif how == "break":
        queue.locks.break_lock(claim.table, force=True)
    else:
        getattr(queue.jobs, how)(claim, "again")
    absorbed = queue.jobs.get(second.id)
    assert (absorbed.state, absorbed.collapsed_into) == (JobState.CANCELLED, first.id)
    repeated = queue.jobs.submit(request(idempotency_key="two"))
    assert (repeated.outcome, repeated.job.id) == (Submitted.REPEATED, first.id)
    assert_sound(queue.engine)
    assert [(claim.job_id, claim.job.priority) for claim in queue.claim_all()] == [(first.id, 4)]


def test_a_job_that_has_failed_leaves_its_equal_alone(queue: Queue) -> None:
    queue.submit(max_attempts=1)
    claim = queue.claim()
    second = queue.submit()
    queue.jobs.fail(claim, "broken")
    assert queue.claim().job_id == second.id


def test_an_idempotency_key_makes_one_job_whatever_became_of_it(queue: Queue) -> None:
    first = queue.jobs.submit(request(idempotency_key="nightly"))
    for _ in range(2):
        again = queue.jobs.submit(request(idempotency_key="nightly", priority=3))
        assert (again.outcome, again.job.id) == (Submitted.REPEATED, first.job.id)
        for claim in queue.claim_all():
            queue.jobs.finish(claim, DONE)
    assert queue.jobs.counts()[JobState.SUCCEEDED] == 1


def test_a_key_that_collapsed_is_remembered_too(queue: Queue) -> None:
    job = queue.submit()
    assert queue.jobs.submit(request(idempotency_key="late")).outcome is Submitted.COLLAPSED
    queue.jobs.finish(queue.claim(), DONE)
    again = queue.jobs.submit(request(idempotency_key="late"))
    assert (again.outcome, again.job.id) == (Submitted.REPEATED, job.id)


@pytest.mark.parametrize("other", [request("lake.sales.returns"), request(action=ExpireSnapshots())], ids=str)
def test_a_key_cannot_ask_for_two_things(queue: Queue, other: object) -> None:
    first = queue.submit(idempotency_key="nightly")
    before = queue.dump()
    with pytest.raises(IdempotencyKeyReused, match=f"belongs to job {first.id}"):
        queue.jobs.submit(replace(other, idempotency_key="nightly"))  # type: ignore[type-var]
    assert queue.dump() == before


def test_a_retry_is_a_new_job_that_names_the_old(queue: Queue) -> None:
    queue.submit(ODD, ACTIONS[3], priority=5, max_attempts=1, requester="ann")
    queue.jobs.hand_back(queue.claim())
    failed = queue.jobs.fail(queue.claim(), "broken")
    again = queue.jobs.retry(failed.id, requester="bob")
    assert (again.outcome, again.job.retry_of) == (Submitted.CREATED, failed.id)
    assert (again.job.table, again.job.action, again.job.priority) == (ODD, ACTIONS[3], 5)
    assert (again.job.requester, again.job.attempts, again.job.max_attempts) == ("bob", 0, 1)
    assert queue.jobs.get(failed.id) == failed
    assert queue.jobs.retry(failed.id).outcome is Submitted.COLLAPSED


def test_what_has_not_ended_cannot_be_tried_again(queue: Queue) -> None:
    job = queue.submit()
    for state in (JobState.QUEUED, JobState.RUNNING):
        with pytest.raises(JobStateConflict, match=f"is {state} and cannot be tried again before it has ended"):
            queue.jobs.retry(job.id)
        queue.jobs.claim("worker", LEASE)


def test_jobs_are_listed_newest_first_page_by_page(queue: Queue) -> None:
    made = [queue.submit(f"lake.sales.t{number}") for number in range(7)]
    pages, before = [], None
    while True:
        page = queue.jobs.list_jobs(limit=3, before=before)
        pages.append([job.id for job in page.jobs])
        before = page.next_before
        if before is None:
            break
        queue.submit(f"lake.sales.late{before}")
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [job_id for page in pages for job_id in page] == [job.id for job in reversed(made)]


def test_a_full_last_page_is_the_last(queue: Queue) -> None:
    queue.submit("lake.sales.a")
    queue.submit("lake.sales.b")
    assert queue.jobs.list_jobs(limit=2).next_before is None


def test_listing_narrows_by_everything_asked(queue: Queue) -> None:
    orders = queue.submit(priority=9, requester="ann")
    returns = queue.submit("lake.sales.returns", ExpireSnapshots(), requester="bob")
    other = queue.submit("other.sales.orders", requester="bob")
    claim = queue.claim()

    def found(**wishes: object) -> list[UUID]:
        return [job.id for job in queue.jobs.list_jobs(JobFilter(**wishes)).jobs]  # type: ignore[arg-type]

    assert claim.job_id == orders.id
    assert found() == [other.id, returns.id, orders.id]
    assert found(states=frozenset({JobState.RUNNING})) == [orders.id]
    assert found(states=frozenset({JobState.RUNNING, JobState.QUEUED}), catalog="lake") == [returns.id, orders.id]
    assert found(table=orders.table) == [orders.id]
    assert found(kind=orders.kind) == [other.id, orders.id]
    assert found(requester="bob", kind=orders.kind) == [other.id]
    assert queue.jobs.list_jobs(JobFilter(table=orders.table)).jobs[0] == claim.job


def test_listing_narrows_by_time(queue: Queue) -> None:
    ended = queue.submit()
    queue.jobs.finish(queue.claim(), DONE)
    queue.clock.shift(timedelta(hours=2))
    noon = queue.clock.read()
    open_still = queue.submit("lake.sales.returns")

    def found(**wishes: object) -> list[UUID]:
        return [job.id for job in queue.jobs.list_jobs(JobFilter(**wishes)).jobs]  # type: ignore[arg-type]

    assert found(since=noon - timedelta(hours=3)) == [open_still.id, ended.id]
    assert found(since=noon - timedelta(hours=1)) == [open_still.id]
    assert found(since=noon + timedelta(hours=9)) == [open_still.id], "it may end any time"
    assert found(until=noon) == [ended.id]


def test_events_tell_the_whole_story(queue: Queue) -> None:
    job = queue.submit(requester="ann")
    queue.jobs.fail(queue.claim("first"), "conflict")
    queue.jobs.hand_back(queue.claim("second"), "SIGTERM")
    queue.claim("third")
    queue.wait(60)
    queue.jobs.reap()
    last = queue.claim("fourth")
    queue.jobs.finish(last, JobOutcome(state=JobState.SUCCEEDED, message="ok"))
    events = queue.jobs.events(job.id)
    assert [(event.kind.value, event.actor, event.attempt, event.message) for event in events] == [
        ("submitted", "ann", 0, ""),
        ("claimed", "first", 1, ""),
        ("retried", "first", 1, "conflict"),
        ("claimed", "second", 2, ""),
        ("handed_back", "second", 2, "SIGTERM"),
        ("claimed", "third", 3, ""),
        ("expired", "reaper", 3, "'third' was not heard of before its lease ended."),
        ("claimed", "fourth", 4, ""),
        ("succeeded", "fourth", 4, "ok"),
    ]
    assert {event.table for event in events} == {job.table}
    assert events[-2].number == last.fence
    assert events[0].at == DAWN
    assert events[-1].at == DAWN + timedelta(seconds=60)


def test_counts_tell_every_state(queue: Queue) -> None:
    assert queue.jobs.counts() == dict.fromkeys(JobState, 0)
    for number in range(3):
        queue.submit(f"lake.sales.t{number}")
    queue.jobs.finish(queue.claim(), DONE)
    queue.claim()
    assert queue.jobs.counts() == {
        JobState.QUEUED: 1, JobState.RUNNING: 1, JobState.SUCCEEDED: 1, JobState.FAILED: 0, JobState.CANCELLED: 0,
    }  # fmt: skip


def test_the_databases_own_clock_is_near_ours_and_finer_than_a_second(queue: Queue) -> None:
    store = SqlJobStore(queue.engine)
    times = [store.now() for _ in range(20)]
    assert abs(times[0] - datetime.now(UTC)) < timedelta(minutes=1)
    assert times[0].tzinfo is UTC
    assert times == sorted(times)
    assert len({time.microsecond // 1000 for time in times}) > 1


def test_a_lease_by_the_databases_own_clock_ends(queue: Queue) -> None:
    store = SqlJobStore(queue.engine)
    store.submit(request())
    claim = store.claim("worker", timedelta(seconds=30))
    assert claim is not None
    assert timedelta(seconds=25) < claim.lease_ends_at - store.now() <= timedelta(seconds=30)
    assert store.reap() == []
    short = replace(claim, lease=timedelta(milliseconds=-1))
    store.heartbeat(short)
    assert [job.id for job in store.reap()] == [claim.job_id]


def _span(name: str = "planning") -> Span:
    context = TraceContext(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7")
    return Span(
        name=name,
        context=context,
        parent_id="1" * 16,
        started_at=DAWN,
        ended_at=DAWN + timedelta(seconds=1.5),
        attributes={"icepack.table": "naïve 雪\0", "icepack.attempt": 1, "done": True},
        failure="nul \0 and half a pair \ud800",
    )


def test_spans_are_part_of_a_job_s_story(queue: Queue) -> None:
    job = queue.submit()
    claim = queue.claim("w")
    queue.jobs.trace(claim, [_span("run"), _span("planning")])
    queue.jobs.trace(claim, [])
    first, second = [event for event in queue.jobs.events(job.id) if event.kind is JobEventKind.SPAN]
    assert (first.actor, first.attempt, first.details["name"]) == ("w", 1, "run")
    assert second.message.startswith("planning took 1.500 s: nul")
    told = dict(second.details or {})
    assert (told["started_at"], told["ended_at"]) == ("2026-11-15T06:00:00Z", "2026-11-15T06:00:01.500000Z")
    assert told["context"]["trace_id"] == _span().context.trace_id
    assert told["attributes"] == {"icepack.table": "naïve 雪", "icepack.attempt": 1, "done": True}


def test_a_stale_claim_writes_no_spans(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.wait(LEASE.total_seconds() + 1)
    queue.jobs.reap()
    queue.claim("another")
    before = queue.dump()
    with pytest.raises(ClaimLost):
        queue.jobs.trace(claim, [_span()])
    assert queue.dump() == before


def test_a_job_that_has_ended_takes_no_more_spans(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.jobs.finish(claim, DONE)
    with pytest.raises(ClaimLost):
        queue.jobs.trace(claim, [_span()])


def test_a_job_without_a_caller_s_trace_gets_one_of_its_own(queue: Queue) -> None:
    first, second = queue.submit("lake.a.one"), queue.submit("lake.a.two", trace_context="no traceparent")
    found = [TraceContext.parse(job.trace_context) for job in (first, second)]
    assert None not in found
    assert len({context.trace_id for context in found if context}) == 2
