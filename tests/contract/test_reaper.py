"""What the reaper takes back, and when it knows better than to."""

from __future__ import annotations

from datetime import timedelta

import pytest

from icepack.domain.job import Job, JobState
from icepack.domain.ports.queue import JobStore
from icepack.errors import EnvironmentFault
from icepack.store.queue.reaper import Reaper

from .invariants import assert_sound
from .queueing import DAWN, LEASE, Queue


@pytest.fixture
def reaper(queue: Queue) -> Reaper:
    """One that has been at it long enough to trust its eyes."""
    reaper = Reaper(queue.jobs, LEASE)
    reaper.tick()
    queue.wait(LEASE.total_seconds())
    assert reaper.tick() == []
    return reaper


def _tick(queue: Queue, reaper: Reaper, seconds: float) -> list[Job]:
    queue.wait(seconds)
    return reaper.tick()


def test_a_dead_workers_job_goes_back_to_the_queue(queue: Queue, reaper: Reaper) -> None:
    queue.submit()
    dead = queue.claim("dead")
    assert _tick(queue, reaper, 29.9) == []
    (job,) = _tick(queue, reaper, 0.2)
    assert (job.id, job.state, job.attempts, job.lease_ends_at) == (dead.job_id, JobState.QUEUED, 1, None)
    assert job.message == "'dead' was not heard of before its lease ended."
    assert queue.locks.list_locks() == []
    assert_sound(queue.engine)
    again = queue.claim("heir")
    assert (again.job_id, again.job.attempts) == (dead.job_id, 2)
    assert again.fence > dead.fence


def test_a_dead_workers_last_attempt_fails_the_job(queue: Queue, reaper: Reaper) -> None:
    queue.submit(max_attempts=1)
    queue.claim("dead")
    (job,) = _tick(queue, reaper, 31)
    assert (job.state, job.finished_at, job.attempts_left) == (JobState.FAILED, queue.clock.read(), 0)
    assert queue.locks.list_locks() == []


def test_a_living_workers_job_stays(queue: Queue, reaper: Reaper) -> None:
    queue.submit()
    claim = queue.claim()
    for _ in range(5):
        assert _tick(queue, reaper, 10) == []
        queue.jobs.heartbeat(claim)


def test_all_that_is_dead_is_taken_back_at_once(queue: Queue, reaper: Reaper) -> None:
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


def test_a_lock_left_behind_is_freed(queue: Queue, reaper: Reaper) -> None:
    job = queue.submit()
    queue.locks.acquire(job.table, "cli", LEASE)
    assert _tick(queue, reaper, 31) == []
    assert queue.locks.list_locks() == []
    assert queue.claim().job_id == job.id


def test_a_new_reaper_waits_one_lease(queue: Queue) -> None:
    queue.submit()
    queue.claim("dead")
    queue.wait(3600)
    reaper = Reaper(queue.jobs, LEASE)
    assert reaper.tick() == []
    assert _tick(queue, reaper, 29) == []
    assert len(_tick(queue, reaper, 1)) == 1


class Flaky(JobStore):
    """A store whose database can go away."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self.away: set[str] = set()

    def __getattribute__(self, name: str) -> object:
        if name.startswith("_") or name == "away":
            return object.__getattribute__(self, name)
        if name in self.away:
            raise EnvironmentFault("gone")
        return getattr(self._jobs, name)


def test_a_reaper_that_lost_the_database_waits_one_lease_after_reconnecting(queue: Queue) -> None:
    flaky = Flaky(queue.jobs)
    reaper = Reaper(flaky, LEASE)
    for _ in range(5):
        reaper.tick()
        queue.wait(10)
    queue.submit()
    claim = queue.claim("alive")
    flaky.away = {"now", "reap"}
    for _ in range(4):
        with pytest.raises(EnvironmentFault):
            _tick(queue, reaper, 10)
    flaky.away = set()
    assert _tick(queue, reaper, 0) == []
    assert _tick(queue, reaper, 20) == []
    queue.jobs.heartbeat(claim)
    assert _tick(queue, reaper, 10) == []
    assert _tick(queue, reaper, 10) == []
    assert len(_tick(queue, reaper, 20)) == 1


def test_a_round_that_broke_off_counts_as_a_loss(queue: Queue) -> None:
    flaky = Flaky(queue.jobs)
    reaper = Reaper(flaky, LEASE)
    reaper.tick()
    queue.submit()
    queue.claim("dead")
    flaky.away = {"reap"}
    with pytest.raises(EnvironmentFault):
        _tick(queue, reaper, 31)
    flaky.away = set()
    assert _tick(queue, reaper, 1) == []
    assert len(_tick(queue, reaper, 30)) == 1


def test_a_reaper_lost_again_while_it_waits_waits_again(queue: Queue) -> None:
    flaky = Flaky(queue.jobs)
    reaper = Reaper(flaky, LEASE)
    queue.submit()
    queue.claim("dead")
    reaper.tick()
    _tick(queue, reaper, 29)
    flaky.away = {"now"}
    with pytest.raises(EnvironmentFault):
        reaper.tick()
    flaky.away = set()
    assert _tick(queue, reaper, 2) == []
    assert _tick(queue, reaper, 29) == []
    assert len(_tick(queue, reaper, 1)) == 1


def test_a_machine_that_slept_wakes_before_its_reaper_does(queue: Queue, reaper: Reaper) -> None:
    queue.submit()
    queue.claim("asleep too")
    assert _tick(queue, reaper, 8 * 3600) == []
    assert len(_tick(queue, reaper, 30)) == 1


def test_a_clock_that_jumped_back_makes_the_reaper_wait(queue: Queue, reaper: Reaper) -> None:
    queue.submit()
    queue.claim("dead")
    queue.wait(50)
    assert _tick(queue, reaper, -60) == []
    assert _tick(queue, reaper, 29) == []
    assert len(_tick(queue, reaper, 20)) == 1


def test_the_interval_is_a_small_part_of_the_lease(queue: Queue) -> None:
    assert Reaper(queue.jobs, timedelta(seconds=60)).interval == timedelta(seconds=15)
    assert queue.clock.read() == DAWN
