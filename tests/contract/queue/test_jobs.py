"""The contract of a job store: claims, leases, fences and the end of a job, with and without failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from contract.invariants import assert_consistent
from contract.queue_harness import DAWN, DONE, LEASE, Queue, request
from contract.sample_runs import ACTIONS, ODD
from icepack.domain.actions import Action, ExpireSnapshots
from icepack.domain.job import (
    Claim,
    ClaimLost,
    JobEventKind,
    JobNotFound,
    JobOutcome,
    JobProgress,
    JobState,
    JobStateConflict,
    SubmissionOutcome,
)
from icepack.domain.ports.queue import JobStore
from icepack.domain.table import TableId
from icepack.store.jobs import SqlJobStore

HARD_TEXT = "nul \0, half a pair \udc80, 'quotes' %s :x 雪"
PROGRESS = JobProgress(
    partitions_completed=5, partitions_total=10, files_processed=150, bytes_read=5 * 2**30, bytes_written=2**42
)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.kind)
def test_a_submitted_job_is_read_as_requested(queue: Queue, action: Action) -> None:
    requested = request(
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
    made = queue.jobs.submit(requested)
    job = queue.jobs.get(made.job.id)
    assert made.outcome is SubmissionOutcome.CREATED
    assert job == made.job
    kept = set(requested.__dataclass_fields__) - {"fingerprint"}
    assert {name: getattr(job, name) for name in kept} == {name: getattr(requested, name) for name in kept}
    assert (job.state, job.attempts, job.submitted_at) == (JobState.QUEUED, 0, DAWN)
    assert job.waits_until == requested.not_before


def test_a_missing_job_is_named(queue: Queue) -> None:
    missing = uuid4()
    for ask in (queue.jobs.get, queue.jobs.cancel, queue.jobs.retry):
        with pytest.raises(JobNotFound, match=str(missing)):
            ask(missing)


def test_a_claim_contains_the_whole_job(queue: Queue) -> None:
    submitted = queue.submit(ODD, ACTIONS[0], trace_context="trace")
    claim = queue.claim("wörker")
    assert claim.job == queue.jobs.get(submitted.id)
    assert (claim.job_id, claim.table, claim.worker, claim.lease) == (submitted.id, ODD, "wörker", LEASE)
    assert claim.lease_ends_at == claim.job.lease_ends_at == DAWN + LEASE
    assert (claim.job.state, claim.job.attempts, claim.job.worker) == (JobState.RUNNING, 1, "wörker")
    assert claim.job.started_at == DAWN
    assert claim.job.fence == claim.fence


def test_claiming_from_an_empty_queue_returns_nothing(queue: Queue) -> None:
    assert queue.jobs.claim("worker", LEASE) is None


def test_a_job_is_claimed_once(queue: Queue) -> None:
    job = queue.submit()
    assert [claim.job_id for claim in queue.claim_all()] == [job.id]


@pytest.mark.parametrize("state", [state for state in JobState if state.is_final])
def test_a_job_ends_with_the_outcome_of_its_worker(queue: Queue, state: JobState) -> None:
    queue.submit()
    claim = queue.claim()
    queue.wait(5)
    queue.jobs.finish(claim, JobOutcome(state=state, message=HARD_TEXT, details={"deep": {"π": [1, None]}}))
    job = queue.jobs.get(claim.job_id)
    assert (job.state, job.finished_at, job.lease_ends_at) == (state, DAWN + timedelta(seconds=5), None)
    assert job.message == "nul , half a pair ?, 'quotes' %s :x 雪"
    assert job.details == {"deep": {"π": [1, None]}}
    assert queue.locks.list_locks() == []
    assert_consistent(queue.engine)


def test_finishing_twice_has_one_effect(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.jobs.finish(claim, DONE)
    before = queue.dump()
    queue.jobs.finish(claim, DONE)
    assert queue.dump() == before
    with pytest.raises(ClaimLost):
        queue.jobs.finish(claim, JobOutcome(state=JobState.FAILED))
    assert queue.dump() == before


def test_returning_a_job_twice_has_one_effect(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    returned = queue.jobs.hand_back(claim, "SIGTERM")
    assert queue.jobs.hand_back(claim, "SIGTERM") == returned
    again = queue.claim()
    failed = queue.jobs.fail(again, "no luck")
    assert queue.jobs.fail(again, "no luck") == failed
    with pytest.raises(ClaimLost):
        queue.jobs.hand_back(claim, "SIGTERM")


def test_progress_is_stored_and_reset_with_each_attempt(queue: Queue) -> None:
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


def test_a_late_heartbeat_is_accepted_while_nobody_has_taken_the_job(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.wait(3600)
    assert queue.jobs.heartbeat(claim) is False
    assert queue.jobs.reap() == []


def test_a_running_job_is_cancelled_through_its_worker(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    requested = queue.jobs.cancel(claim.job_id, by="ann")
    assert (requested.state, requested.cancel_requested_at) == (JobState.RUNNING, DAWN)
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
def test_a_job_with_a_cancel_request_is_not_queued_again(queue: Queue, lose: str) -> None:
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
    assert_consistent(queue.engine)
    assert [claim.job_id for claim in queue.claim_all()] == [second.id]


def test_a_finished_job_cannot_be_cancelled(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.jobs.finish(claim, DONE)
    with pytest.raises(JobStateConflict, match="is succeeded and cannot be cancelled"):
        queue.jobs.cancel(claim.job_id)


def test_a_failed_job_is_retried_until_its_attempts_are_used_up(queue: Queue) -> None:
    job = queue.submit(max_attempts=2)
    first = queue.jobs.fail(queue.claim(), "disk full")
    assert (first.state, first.attempts, first.message) == (JobState.QUEUED, 1, "disk full")
    second = queue.jobs.fail(queue.claim(), "disk still full")
    assert (second.state, second.attempts, second.attempts_left) == (JobState.FAILED, 2, 0)
    assert (second.id, second.finished_at, second.message) == (job.id, DAWN, "disk still full")
    assert queue.jobs.claim("worker", LEASE) is None
    assert_consistent(queue.engine)


def test_a_failure_without_retry_fails_the_job_at_once(queue: Queue) -> None:
    queue.submit(max_attempts=9)
    assert queue.jobs.fail(queue.claim(), "no such column", retry=False).state is JobState.FAILED


def test_a_retry_waits_for_its_delay(queue: Queue) -> None:
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
def test_a_stale_fence_writes_nothing_and_raises(queue: Queue, write: str, how: str) -> None:
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
def test_another_worker_cannot_use_the_fence(queue: Queue, write: str) -> None:
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


def test_counts_include_every_state(queue: Queue) -> None:
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
