"""Concurrency with real threads and processes: each job is claimed once and no submission is lost."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, text

from contract.bulk_jobs import fill
from contract.invariants import assert_consistent
from contract.queue_harness import DONE, LEASE, delete_all_rows, request
from contract.sample_runs import ORDERS
from icepack.domain.actions import Compact, ExpireSnapshots, RewriteManifests
from icepack.domain.job import (
    Claim,
    ClaimLost,
    IdempotencyKeyReused,
    Job,
    JobState,
    JobStateConflict,
    SubmissionOutcome,
)
from icepack.domain.ports.locks import TableLocked
from icepack.domain.ports.table_cache import RefreshInProgress
from icepack.store.backend import open_engine
from icepack.store.jobs import SqlJobStore
from icepack.store.locks import SqlTableLocks
from icepack.store.schema import events
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.types import UtcDateTime
from icepack.store.table_cache import SqlTableCache

CLAIMERS = 16
ENDINGS = {"retried", "handed_back", "expired", "succeeded", "failed", "cancelled"}


def _run_concurrently(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run the work in threads that start at the same time."""
    barrier = threading.Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def _assert_one_at_a_time(engine: Engine) -> None:
    """Each job of a table ended before the next one was claimed."""
    with engine.connect() as connection:
        rows = connection.execute(select(events).order_by(events.c.number)).all()
    running: dict[str, Any] = defaultdict(lambda: None)
    for row in rows:
        if row.kind == "claimed":
            assert running[row.table_name] is None
            running[row.table_name] = row.job_id
        elif row.kind in ENDINGS and row.job_id == running[row.table_name]:
            running[row.table_name] = None


def _claim_until_empty(url: str, name: str, start: Any, answers: Any) -> None:
    store = SqlJobStore(open_engine(url))
    store.now()
    start.wait()
    claimed, misses = [], 0
    while misses < 3:
        claim = store.claim(name, LEASE)
        if claim is None:
            misses += 1
            time.sleep(0.02)
            continue
        claimed.append(claim.job_id)
        store.finish(claim, DONE)
    answers.put(claimed)
    store.close()


def test_16_processes_claim_each_of_500_jobs_exactly_once(postgres_engine: Engine) -> None:
    delete_all_rows(postgres_engine)
    fill(postgres_engine, "busy", 500, 50)
    url = postgres_engine.url.render_as_string(hide_password=False)
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(CLAIMERS), context.Queue()
    processes = [
        context.Process(target=_claim_until_empty, args=(url, f"w{number}", start, answers))
        for number in range(CLAIMERS)
    ]
    for process in processes:
        process.start()
    claimed = [job_id for _ in processes for job_id in answers.get(timeout=120)]
    for process in processes:
        process.join()
    assert len(claimed) == len(set(claimed)) == 500
    assert SqlJobStore(postgres_engine).counts()[JobState.SUCCEEDED] == 500
    _assert_one_at_a_time(postgres_engine)
    assert_consistent(postgres_engine)


def test_threads_of_one_process_claim_each_job_exactly_once(engine: Engine) -> None:
    store = SqlJobStore(engine)
    made = {store.submit(request(f"c{number % 3}.s.t{number % 12}", Compact(min_input_files=number))).job.id
            for number in range(40)}  # fmt: skip

    def work(number: int) -> list[Any]:
        mine = []
        deadline = time.monotonic() + 60
        while store.counts()[JobState.QUEUED] and time.monotonic() < deadline:
            claim = store.claim(f"w{number}", LEASE)
            if claim is not None:
                mine.append(claim.job_id)
                store.finish(claim, DONE)
        return mine

    claimed = [job_id for mine in _run_concurrently(8, work) for job_id in mine]
    assert Counter(claimed) == Counter(made)
    _assert_one_at_a_time(engine)
    assert_consistent(engine)


def test_equal_submissions_at_once_make_one_job(engine: Engine) -> None:
    store = SqlJobStore(engine)
    made = _run_concurrently(12, lambda _: store.submit(request(requester="all")))
    assert Counter(one.outcome for one in made) == {SubmissionOutcome.CREATED: 1, SubmissionOutcome.COLLAPSED: 11}
    assert len({one.job.id for one in made}) == 1
    assert_consistent(engine)


def test_one_key_for_many_tables_at_once_makes_one_job(engine: Engine) -> None:
    store = SqlJobStore(engine)

    def submit(number: int) -> str:
        try:
            return store.submit(request(f"lake.sales.t{number}", idempotency_key="one")).outcome
        except IdempotencyKeyReused:
            return "refused"

    assert Counter(_run_concurrently(8, submit)) == {"created": 1, "refused": 7}
    assert store.counts()[JobState.QUEUED] == 1
    assert_consistent(engine)


