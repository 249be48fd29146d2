"""Expired claims: which jobs are taken back, and the grace period after an outage."""

from __future__ import annotations

from datetime import timedelta

import pytest

from contract.invariants import assert_consistent
from contract.queue_harness import DAWN, LEASE, Queue
from icepack.domain.job import Job, JobState
from icepack.domain.ports.queue import JobStore
from icepack.errors import EnvironmentFault
from icepack.store.queue.expired_claims import ExpiredClaims


@pytest.fixture
def reaper(queue: Queue) -> ExpiredClaims:
    """A reaper whose grace period is over."""
    reaper = ExpiredClaims(queue.jobs, LEASE)
    reaper.tick()
    queue.wait(LEASE.total_seconds())
    assert reaper.tick() == []
    return reaper


def _tick(queue: Queue, reaper: ExpiredClaims, seconds: float) -> list[Job]:
    queue.wait(seconds)
    return reaper.tick()


def test_a_dead_workers_job_goes_back_to_the_queue(queue: Queue, reaper: ExpiredClaims) -> None:
    queue.submit()
    dead = queue.claim("dead")
    assert _tick(queue, reaper, 29.9) == []
    (job,) = _tick(queue, reaper, 0.2)
    assert (job.id, job.state, job.attempts, job.lease_ends_at) == (dead.job_id, JobState.QUEUED, 1, None)
    assert job.message == "The lease of 'dead' expired."
    assert queue.locks.list_locks() == []
    assert_consistent(queue.engine)
    again = queue.claim("heir")
    assert (again.job_id, again.job.attempts) == (dead.job_id, 2)
    assert again.fence > dead.fence


def test_a_dead_workers_last_attempt_fails_the_job(queue: Queue, reaper: ExpiredClaims) -> None:
    queue.submit(max_attempts=1)
    queue.claim("dead")
    (job,) = _tick(queue, reaper, 31)
    assert (job.state, job.finished_at, job.attempts_left) == (JobState.FAILED, queue.clock.read(), 0)
    assert queue.locks.list_locks() == []


def test_a_job_of_a_living_worker_is_not_taken_back(queue: Queue, reaper: ExpiredClaims) -> None:
    queue.submit()
    claim = queue.claim()
    for _ in range(5):
        assert _tick(queue, reaper, 10) == []
        queue.jobs.heartbeat(claim)


def test_all_expired_claims_are_taken_back_at_once(queue: Queue, reaper: ExpiredClaims) -> None:
    for number in range(5):
        queue.submit(f"lake.sales.t{number}")
    claims = list(queue.claim_all())
    queue.wait(20)
    queue.jobs.heartbeat(claims[2])
    taken = _tick(queue, reaper, 20)
    assert {job.id for job in taken} == {claim.job_id for claim in claims} - {claims[2].job_id}


def test_one_round_can_be_limited(queue: Queue) -> None:
    for number in range(3):
        queue.submit(f"lake.sales.t{number}")
    list(queue.claim_all())
    queue.wait(60)
    assert [len(queue.jobs.reap(limit=2)) for _ in range(3)] == [2, 1, 0]


def test_an_expired_lock_is_freed(queue: Queue, reaper: ExpiredClaims) -> None:
    job = queue.submit()
    queue.locks.acquire(job.table, "cli", LEASE)
    assert _tick(queue, reaper, 31) == []
    assert queue.locks.list_locks() == []
    assert queue.claim().job_id == job.id


def test_a_new_reaper_waits_one_lease(queue: Queue) -> None:
    queue.submit()
    queue.claim("dead")
    queue.wait(3600)
    reaper = ExpiredClaims(queue.jobs, LEASE)
    assert reaper.tick() == []
    assert _tick(queue, reaper, 29) == []
    assert len(_tick(queue, reaper, 1)) == 1


class FlakyJobStore(JobStore):
    """A job store whose database can become unreachable."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self.unreachable: set[str] = set()

    def __getattribute__(self, name: str) -> object:
        if name.startswith("_") or name == "unreachable":
            return object.__getattribute__(self, name)
        if name in self.unreachable:
            raise EnvironmentFault("gone")
        return getattr(self._jobs, name)


def test_a_reaper_that_lost_the_database_waits_one_lease_after_reconnecting(queue: Queue) -> None:
    flaky = FlakyJobStore(queue.jobs)
    reaper = ExpiredClaims(flaky, LEASE)
    for _ in range(5):
        reaper.tick()
        queue.wait(10)
    queue.submit()
    claim = queue.claim("alive")
    flaky.unreachable = {"now", "reap"}
    for _ in range(4):
        with pytest.raises(EnvironmentFault):
            _tick(queue, reaper, 10)
    flaky.unreachable = set()
    assert _tick(queue, reaper, 0) == []
    assert _tick(queue, reaper, 20) == []
    queue.jobs.heartbeat(claim)
    assert _tick(queue, reaper, 10) == []
    assert _tick(queue, reaper, 10) == []
    assert len(_tick(queue, reaper, 20)) == 1


def test_a_failed_tick_counts_as_an_outage(queue: Queue) -> None:
    flaky = FlakyJobStore(queue.jobs)
    reaper = ExpiredClaims(flaky, LEASE)
    reaper.tick()
    queue.submit()
    queue.claim("dead")
    flaky.unreachable = {"reap"}
    with pytest.raises(EnvironmentFault):
        _tick(queue, reaper, 31)
    flaky.unreachable = set()
    assert _tick(queue, reaper, 1) == []
    assert len(_tick(queue, reaper, 30)) == 1


def test_an_outage_during_the_grace_period_restarts_it(queue: Queue) -> None:
    flaky = FlakyJobStore(queue.jobs)
    reaper = ExpiredClaims(flaky, LEASE)
    queue.submit()
    queue.claim("dead")
    reaper.tick()
    _tick(queue, reaper, 29)
    flaky.unreachable = {"now"}
    with pytest.raises(EnvironmentFault):
        reaper.tick()
    flaky.unreachable = set()
    assert _tick(queue, reaper, 2) == []
    assert _tick(queue, reaper, 29) == []
    assert len(_tick(queue, reaper, 1)) == 1


def test_a_suspended_machine_starts_a_grace_period(queue: Queue, reaper: ExpiredClaims) -> None:
    queue.submit()
    queue.claim("asleep too")
    assert _tick(queue, reaper, 8 * 3600) == []
    assert len(_tick(queue, reaper, 30)) == 1


def test_a_clock_that_jumps_back_starts_a_grace_period(queue: Queue, reaper: ExpiredClaims) -> None:
    queue.submit()
    queue.claim("dead")
    queue.wait(50)
    assert _tick(queue, reaper, -60) == []
    assert _tick(queue, reaper, 29) == []
    assert len(_tick(queue, reaper, 20)) == 1


def test_the_interval_is_a_small_part_of_the_lease(queue: Queue) -> None:
    assert ExpiredClaims(queue.jobs, timedelta(seconds=60)).interval == timedelta(seconds=15)
    assert queue.clock.read() == DAWN
