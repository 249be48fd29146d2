"""The contract of table locks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from contract.invariants import assert_consistent
from contract.queue_harness import DAWN, LEASE, Queue
from contract.sample_runs import ODD, ORDERS
from icepack.domain.job import ClaimLost, JobState
from icepack.domain.ports.locks import LockLost, TableLocked
from icepack.domain.table import TableId
from icepack.errors import Refused


def test_a_lock_has_an_owner_and_an_expiry(queue: Queue) -> None:
    lock = queue.locks.acquire(ODD, "ann@laptop:77", LEASE, "compact 雪")
    assert queue.locks.list_locks() == [lock]
    assert (lock.table, lock.owner, lock.purpose) == (ODD, "ann@laptop:77", "compact 雪")
    assert (lock.taken_at, lock.expires_at, lock.expired, lock.job_id) == (DAWN, DAWN + LEASE, False, None)


def test_a_second_holder_is_refused_with_the_name_of_the_first(queue: Queue) -> None:
    first = queue.locks.acquire(ORDERS, "ann", LEASE, "compact")
    with pytest.raises(
        TableLocked, match=r"lake.sales.orders is locked by 'ann' for compact until 2026-11-15 06:00:30"
    ):
        queue.locks.acquire(ORDERS, "bob", LEASE)
    with pytest.raises(Refused):
        queue.locks.acquire(ORDERS, "ann", LEASE)
    assert queue.locks.list_locks() == [first]


def test_tables_are_locked_one_by_one(queue: Queue) -> None:
    for name in ("b", "a"):
        queue.locks.acquire(TableId("lake", ("sales",), name), "ann", LEASE)
    assert [lock.table.name for lock in queue.locks.list_locks()] == ["a", "b"]


def test_a_released_table_is_free(queue: Queue) -> None:
    first = queue.locks.acquire(ORDERS, "ann", LEASE)
    assert queue.locks.release(first) is True
    assert queue.locks.list_locks() == []
    second = queue.locks.acquire(ORDERS, "bob", LEASE)
    assert second.token > first.token


def test_only_the_owner_releases(queue: Queue) -> None:
    lock = queue.locks.acquire(ORDERS, "ann", LEASE)
    for other in (replace(lock, owner="bob"), replace(lock, token=lock.token - 1), replace(lock, table=ODD)):
        assert queue.locks.release(other) is False
    assert queue.locks.list_locks() == [lock]
    assert queue.locks.release(lock) is True
    assert queue.locks.release(lock) is False


def test_a_lock_is_renewed_by_its_owner_alone(queue: Queue) -> None:
    lock = queue.locks.acquire(ORDERS, "ann", LEASE)
    queue.wait(20)
    renewed = queue.locks.renew(lock, timedelta(seconds=60))
    assert renewed == replace(lock, expires_at=DAWN + timedelta(seconds=80))
    assert queue.locks.list_locks() == [renewed]
    with pytest.raises(LockLost, match=r"'bob' no longer holds the lock on lake.sales.orders"):
        queue.locks.renew(replace(lock, owner="bob"), LEASE)


def test_an_expired_lock_is_taken_over_and_its_owner_loses_it(queue: Queue) -> None:
    first = queue.locks.acquire(ORDERS, "ann", LEASE)
    queue.wait(30)
    assert queue.locks.list_locks()[0].expired
    second = queue.locks.acquire(ORDERS, "bob", LEASE)
    with pytest.raises(LockLost):
        queue.locks.renew(first, LEASE)
    assert queue.locks.release(first) is False
    assert queue.locks.list_locks() == [second]


def test_an_expired_lock_that_nobody_took_can_be_renewed(queue: Queue) -> None:
    lock = queue.locks.acquire(ORDERS, "ann", LEASE)
    queue.wait(3600)
    assert not queue.locks.renew(lock, LEASE).expired


def test_a_running_job_holds_its_table(queue: Queue) -> None:
    queue.submit(ORDERS)
    claim = queue.claim("worker-1")
    (lock,) = queue.locks.list_locks()
    assert (lock.owner, lock.job_id, lock.token) == ("worker-1", claim.job_id, claim.fence)
    with pytest.raises(TableLocked, match="locked by 'worker-1' for a job"):
        queue.locks.acquire(ORDERS, "cli", LEASE)


def test_a_lock_of_a_command_blocks_workers_until_it_is_reaped(queue: Queue) -> None:
    queue.submit(ORDERS)
    queue.locks.acquire(ORDERS, "cli", LEASE)
    queue.wait(60)
    assert queue.jobs.claim("worker", LEASE) is None
    assert queue.jobs.reap() == []
    assert queue.claim().table == ORDERS


def test_taking_over_from_a_dead_worker_returns_its_job(queue: Queue) -> None:
    queue.submit(ORDERS)
    claim = queue.claim()
    queue.wait(60)
    lock = queue.locks.acquire(ORDERS, "cli", LEASE)
    assert queue.jobs.get(claim.job_id).state is JobState.QUEUED
    assert lock.token > claim.fence
    with pytest.raises(ClaimLost):
        queue.jobs.heartbeat(claim)
    assert_consistent(queue.engine)


def test_only_force_breaks_a_lock_that_has_not_expired(queue: Queue) -> None:
    lock = queue.locks.acquire(ORDERS, "ann", LEASE)
    with pytest.raises(TableLocked):
        queue.locks.break_lock(ORDERS)
    assert queue.locks.break_lock(ORDERS, force=True, by="root") == lock
    assert queue.locks.list_locks() == []
    with pytest.raises(LockLost):
        queue.locks.renew(lock, LEASE)


def test_an_expired_lock_is_broken_without_force(queue: Queue) -> None:
    queue.locks.acquire(ORDERS, "ann", LEASE)
    queue.wait(30)
    broken = queue.locks.break_lock(ORDERS)
    assert broken is not None
    assert broken.expired


def test_breaking_a_free_table_returns_nothing(queue: Queue) -> None:
    assert queue.locks.break_lock(ORDERS, force=True) is None
    queue.submit(ORDERS)
    assert queue.locks.break_lock(ORDERS, force=True) is None


def test_breaking_a_jobs_lock_requeues_the_job_and_its_worker_loses_the_claim(queue: Queue) -> None:
    queue.submit(ORDERS, max_attempts=2)
    for state in (JobState.QUEUED, JobState.FAILED):
        claim = queue.claim()
        queue.locks.break_lock(ORDERS, force=True, by="root")
        job = queue.jobs.get(claim.job_id)
        assert (job.state, job.message) == (state, "The lock of 'worker' was broken.")
        with pytest.raises(ClaimLost):
            queue.jobs.heartbeat(claim)
        assert_consistent(queue.engine)
