"""Kills and freezes workers: every job ends once, every table keeps its rows, no lock is left.

The short version is part of `make test`; ICEPACK_SOAK=1 (`make soak`) adds fifty kills and more.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.postgres_server import PostgresServer
from icepack.domain.actions import Compact
from icepack.domain.job import Job, JobState

from .chaos import BY_SPARK, LEASE_SECONDS, REWRITE, Chaos, WorkerProcess

KILLED = -signal.SIGKILL
HANDED_BACK = 75
SOAK = os.environ.get("ICEPACK_SOAK") == "1"
SOAK_KILLS = int(os.environ.get("ICEPACK_SOAK_KILLS", "50"))


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=True)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def chaos(postgres: PostgresServer, tmp_path: Path) -> Iterator[Chaos]:
    with postgres.database() as url:
        made = Chaos(tmp_path, url)
        try:
            yield made
        finally:
            made.end()


def test_jobs_survive_their_workers(chaos: Chaos) -> None:
    claimed = chaos.submit(chaos.table("claimed"))
    assert chaos.start("after_claim").wait() == KILLED

    torn, torn_worker = _submit_and_start(chaos, "torn", "mid_rewrite")
    done, done_worker = _submit_and_start(chaos, "done", "after_commit", priority=100)
    assert (torn_worker.wait(), done_worker.wait()) == (KILLED, KILLED)
    assert chaos.rewrites(torn.table, torn.id) == []
    assert chaos.rewrites(done.table, done.id) == ["1"], "committed, but not recorded"

    orphaned, orphaned_worker = _submit_and_start(chaos, "orphaned", "jvm_lives_on", action=BY_SPARK)
    frozen, zombie = _submit_and_start(chaos, "frozen", "frozen_with_jvm", action=BY_SPARK)
    assert orphaned_worker.wait() == KILLED
    chaos.until(lambda: zombie.is_frozen, "freezing")
    chaos.until(lambda: chaos.rewrites(orphaned.table, orphaned.id) == ["1"], "the commit of the JVM on its own")

    chaos.reap(done)
    assert chaos.start("mid_finish").wait() == KILLED

    worker = chaos.start_loop()
    chaos.until(chaos.all_done, "finishing")
    late_commit_is_refused(chaos, frozen, zombie)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.log_tail()

    chaos.check()
    for job in (done, orphaned):
        assert chaos.rewrites(job.table, job.id) == ["1"], "found by its stamp, and not repeated"
    assert chaos.state(claimed) is JobState.SUCCEEDED


def _submit_and_start(
    chaos: Chaos, name: str, point: str, *, priority: int = 0, action: Compact = REWRITE
) -> tuple[Job, WorkerProcess]:
    """Submits a job and waits until the worker has claimed it, so that the next worker claims another one."""
    job = chaos.submit(chaos.table(name), action, priority=priority)
    worker = chaos.start(point)
    chaos.until(lambda: chaos.state(job) is not JobState.QUEUED, "claiming")
    return job, worker


def late_commit_is_refused(chaos: Chaos, job: Job, zombie: WorkerProcess) -> None:
    """Wakes the JVM first, so that nothing prevents its commit; then Python, to report the result."""
    (winner,) = chaos.rewrites(job.table, job.id)
    assert winner != "1"
    assert chaos.uncommitted(job.table)
    zombie.thaw_jvm()
    chaos.until(lambda: not chaos.uncommitted(job.table), "the rejected commit, after which Iceberg deletes its files")
    zombie.signal(signal.SIGCONT)
    assert zombie.wait() == HANDED_BACK, zombie.log_tail()
    assert chaos.rewrites(job.table, job.id) == [winner]


POINTS = (
    "after_claim", "mid_rewrite", "after_commit", "mid_finish", "jvm_dies", "jvm_lives_on", "frozen", "frozen_with_jvm",
)  # fmt: skip
ANY_MOMENT = "any_moment"
TERMINATED = "terminated"


class Victim:
    """A worker, and when it is killed or woken from outside."""

    def __init__(self, chaos: Chaos, rng: random.Random) -> None:
        self.point = rng.choice((*POINTS, ANY_MOMENT, ANY_MOMENT, TERMINATED))
        self.worker = chaos.start(self.point)
        self._dies_at = time.monotonic() + rng.uniform(2, 30) if self.point in (ANY_MOMENT, TERMINATED) else None
        self._sleeps_seconds = rng.uniform(LEASE_SECONDS / 2, LEASE_SECONDS * 4)
        self._wakes_at: float | None = None
        self.had_fault = False

    def is_over(self) -> bool:
        if self._dies_at is not None and time.monotonic() > self._dies_at:
            self.worker.signal(signal.SIGTERM if self.point == TERMINATED else signal.SIGKILL)
            self._dies_at = None
        if self._wakes_at is None and self.worker.is_frozen:
            self.had_fault = True
            self._wakes_at = time.monotonic() + self._sleeps_seconds
        if self._wakes_at is not None and time.monotonic() > self._wakes_at:
            self.worker.thaw_jvm()
            self.worker.signal(signal.SIGCONT)
        code = self.worker.process.poll()
        self.had_fault |= code == KILLED or (code == HANDED_BACK and self.point == "jvm_dies")
        assert code in (None, 0, HANDED_BACK, KILLED, -signal.SIGTERM), self.worker.log_tail()
        return code is not None


@pytest.mark.skipif(not SOAK, reason="make soak")
def test_fifty_kills_and_more(chaos: Chaos) -> None:
    seed = int(os.environ.get("ICEPACK_SOAK_SEED", str(random.randrange(10**6))))
    rng = random.Random(seed)
    print(f"seed {seed}")
    current = {table: chaos.submit(table) for table in (chaos.table(f"t{number}") for number in range(6))}
    victims: list[Victim] = []
    faults: dict[str, int] = {}
    while sum(faults.values()) < SOAK_KILLS:
        for table, job in current.items():
            if chaos.state(job).is_final:
                chaos.append(table)
                current[table] = chaos.submit(table)
        chaos.stores.jobs.reap()
        for victim in [victim for victim in victims if victim.is_over()]:
            victims.remove(victim)
            faults[victim.point] = faults.get(victim.point, 0) + victim.had_fault
        while len(victims) < 2:
            victims.append(Victim(chaos, rng))
        time.sleep(0.2)
    while victims:
        victims = [victim for victim in victims if not victim.is_over()]
        time.sleep(0.2)
    worker = chaos.start_loop()
    chaos.until(chaos.all_done, "finishing", 600)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    print(f"{sum(faults.values())} kills: {faults}; {len(chaos.jobs)} jobs")
    chaos.check()


@pytest.mark.skipif(not SOAK, reason="make soak")
def test_workers_survive_a_database_outage_of_30_seconds(chaos: Chaos, postgres: PostgresServer) -> None:
    for number in range(6):
        chaos.submit(chaos.table(f"t{number}"))
    workers = [chaos.start_loop() for _ in range(2)]
    chaos.until(lambda: chaos.state(chaos.jobs[1]) is not JobState.QUEUED, "claiming")
    postgres.stop("immediate")
    time.sleep(30)
    postgres.start()
    chaos.until(chaos.all_done, "finishing", 300)
    for worker in workers:
        worker.signal(signal.SIGTERM)
    assert [worker.wait() for worker in workers] == [0, 0]
    chaos.check()
