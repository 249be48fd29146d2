"""Random interleavings of many workers, crashes, expiries, broken locks and clock jumps, compared with a model.

After every step the database must agree with the model and be consistent; a write with a stale fence must have changed
no row; a claim must be exactly the job that the model expects. A crashed worker is one that sends nothing any more;
because any old claim may be used at any later step, every crash may also turn out to be a long pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import Engine, select

from contract.invariants import assert_consistent
from contract.queue_harness import DAWN, DONE, LEASE, Queue, create_clock_table, delete_all_rows, request
from contract.queue_model import Model, ModelJob
from icepack.domain.actions import Action, Compact, ExpireSnapshots
from icepack.domain.job import (
    Claim,
    ClaimLost,
    IdempotencyKeyReused,
    JobOutcome,
    JobProgress,
    JobRequest,
    JobState,
    JobStateConflict,
    SubmissionOutcome,
)
from icepack.domain.ports.locks import LockLost, TableLock, TableLocked
from icepack.domain.table import TableId
from icepack.store.backend import open_engine
from icepack.store.migrate import upgrade
from icepack.store.schema import jobs

TABLES = [TableId.parse(name) for name in ("a.s.t1", "a.s.t2", "a.s.t3", "b.s.t1", "b.s.t2", "c.s.t1")]
ACTIONS: list[Action] = [Compact(), ExpireSnapshots()]
WORKERS = ["w1", "w2", "w3", "w4"]
FINALS = [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED]

tables = st.sampled_from(TABLES)
Draw = Callable[[Any], Any]
WEIGHTS = {
    "submit": 4, "claim": 7, "finish": 2, "fail": 5, "hand_back": 1, "heartbeat": 1, "progress": 1, "cancel": 1,
    "reap": 2, "use_locks": 2, "move_clock": 2,
}  # fmt: skip
STEPS = [step for step, weight in WEIGHTS.items() for _ in range(weight)]


class QueueMachine(RuleBasedStateMachine):
    def __init__(self, engine: Engine) -> None:
        super().__init__()
        delete_all_rows(engine)
        self.queue = Queue.over(engine)
        self.model = Model(now=DAWN)
        self.claims: list[Claim] = []
        self.locks: list[TableLock] = []

    @initialize(backlog=st.lists(st.tuples(tables, st.sampled_from(ACTIONS), st.integers(-1, 1)), max_size=8))
    def fill(self, backlog: list[tuple[TableId, Action, int]]) -> None:
        for table, action, priority in backlog:
            self._submit(request(table, action, priority=priority, max_attempts=1 + priority % 2))

    @rule(step=st.sampled_from(STEPS), data=st.data())
    def take(self, step: str, data: st.DataObject) -> None:
        """One weighted rule: if hypothesis chose among many rules, whole examples would pass without a claim."""
        getattr(self, step)(data.draw)

    def submit(self, draw: Draw) -> None:
        later = draw(st.sampled_from([None, None, None, -5.0, 10.0, 50.0]))
        self._submit(
            request(
                draw(tables),
                draw(st.sampled_from(ACTIONS)),
                priority=draw(st.integers(-1, 1)),
                not_before=None if later is None else self.model.now + timedelta(seconds=later),
                max_attempts=draw(st.sampled_from([1, 1, 2, 3])),
                idempotency_key=draw(st.sampled_from([None, None, None, "k1", "k2"])),
            )
        )

    def _submit(self, requested: JobRequest) -> None:
        key = requested.idempotency_key
        known = self.model.find_by_key(key) if key else None
        if known is not None:
            self._repeat(requested, known)
            return
        equal = self.model.find_equal(requested)
        made = self.queue.jobs.submit(requested)
        if equal is not None:
            assert (made.outcome, made.job.id) == (SubmissionOutcome.COLLAPSED, equal.id)
            self.model.collapse(equal, requested)
        else:
            assert made.outcome is SubmissionOutcome.CREATED
            self.model.create(made.job)
        if key:
            self.model.keys[key] = made.job.id

    def _repeat(self, requested: JobRequest, known: ModelJob) -> None:
        if (known.table, known.action) == (str(requested.table), requested.action):
            made = self.queue.jobs.submit(requested)
            assert (made.outcome, made.job.id) == (SubmissionOutcome.REPEATED, known.id)
        else:
            self._expect_refusal(IdempotencyKeyReused, lambda: self.queue.jobs.submit(requested))

    def claim(self, draw: Draw) -> None:
        expected = self.model.next_job()
        lease = draw(st.sampled_from([5.0, 30.0]))
        claim = self.queue.jobs.claim(draw(st.sampled_from(WORKERS)), timedelta(seconds=lease))
        assert (claim and claim.job_id) == (expected and expected.id)
        if claim is not None:
            self.claims.append(claim)
            self.model.start(claim)

    def heartbeat(self, draw: Draw) -> None:
        claim = self._some_claim(draw)
        if claim is None:
            return
        if self._is_live(claim):
            assert self.queue.jobs.heartbeat(claim) is self.model.jobs[claim.job_id].cancel_requested
            self.model.holders[str(claim.table)].expires_at = self.model.now + claim.lease
        else:
            self._expect_refusal(ClaimLost, lambda: self.queue.jobs.heartbeat(claim))

    def progress(self, draw: Draw) -> None:
        claim = self._some_claim(draw)
        if claim is None:
            return
        done = JobProgress(files_processed=claim.fence)
        if self._is_live(claim):
            self.queue.jobs.progress(claim, done)
            assert self.queue.jobs.get(claim.job_id).progress == done
        else:
            self._expect_refusal(ClaimLost, lambda: self.queue.jobs.progress(claim, done))

    def finish(self, draw: Draw) -> None:
        claim = self._some_claim(draw)
        if claim is None:
            return
        state = draw(st.sampled_from(FINALS))
        job = self.model.jobs[claim.job_id]
        if self._is_live(claim):
            self.queue.jobs.finish(claim, JobOutcome(state=state))
            del self.model.holders[job.table]
            job.end(state)
            job.last_event = (state.value, claim.worker, job.attempts)
        else:
            self._repeat_call(claim, [state.value], lambda: self.queue.jobs.finish(claim, JobOutcome(state=state)))

    def fail(self, draw: Draw) -> None:
        claim = self._some_claim(draw)
        if claim is None:
            return
        retry, delay = draw(st.sampled_from([True, True, False])), draw(st.sampled_from([0.0, 5.0, 45.0]))

        def fail() -> object:
            return self.queue.jobs.fail(claim, "no luck", retry=retry, delay=timedelta(seconds=delay))

        if self._is_live(claim):
            fail()
            job = self.model.jobs[claim.job_id]
            self.model.return_job(job, "retried", claim.worker, retry=retry, delay=delay)
        else:
            self._repeat_call(claim, ["retried", "failed", "cancelled"], fail)

    def hand_back(self, draw: Draw) -> None:
        claim = self._some_claim(draw)
        if claim is None:
            return
        if self._is_live(claim):
            self.queue.jobs.hand_back(claim)
            self.model.return_job(self.model.jobs[claim.job_id], "handed_back", claim.worker, costs=False)
        else:
            kinds = ["handed_back", "failed", "cancelled"]
            self._repeat_call(claim, kinds, lambda: self.queue.jobs.hand_back(claim))

    def cancel(self, draw: Draw) -> None:
        if not self.model.jobs:
            return
        job = draw(st.sampled_from(list(self.model.jobs.values())[::-1]))
        if job.state in (JobState.SUCCEEDED, JobState.FAILED):
            self._expect_refusal(JobStateConflict, lambda: self.queue.jobs.cancel(job.id))
            return
        self.queue.jobs.cancel(job.id)
        if job.state is JobState.QUEUED:
            job.end(JobState.CANCELLED)
            job.last_event = ("cancelled", "", job.attempts)
        elif job.state is JobState.RUNNING and not job.cancel_requested:
            job.cancel_requested = True
            job.last_event = ("cancel_requested", "", job.attempts)

    def reap(self, draw: Draw) -> None:
        self._shift(draw(st.sampled_from([0.0, 6.0, 31.0])))
        expired = self.model.expired_tables()
        holders = {self.model.holders[table].job for table in expired} - {None}
        assert {job.id for job in self.queue.jobs.reap()} == holders
        for table in expired:
            self.model.evict(table, "reaper")

    def use_locks(self, draw: Draw) -> None:
        what, table = draw(st.sampled_from(["lock", "renew", "release", "break"])), draw(tables)
        if what == "lock":
            self._lock(table, draw(st.sampled_from([5.0, 30.0])))
        elif what == "break":
            self._break(table)
        elif self.locks:
            (self._renew if what == "renew" else self._release)(draw(st.sampled_from(self.locks[::-1])))

    def _lock(self, table: TableId, lease: float) -> None:
        holder = self.model.holders.get(str(table))
        if holder is not None and holder.expires_at > self.model.now:
            self._expect_refusal(TableLocked, lambda: self.queue.locks.acquire(table, "cli", LEASE))
            return
        lock = self.queue.locks.acquire(table, "cli", timedelta(seconds=lease))
        if holder is not None:
            self.model.evict(str(table), "cli")
        self.model.hold(str(table), lock.token, "cli", timedelta(seconds=lease))
        self.locks.append(lock)

    def _renew(self, lock: TableLock) -> None:
        if self.model.holds(str(lock.table), lock.token):
            self.queue.locks.renew(lock, LEASE)
            self.model.holders[str(lock.table)].expires_at = self.model.now + LEASE
        else:
            self._expect_refusal(LockLost, lambda: self.queue.locks.renew(lock, LEASE))

    def _release(self, lock: TableLock) -> None:
        is_held = self.model.holds(str(lock.table), lock.token)
        assert self.queue.locks.release(lock) is is_held
        if is_held:
            del self.model.holders[str(lock.table)]

    def _break(self, table: TableId) -> None:
        broken = self.queue.locks.break_lock(table, force=True, by="root")
        assert (broken is not None) == (str(table) in self.model.holders)
        if broken is not None:
            self.model.evict(str(table), "root")

    def move_clock(self, draw: Draw) -> None:
        """Move the clock, also backwards, as after a failover to a server whose clock is slow."""
        self._shift(draw(st.sampled_from([1.0, 6.0, 50.0, -4.0, -40.0])))

    def _shift(self, seconds: float) -> None:
        self.queue.wait(seconds)
        self.model.now += timedelta(seconds=seconds)

    @invariant()
    def database_matches_model(self) -> None:
        assert_consistent(self.queue.engine)
        with self.queue.engine.connect() as connection:
            found = connection.execute(select(jobs).order_by(jobs.c.number)).all()
        model = sorted(self.model.jobs.values(), key=lambda job: job.number)
        assert [
            (row.id, row.state, row.rank, row.attempts, row.max_attempts, row.waits_until, row.collapsed_into)
            for row in found
        ] == [
            (job.id, job.state, job.rank, job.attempts, job.max_attempts, job.waits_until, job.collapsed_into)
            for job in model
        ]
        held = {str(lock.table): (lock.token, lock.owner, lock.job_id) for lock in self.queue.locks.list_locks()}
        assert held == {table: (holder.fence, holder.owner, holder.job) for table, holder in self.model.holders.items()}

    def teardown(self) -> None:
        """Finish all jobs: none was lost, and each ended once."""
        self.queue.wait(10_000)
        self.queue.jobs.reap()
        for claim in self.queue.claim_all("last"):
            self.queue.jobs.finish(claim, DONE)
        listed = self.queue.jobs.list_jobs(limit=10_000).jobs
        assert {job.id for job in listed} == set(self.model.jobs)
        assert all(job.state.is_final for job in listed)
        for job in listed:
            endings = [event for event in self.queue.jobs.events(job.id) if event.kind.value in FINALS]
            assert len(endings) == (job.collapsed_into is None)
        assert self.queue.locks.list_locks() == []

    def _some_claim(self, draw: Draw) -> Claim | None:
        """Mostly a live claim, because soon nearly all claims are stale."""
        living = [claim for claim in self.claims if self._is_live(claim)]
        choice = [*self.claims[::-1], *living * (1 + len(self.claims) // max(len(living), 1))]
        return draw(st.sampled_from(choice)) if choice else None

    def _is_live(self, claim: Claim) -> bool:
        return self.model.holds(str(claim.table), claim.fence)

    def _repeat_call(self, claim: Claim, kinds: list[str], call: Callable[[], object]) -> None:
        """A worker may repeat its last call if nothing happened since; all others are refused."""
        kind, actor, attempt = self.model.jobs[claim.job_id].last_event
        if kind in kinds and (actor, attempt) == (claim.worker, claim.job.attempts):
            before = self.queue.dump()
            call()
            assert self.queue.dump() == before
        else:
            self._expect_refusal(ClaimLost, call)

    def _expect_refusal(self, error: type[Exception], call: Callable[[], object]) -> None:
        before = self.queue.dump()
        with pytest.raises(error):
            call()
        assert self.queue.dump() == before


@pytest.fixture(scope="module")
def memory_engine() -> Iterator[Engine]:
    engine = open_engine("sqlite://")
    upgrade(engine)
    create_clock_table(engine)
    yield engine
    engine.dispose()


def _run(engine: Engine, examples: int, steps: int) -> None:
    profile = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: QueueMachine(engine), settings=profile)  # type: ignore[no-untyped-call]


def test_no_interleaving_breaks_the_queue_on_sqlite(memory_engine: Engine) -> None:
    _run(memory_engine, examples=40, steps=40)


def test_no_interleaving_breaks_the_queue_on_postgresql(postgres_engine: Engine) -> None:
    _run(postgres_engine, examples=8, steps=40)
