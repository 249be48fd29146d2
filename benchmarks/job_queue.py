"""The job queue on PostgreSQL: claim-and-finish cycles per second, the cost of a claim in long queues, and the cache.

The server is that of the tests, with every commit flushed to disk; ICEPACK_BENCH_POSTGRES may name another, empty
database.
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

from tests.contract.bulk_jobs import analyze, empty, fill
from tests.contract.postgres_server import PostgresServer
from tests.contract.sample_tables import cached

from icepack.domain.job import JobOutcome, JobState
from icepack.domain.table import TableId
from icepack.store.backend import Stores, open_engine, open_stores
from icepack.store.jobs import SqlJobStore

SECONDS = 4.0
# Unmeasured cycles of each worker, because connecting and preparing statements happen only once per worker.
WARM_UP = 8
LEASE = timedelta(minutes=5)
DONE = JobOutcome(state=JobState.SUCCEEDED)
TABLES, CHANGED = 2_000, 10


@dataclass(frozen=True)
class QueueMeasurement:
    workers: int
    cycles: int
    seconds: float
    claim_ms: list[float]


def run_worker(url: str, name: str, seconds: float, start: Any, results: Any) -> None:
    """Runs one warmed-up worker, which claims and finishes jobs until the time is up or no job is left."""
    store = SqlJobStore(open_engine(url))
    for _ in range(WARM_UP):
        claim = store.claim(name, LEASE)
        if claim is not None:
            store.finish(claim, DONE)
    start.wait()
    began, claim_ms = time.monotonic(), []
    while time.monotonic() < began + seconds:
        started = time.perf_counter()
        claim = store.claim(name, LEASE)
        if claim is None:
            break
        claim_ms.append((time.perf_counter() - started) * 1000)
        store.finish(claim, DONE)
    results.put((began, time.monotonic(), claim_ms))
    store.close()


def measure(url: str, workers: int, seconds: float = SECONDS) -> QueueMeasurement:
    """Measures worker processes, each with its own connection."""
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=run_worker, args=(url, f"w{number}", seconds, start, results))
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    reports = [results.get() for _ in processes]
    for process in processes:
        process.join()
    spent = max(ended for _, ended, _ in reports) - min(began for began, _, _ in reports)
    claim_ms = [ms for _, _, all_ms in reports for ms in all_ms]
    return QueueMeasurement(workers, len(claim_ms), spent, claim_ms)


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


def report(name: str, measured: QueueMeasurement, goal: str = "") -> None:
    ordered = sorted(measured.claim_ms)
    print(
        f"{name:<48} {measured.workers:3} workers {measured.cycles / measured.seconds:7,.0f} cycles/s   claim "
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
        report(f"100 ready jobs of {queued:,} queued", measure(url, 1))
        empty(stores.engine)
    fill(stores.engine, "deep", 100_000, 20_000)
    analyze(stores.engine)
    report("100,000 queued on 20,000 tables", measure(url, 16))
    empty(stores.engine)


def measure_refresh_seconds(stores: Stores, changed: int, files: int) -> float:
    """Returns the database time of a refresh: reading the known locations, writing what changed, and swapping."""
    tables = [cached(TableId("lake", ("bench",), f"t{number}"), files) for number in range(changed)]
    began = time.perf_counter()
    generation = stores.cache.begin("bench", LEASE)
    stores.cache.locations()
    stores.cache.write(generation, tables)
    stores.cache.swap(generation)
    return time.perf_counter() - began


def measure_cache(stores: Stores) -> None:
    full = measure_refresh_seconds(stores, TABLES, files=40)
    partial = statistics.median(measure_refresh_seconds(stores, CHANGED, files) for files in range(1, 6))
    share = f"{partial / full:.1%} of that (goal 5 %)"
    print(f"table cache, {TABLES:,} of {TABLES:,} tables written     {full:8.3f} s")
    print(f"table cache, {CHANGED:5} of {TABLES:,} tables written     {partial:8.3f} s  {share}")


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