def test_only_one_of_many_gets_a_table(engine: Engine) -> None:
    store, locks = SqlJobStore(engine), SqlTableLocks(engine)
    store.submit(request(ORDERS))

    def grab(number: int) -> bool:
        if number % 2:
            return store.claim(f"w{number}", LEASE) is not None
        try:
            return bool(locks.acquire(ORDERS, f"cli{number}", LEASE))
        except TableLocked:
            return False

    assert sum(_run_concurrently(10, grab)) == 1
    assert_consistent(engine)


def test_only_one_of_many_refreshes_the_cache(engine: Engine) -> None:
    cache = SqlTableCache(engine)

    def begin(number: int) -> bool:
        try:
            return bool(cache.begin(f"sync{number}", LEASE))
        except RefreshInProgress:
            return False

    assert sum(_run_concurrently(8, begin)) == 1


def test_no_job_is_lost_under_heavy_contention(engine: Engine) -> None:
    """Submissions, claims, retries, cancellations, expiries and locks of commands at once on few tables."""
    store, locks = SqlJobStore(engine), SqlTableLocks(engine)
    actions = [Compact(), ExpireSnapshots(), RewriteManifests()]
    rounds = 25 if engine.dialect.name == "sqlite" else 60

    def churn(number: int) -> None:
        dice = random.Random(number)
        for _ in range(rounds):
            table = f"c{dice.randrange(2)}.s.t{dice.randrange(3)}"
            later = store.now() + timedelta(seconds=dice.choice([-1, 0.02]))
            made = store.submit(request(table, dice.choice(actions), priority=dice.randrange(3), not_before=later))
            with suppress(ClaimLost, JobStateConflict, TableLocked):
                _disturb(dice, made.job.id)

    def _disturb(dice: random.Random, job_id: Any) -> None:
        match dice.randrange(6):
            case 0:
                store.cancel(job_id)
            case 1:
                store.reap()
            case 2:
                locks.release(locks.acquire(request(f"c0.s.t{dice.randrange(3)}").table, "cli", LEASE))
            case _:
                lease = timedelta(seconds=dice.choice([0.0, 30.0]))
                claim = store.claim("worker", lease)
                if claim is not None:
                    store.heartbeat(claim)
                    dice.choice([lambda: store.finish(claim, DONE), lambda: store.fail(claim, "x"),
                                 lambda: store.hand_back(claim)])()  # fmt: skip

    _run_concurrently(6, churn)
    assert_consistent(engine)
    deadline = time.monotonic() + 60
    while (left := store.counts())[JobState.QUEUED] + left[JobState.RUNNING] and time.monotonic() < deadline:
        store.reap()
        claim = store.claim("last", LEASE)
        if claim is not None:
            store.finish(claim, DONE)
    assert (left[JobState.QUEUED], left[JobState.RUNNING]) == (0, 0)
    _assert_one_at_a_time(engine)
    assert_consistent(engine)


def test_a_claim_skips_what_another_transaction_has_locked(postgres_engine: Engine) -> None:
    """It takes a free job of another priority, catalog or table without waiting."""
    delete_all_rows(postgres_engine)
    store = SqlJobStore(postgres_engine)
    for table, priority in (("a.s.t1", 5), ("b.s.t1", 5), ("a.s.t2", 1)):
        store.submit(request(table, priority=priority))
    with postgres_engine.begin() as connection:
        connection.execute(text("SELECT 1 FROM lanes WHERE table_name = 'a.s.t1' FOR UPDATE"))
        claims = [store.claim("w", LEASE) for _ in range(3)]
    assert [claim and str(claim.table) for claim in claims] == ["b.s.t1", "a.s.t2", None]
    late = store.claim("w", LEASE)
    assert late is not None
    assert str(late.table) == "a.s.t1"


def test_a_claim_does_not_wait_for_a_job_that_others_are_waking(postgres_engine: Engine) -> None:
    delete_all_rows(postgres_engine)
    store = SqlJobStore(postgres_engine)
    store.submit(request("a.s.waking", not_before=store.now() + timedelta(milliseconds=10)))
    store.submit(request("a.s.ready"))
    time.sleep(0.05)
    with postgres_engine.begin() as connection:
        connection.execute(text("SELECT 1 FROM lanes WHERE table_name = 'a.s.waking' FOR UPDATE"))
        claim = store.claim("w", LEASE)
        assert claim is not None
        assert claim.table.name == "ready"
        assert store.claim("w", LEASE) is None
    late = store.claim("w", LEASE)
    assert late is not None
    assert late.table.name == "waking"


