"""Submitting jobs: collapsing equal jobs, idempotency keys and retries of finished jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from contract.invariants import assert_consistent
from contract.queue_harness import DAWN, DONE, LEASE, Queue, request
from contract.sample_runs import ACTIONS, ODD
from icepack.domain.actions import Compact, ExpireSnapshots, RewriteManifests, Strategy
from icepack.domain.job import (
    IdempotencyKeyReused,
    JobState,
    JobStateConflict,
    SubmissionOutcome,
)


def test_equal_queued_jobs_collapse_into_one(queue: Queue) -> None:
    first = queue.submit(action=Compact(options={"a": "1", "b": "2"}), requester="ann")
    again = queue.jobs.submit(request(action=Compact(options={"b": "2", "a": "1"}), requester="bob"))
    assert (again.outcome, again.job.id) == (SubmissionOutcome.COLLAPSED, first.id)
    events = queue.jobs.events(first.id)
    assert [(event.kind, event.actor) for event in events] == [("submitted", "ann"), ("collapsed", "bob")]
    assert len(list(queue.claim_all())) == 1


def test_different_jobs_never_collapse(queue: Queue) -> None:
    requested = [
        request(),
        request("lake.sales.returns"),
        request("other.sales.orders"),
        request(action=RewriteManifests()),
        request(action=Compact(strategy=Strategy.DELETE_FILES)),
        request(action=Compact(partition_filter="day = 1")),
        request(action=Compact(options={"x": "1"})),
    ]
    assert {queue.jobs.submit(one).outcome for one in requested} == {SubmissionOutcome.CREATED}


def test_submissions_do_not_collapse_into_running_or_finished_jobs(queue: Queue) -> None:
    ids = {queue.submit().id}
    claim = queue.claim()
    ids.add(queue.submit().id)
    queue.jobs.finish(claim, DONE)
    queue.jobs.finish(queue.claim(), DONE)
    ids.add(queue.submit().id)
    assert len(ids) == 3


def test_collapsing_keeps_the_more_urgent_request(queue: Queue) -> None:
    low = queue.submit("lake.sales.low", priority=1, not_before=DAWN + timedelta(hours=2))
    queue.submit("lake.sales.high", priority=2)
    queue.submit("lake.sales.low", priority=3, not_before=DAWN + timedelta(hours=1))
    assert queue.jobs.get(low.id).waits_until == DAWN + timedelta(hours=1)
    raised = queue.submit("lake.sales.low", priority=0)
    assert (raised.priority, raised.waits_until) == (3, None)
    assert [claim.job.table.name for claim in queue.claim_all()] == ["low", "high"]
    assert_consistent(queue.engine)


def test_collapsing_does_not_undo_the_delay_of_a_retry(queue: Queue) -> None:
    queue.submit()
    failed = queue.jobs.fail(queue.claim(), "conflict", delay=timedelta(minutes=5))
    collapsed = queue.jobs.submit(request())
    assert (collapsed.outcome, collapsed.job.id) == (SubmissionOutcome.COLLAPSED, failed.id)
    assert collapsed.job.waits_until == failed.waits_until


@pytest.mark.parametrize("how", ["fail", "hand_back", "reap", "break"])
def test_a_requeued_job_absorbs_equal_queued_jobs(queue: Queue, how: str) -> None:
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
    assert (repeated.outcome, repeated.job.id) == (SubmissionOutcome.REPEATED, first.id)
    assert_consistent(queue.engine)
    assert [(claim.job_id, claim.job.priority) for claim in queue.claim_all()] == [(first.id, 4)]


def test_a_failed_job_does_not_absorb_equal_jobs(queue: Queue) -> None:
    queue.submit(max_attempts=1)
    claim = queue.claim()
    second = queue.submit()
    queue.jobs.fail(claim, "broken")
    assert queue.claim().job_id == second.id


def test_an_idempotency_key_creates_one_job_even_after_it_finished(queue: Queue) -> None:
    first = queue.jobs.submit(request(idempotency_key="nightly"))
    for _ in range(2):
        again = queue.jobs.submit(request(idempotency_key="nightly", priority=3))
        assert (again.outcome, again.job.id) == (SubmissionOutcome.REPEATED, first.job.id)
        for claim in queue.claim_all():
            queue.jobs.finish(claim, DONE)
    assert queue.jobs.counts()[JobState.SUCCEEDED] == 1


def test_the_key_of_a_collapsed_submission_is_stored_too(queue: Queue) -> None:
    job = queue.submit()
    assert queue.jobs.submit(request(idempotency_key="late")).outcome is SubmissionOutcome.COLLAPSED
    queue.jobs.finish(queue.claim(), DONE)
    again = queue.jobs.submit(request(idempotency_key="late"))
    assert (again.outcome, again.job.id) == (SubmissionOutcome.REPEATED, job.id)


@pytest.mark.parametrize("other", [request("lake.sales.returns"), request(action=ExpireSnapshots())], ids=str)
def test_a_key_cannot_be_used_for_different_requests(queue: Queue, other: object) -> None:
    first = queue.submit(idempotency_key="nightly")
    before = queue.dump()
    with pytest.raises(IdempotencyKeyReused, match=f"belongs to job {first.id}"):
        queue.jobs.submit(replace(other, idempotency_key="nightly"))  # type: ignore[type-var]
    assert queue.dump() == before


def test_a_retry_is_a_new_job_that_refers_to_the_old_one(queue: Queue) -> None:
    queue.submit(ODD, ACTIONS[3], priority=5, max_attempts=1, requester="ann")
    queue.jobs.hand_back(queue.claim())
    failed = queue.jobs.fail(queue.claim(), "broken")
    again = queue.jobs.retry(failed.id, requester="bob")
    assert (again.outcome, again.job.retry_of) == (SubmissionOutcome.CREATED, failed.id)
    assert (again.job.table, again.job.action, again.job.priority) == (ODD, ACTIONS[3], 5)
    assert (again.job.requester, again.job.attempts, again.job.max_attempts) == ("bob", 0, 1)
    assert queue.jobs.get(failed.id) == failed
    assert queue.jobs.retry(failed.id).outcome is SubmissionOutcome.COLLAPSED


def test_an_unfinished_job_cannot_be_retried(queue: Queue) -> None:
    job = queue.submit()
    for state in (JobState.QUEUED, JobState.RUNNING):
        with pytest.raises(JobStateConflict, match=f"is {state} and cannot be retried before it has finished"):
            queue.jobs.retry(job.id)
        queue.jobs.claim("worker", LEASE)
