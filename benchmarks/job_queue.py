"""The queue on PostgreSQL: claim-and-finish cycles per second, what a claim costs as the queue grows, and the cache.

The server is the tests' own, with every commit flushed to disk; ICEPACK_BENCH_POSTGRES names another's empty database.
Run it with `make bench`.
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
from tests.contract.observed import cached
from tests.contract.postgres import PostgresServer

from icepack.domain.job import JobOutcome, JobState
from icepack.domain.table import TableId
from icepack.store.backend import Stores, open_engine, open_stores
from icepack.store.jobs import SqlJobStore

SECONDS = 4.0
WARM_UP = 8
"""Cycles of each worker before the clock runs: connecting and preparing statements happen once in a worker's life."""
LEASE = timedelta(minutes=5)
DONE = JobOutcome(state=JobState.SUCCEEDED)
TABLES, CHANGED = 2_000, 10


@dataclass(frozen=True)
class Figures:
    workers: int
    cycles: int
    seconds: float
    claim_ms: list[float]


def work(url: str, name: str, seconds: float, start: Any, answers: Any) -> None:
    """One worker, warmed up: claim, finish, and again until the time is up or nothing is left."""
    store = SqlJobStore(open_engine(url))
    for _ in range(WARM_UP):
        claim = store.claim(name, LEASE)
        if claim is not None:
            store.finish(claim, DONE)
    start.wait()
    began, claim_ms = time.monotonic(), []
    while time.monotonic() < began + seconds:
        asked = time.perf_counter()
        claim = store.claim(name, LEASE)
        if claim is None:
            break
        claim_ms.append((time.perf_counter() - asked) * 1000)
        store.finish(claim, DONE)
    answers.put((began, time.monotonic(), claim_ms))
    store.close()


def measure(url: str, workers: int, seconds: float = SECONDS) -> Figures:
    """Real processes, each with one connection."""
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=work, args=(url, f"w{number}", seconds, start, answers)) for number in range(workers)
    ]
    for process in processes:
        process.start()
    told = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    spent = max(ended for _, ended, _ in told) - min(began for began, _, _ in told)
    claim_ms = [ms for _, _, all_ms in told for ms in all_ms]
    return Figures(workers, len(claim_ms), spent, claim_ms)


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
    print(
        f"{name:<48} {figures.workers:3} workers {figures.cycles / figures.seconds:7,.0f} cycles/s   claim "
        f"{statistics.median(ordered):6.2f} ms median {ordered[int(len(ordered) * 0.95)]:6.2f} ms p95  {goal}",
        flush=True,
    )


def measure_queue(url: str, stores: Stores) -> None:
    for workers in (1, 4, 16):
        fill(stores.engine, "busy", 40_000, 4_000)
        analyze(stores.engine)
        report("40,000 queued on 4,000 tables", measure(url, workers), "(goal 1,000/s)" if workers == 16 else "")
        empty(stores.engine)
    for queued in (100, 100_000):
        blocked = (queued - 100) // 2
        fill(stores.engine, "ready", 100 + WARM_UP, 100 + WARM_UP)
        if blocked:
            fill(stores.engine, "locked", blocked, 500, locked=True)
            fill(stores.engine, "waiting", blocked, 500, waiting=True)
        analyze(stores.engine)
        report(f"the 100 that are ready of {queued:,} queued", measure(url, 1))
        empty(stores.engine)
    fill(stores.engine, "deep", 100_000, 20_000)
    analyze(stores.engine)
    report("100,000 queued on 20,000 tables", measure(url, 16))
    empty(stores.engine)


def refresh_seconds(stores: Stores, changed: int, files: int) -> float:
    """What the database costs a refresh: to learn what is known, to write what changed, to swap."""
    tables = [cached(TableId("lake", ("bench",), f"t{number}"), files) for number in range(changed)]
    began = time.perf_counter()
    generation = stores.cache.begin("bench", LEASE)
    stores.cache.locations()
    stores.cache.write(generation, tables)
    stores.cache.swap(generation)
    return time.perf_counter() - began


def measure_cache(stores: Stores) -> None:
    full = refresh_seconds(stores, TABLES, files=40)
    partly = statistics.median(refresh_seconds(stores, CHANGED, files) for files in range(1, 6))
    share = f"{partly / full:.1%} of that (goal 5 %)"
    print(f"table cache, {TABLES:,} of {TABLES:,} tables written     {full:8.3f} s")
    print(f"table cache, {CHANGED:5} of {TABLES:,} tables written     {partly:8.3f} s  {share}")


def main() -> None:
    with database() as url:
        stores = open_stores(url)
        print(
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start; every commit is flushed to disk"
        )
        measure_queue(url, stores)
        measure_cache(stores)
        stores.close()


if __name__ == "__main__":
    main()