class PausingClock(DatabaseClock):
    """Waits for a lock when the time is read: the claim has started to read but has locked nothing yet."""

    KEY = 42
    FUNCTION = f"""
    CREATE OR REPLACE FUNCTION paused_now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        PERFORM pg_advisory_lock_shared({KEY});
        PERFORM pg_advisory_unlock_shared({KEY});
        RETURN clock_timestamp();
    END $$
    """

    def _current_time(self) -> Any:
        return func.paused_now(type_=UtcDateTime())


def _claim_across(engine: Engine, change: Callable[[], object]) -> Claim | None:
    """The result of a claim that starts to read before the change and locks after it."""
    slow = SqlJobStore(engine, PausingClock())
    with engine.begin() as connection:
        connection.execute(text(PausingClock.FUNCTION))
    with ThreadPoolExecutor(1) as pool, engine.execution_options(isolation_level="AUTOCOMMIT").connect() as watcher:
        watcher.execute(text(f"SELECT pg_advisory_lock({PausingClock.KEY})"))
        claim = pool.submit(slow.claim, "slow", LEASE)
        waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        while not watcher.execute(waiting).scalar():
            time.sleep(0.005)
        change()
        watcher.execute(text(f"SELECT pg_advisory_unlock({PausingClock.KEY})"))
        return claim.result(timeout=30)


def test_a_claim_that_read_before_a_change_does_not_act_on_it(postgres_engine: Engine) -> None:
    """A single statement reads one snapshot; without the check of the slot's version it would miss new jobs."""
    store, locks = SqlJobStore(postgres_engine), SqlTableLocks(postgres_engine)
    less_urgent, more_urgent = request(ORDERS, ExpireSnapshots(), priority=-1), request(ORDERS, Compact(), priority=9)

    def begin() -> Job:
        delete_all_rows(postgres_engine)
        return store.submit(request(ORDERS, RewriteManifests())).job

    first = begin()
    claim = _claim_across(postgres_engine, lambda: store.submit(less_urgent))
    assert claim is not None
    assert claim.job_id == first.id
    assert_consistent(postgres_engine)
    begin()
    claim = _claim_across(postgres_engine, lambda: store.submit(more_urgent))
    assert claim is not None
    assert claim.job.priority == 9
    assert_consistent(postgres_engine)
    first = begin()
    assert _claim_across(postgres_engine, lambda: store.cancel(first.id)) is None
    assert_consistent(postgres_engine)
    begin()
    assert _claim_across(postgres_engine, lambda: locks.acquire(ORDERS, "cli", LEASE)) is None
    assert_consistent(postgres_engine)
    begin()
    assert _claim_across(postgres_engine, lambda: store.claim("quick", LEASE)) is None
    assert_consistent(postgres_engine)


def test_a_table_is_skipped_while_a_change_of_it_is_uncommitted(postgres_engine: Engine) -> None:
    delete_all_rows(postgres_engine)
    store = SqlJobStore(postgres_engine)
    store.submit(request(ORDERS))
    with postgres_engine.begin() as connection:
        connection.execute(text("UPDATE lanes SET version = version + 1"))
        assert store.claim("w", LEASE) is None
    assert store.claim("w", LEASE) is not None


@pytest.mark.parametrize(
    "meanwhile",
    [
        "UPDATE jobs SET progress = '{\"files_processed\": 7}'",
        "UPDATE lanes SET version = version + 1",
        "UPDATE lanes SET expires_at = expires_at + interval '1 minute'",
        "WITH slot AS (UPDATE lanes SET version = version + 1 RETURNING table_name) "
        "UPDATE jobs SET cancel_requested_at = now() FROM slot",
    ],
    ids=["progress", "a submission", "a heartbeat", "a cancel request"],
)
def test_a_finish_that_races_with_another_write_is_complete(postgres_engine: Engine, meanwhile: str) -> None:
    """The finish has started to read when the other commits; it must not free the table and leave the job running."""
    delete_all_rows(postgres_engine)
    store = SqlJobStore(postgres_engine)
    store.submit(request(ORDERS))
    claim = store.claim("w", LEASE)
    assert claim is not None
    with ThreadPoolExecutor(1) as pool, postgres_engine.connect() as other:
        other.execute(text(meanwhile))
        ending = pool.submit(store.finish, claim, DONE)
        blocked = text(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'WITH freed%'"
        )
        with postgres_engine.execution_options(isolation_level="AUTOCOMMIT").connect() as watcher:
            while not watcher.execute(blocked).scalar():
                time.sleep(0.005)
        other.commit()
        ending.result(timeout=30)
    assert store.get(claim.job_id).state is JobState.SUCCEEDED
    assert [event.kind.value for event in store.events(claim.job_id)] == ["submitted", "claimed", "succeeded"]
    assert_consistent(postgres_engine)
