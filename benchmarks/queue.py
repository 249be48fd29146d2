"""The queue on PostgreSQL: claim-and-finish cycles per second, and what a claim costs as the queue grows.

The server is the tests' own, with every commit flushed to disk; ICEPACK_BENCH_POSTGRES names another's empty database.
Run it from the repository's folder with `python -m benchmarks.queue`: as a script it would hide Python's own `queue`.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.contract.bulk import analyze, empty, fill
from tests.contract.postgres import PostgresServer

from icepack.domain.job import JobOutcome, JobState
from icepack.store.backend import open_engine, upgrade
from icepack.store.jobs import SqlJobStore

SECONDS = 4.0
LEASE = timedelta(minutes=5)
DONE = JobOutcome(state=JobState.SUCCEEDED)


@dataclass(frozen=True)
class Figures:
    workers: int
    cycles: int
    seconds: float
    claim_ms: list[float]

    @property
    def rate(self) -> float:
        return self.cycles / self.seconds


def work(url: str, name: str, start: Any, stop_at: Any, answers: Any) -> None:
    """One worker: claim, finish, and again until the time is up or nothing is left."""
    store = SqlJobStore(open_engine(url))
    store.now()
    start.wait()
    end, cycles, claim_ms = stop_at.value, 0, []
    while time.monotonic() < end:
        began = time.perf_counter()
        claim = store.claim(name, LEASE)
        if claim is None:
            break
        claim_ms.append((time.perf_counter() - began) * 1000)
        store.finish(claim, DONE)
        cycles += 1
    answers.put((cycles, time.monotonic(), claim_ms))
    store.close()


def measure(url: str, workers: int, seconds: float = SECONDS) -> Figures:
    """Real processes, each with one connection."""
    context = multiprocessing.get_context("fork")
    start, stop_at, answers = context.Barrier(workers + 1), context.Value("d", 0.0), context.Queue()
    processes = [
        context.Process(target=work, args=(url, f"w{number}", start, stop_at, answers)) for number in range(workers)
    ]
    for process in processes:
        process.start()
    began = time.monotonic()
    stop_at.value = began + seconds + 0.5 * workers
    start.wait()
    began = time.monotonic()
    stop_at.value = began + seconds
    told = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    ended = max(at for _, at, _ in told)
    return Figures(
        workers, sum(cycles for cycles, _, _ in told), ended - began, [ms for _, _, all_ms in told for ms in all_ms]
    )


@contextmanager
def database() -> Iterator[str]:
    given = os.environ.get("ICEPACK_BENCH_POSTGRES")
    if given:
        yield given
        return
    server = PostgresServer(durable=True)
    try:
        server.start()
        with server.database() as url:
            yield url
    finally:
        server.remove()


def report(name: str, figures: Figures, goal: str = "") -> None:
    ordered = sorted(figures.claim_ms)
    median = statistics.median(ordered)
    late = ordered[int(len(ordered) * 0.95)]
    print(
        f"{name:<52} {figures.workers:3} workers {figures.rate:8,.0f} cycles/s   "
        f"claim {median:6.2f} ms median {late:6.2f} ms p95  {goal}",
        flush=True,
    )


def main() -> None:
    with database() as url:
        engine = open_engine(url)
        upgrade(engine)
        print(f"load before the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        for workers in (1, 4, 16):
            fill(engine, "busy", 40_000, 4_000)
            analyze(engine)
            report("40,000 queued on 4,000 tables", measure(url, workers), "(goal 1,000/s)" if workers == 16 else "")
            empty(engine)
        for queued in (100, 100_000):
            blocked = (queued - 100) // 2
            fill(engine, "ready", 100, 100)
            if blocked:
                fill(engine, "locked", blocked, 500, locked=True)
                fill(engine, "waiting", blocked, 500, waiting=True)
            analyze(engine)
            report(f"the same 100 jobs out of {queued:,} queued", measure(url, 1, seconds=30))
            empty(engine)
        fill(engine, "deep", 100_000, 20_000)
        analyze(engine)
        report("100,000 queued on 20,000 tables", measure(url, 16))
        engine.dispose()


if __name__ == "__main__":
    main()
