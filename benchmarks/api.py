"""API latency on PostgreSQL with 10,000 cached tables and 100,000 jobs: p50 and p99 of every GET at 1 to 50 clients.

Server, database and clients run on the same machine. Run it with `make bench`.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from urllib.parse import quote
from uuid import uuid4

import yaml
from benchmarks.job_queue import database
from sqlalchemy import text
from tests.contract.bulk_jobs import analyze, fill
from tests.contract.sample_tables import cached

from icepack.domain.ports.history import StatusPoint
from icepack.domain.run import RunRecord, RunState, compute_totals
from icepack.domain.table import TableId
from icepack.store.backend import Stores, open_stores

TABLES, JOBS, RUNS = 10_000, 100_000, 20_000
CLIENTS = (1, 10, 50)
SECONDS = float(os.environ.get("ICEPACK_BENCH_SECONDS", "3"))
GOAL_MS = 50.0
LEASE = timedelta(minutes=30)

_FINISH = text("""
UPDATE jobs SET state = CASE WHEN number % 100 = 1 THEN 'queued' WHEN number % 20 = 0 THEN 'failed'
                             ELSE 'succeeded' END,
                finished_at = CASE WHEN number % 100 = 1 THEN NULL ELSE clock_timestamp() END,
                started_at = submitted_at, attempts = 1, worker = 'bench', catalog = 'lake',
                namespace = 'team' || (number % 50),
                table_name = 'lake.team' || (number % 50) || '.t' || (number % :tables)
""")
_RUNS = text("""
INSERT INTO runs (job_id, catalog, namespace, table_name, table_uuid, action, state, started_at, finished_at, attempts,
                  message, changed_nothing, record, estimated_dollars, estimated_seconds, realised_seconds)
SELECT gen_random_uuid(), catalog, namespace, :prefix || (n % :tables), '', action, state,
       clock_timestamp() - (n % 30) * interval '1 day', clock_timestamp(), 1, '', false, record, 0.1, 30, 33
FROM runs, generate_series(1, :runs) AS n WHERE table_name = :first
""")


def table_ids() -> list[TableId]:
    return [TableId("lake", (f"team{number % 50}",), f"t{number}") for number in range(TABLES)]


def fill_database(stores: Stores) -> None:
    tables = table_ids()
    generation = stores.cache.begin("bench", LEASE)
    random = Random(7)
    for start in range(0, TABLES, 500):
        batch = [cached(table, random.randint(1, 400)) for table in tables[start : start + 500]]
        stores.cache.write(generation, batch)
        stores.history.save_status(
            [
                StatusPoint(table=it.table, observed_at=it.status.observed_at, totals=compute_totals(it.status, 50))
                for it in batch
            ]
        )
    stores.cache.swap(generation)
    fill(stores.engine, "t", JOBS, TABLES)
    first = cached(tables[0])
    now = datetime.now(UTC)
    action = first.recommendation.actions[0].action if first.recommendation else None
    assert action is not None
    stores.history.save(
        RunRecord(
            job_id=uuid4(),
            table=tables[0],
            action=action,
            state=RunState.SUCCEEDED,
            started_at=now,
            finished_at=now,
            realised_seconds=30.0,
        )
    )
    with stores.engine.begin() as connection:
        connection.execute(_FINISH, {"tables": TABLES})
        counts = {"prefix": "lake.team0.t", "tables": TABLES, "runs": RUNS, "first": str(tables[0])}
        connection.execute(_RUNS, counts)
    analyze(stores.engine)
    with stores.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text("VACUUM ANALYZE cache_rows, runs, table_statuses"))


@contextmanager
def run_api(url: str) -> Iterator[tuple[int, int]]:
    """Runs `icepack api` in its own process; yields its port and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "icepack.yaml"
        settings = {
            "catalogs": {"lake": {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder}},
            "state": {"url": url},
            "server": {"port": port, "requests_per_second": 0},
        }
        config.write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-m", "icepack.cli.main", "--config", str(config), "api"]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not _is_ready(port):
                time.sleep(0.1)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait()


def _is_ready(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


def paths(stores: Stores) -> dict[str, list[str]]:
    """Returns up to a hundred paths per operation, so that no single row is cached better than others."""
    random = Random(3)
    tables = [quote(str(table)) for table in random.sample(table_ids(), 100)]
    jobs = [str(job.id) for job in stores.jobs.list_jobs(limit=100).jobs]
    numbers = [random.randint(1, JOBS) for _ in range(100)]
    plain = ["/health", "/health/ready", "/metrics", "/session", "/overview", "/cost", "/locks", "/audit"]
    plain += ["/policies", "/schedules", "/schedule/upcoming", "/schedule/upcoming?hours=168&limit=500"]
    plain += ["/settings", "/keys", "/tables", "/jobs", "/jobs?limit=50"]
    found = {path: [path] for path in plain}
    found["/jobs?before=N"] = [f"/jobs?before={number}" for number in numbers]
    found["/jobs?state=failed"] = ["/jobs?state=failed"]
    found["/jobs?table=T"] = [f"/jobs?table={table}" for table in tables]
    found["/jobs/{id}"] = [f"/jobs/{job}" for job in jobs]
    found["/jobs/{id}/events"] = [f"/jobs/{job}/events" for job in jobs]
    found["/jobs/{id}/plan"] = [f"/jobs/{job}/plan" for job in jobs]
    found["/tables?search=S"] = [f"/tables?search=t{number}" for number in numbers]
    found["/tables?namespace=N&sort=-bytes"] = [f"/tables?namespace=team{n % 50}&sort=-bytes" for n in numbers]
    found["/tables?issue=small_files"] = ["/tables?issue=small_files&max_score=80&sort=-files"]
    for rest in ("", "/plan", "/history", "/snapshots", "/files/histogram", "/partitions"):
        found["/tables/{table}" + rest] = [f"/tables/{table}{rest}" for table in tables]
    return found


def measure(port: int, addresses: list[str], clients: int, seconds: float = SECONDS) -> list[float]:
    """Returns the milliseconds of every request; each client has one connection and sends requests without pause."""
    durations: list[list[float]] = [[] for _ in range(clients)]
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        position = number
        while time.monotonic() < end:
            started = time.perf_counter()
            connection.request("GET", "/api/v1" + addresses[position % len(addresses)])
            answer = connection.getresponse()
            body = answer.read()
            durations[number].append((time.perf_counter() - started) * 1000)
            if answer.status != 200:
                raise RuntimeError(f"{addresses[position % len(addresses)]}: {answer.status} {body[:200]!r}")
            position += clients

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(ms for one in durations for ms in one)


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of the server, which other load on the machine hardly changes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def main() -> None:
    with database() as url:
        stores = open_stores(url)
        print(f"filling {TABLES:,} tables, {JOBS:,} jobs, {RUNS:,} runs …", flush=True)
        fill_database(stores)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start; p50 / p99 in ms", flush=True)
        missed = []
        with run_api(url) as (port, pid):
            print(
                f"{'GET':<34}"
                + "".join(f"{f'{count} clients':>20}" for count in CLIENTS)
                + f"{'req/s at 10':>14}{'CPU ms':>8}"
            )
            wanted = sys.argv[1:]
            for name, addresses in paths(stores).items():
                if wanted and name not in wanted:
                    continue
                measure(port, addresses, 2, 0.3)
                found, spent = {}, 0.0
                for count in CLIENTS:
                    before = cpu_seconds(pid)
                    found[count] = measure(port, addresses, count)
                    spent = cpu_seconds(pid) - before if count == 10 else spent
                cells = "".join(f"{percentile(ms, 0.5):>11.1f} /{percentile(ms, 0.99):>7.1f}" for ms in found.values())
                each = spent / len(found[10]) * 1000
                print(f"{name:<34}{cells}{len(found[10]) / SECONDS:>14,.0f}{each:>8.2f}", flush=True)
                if percentile(found[10], 0.99) >= GOAL_MS:
                    missed.append(name)
        stores.close()
    print(f"goal: p99 under {GOAL_MS:.0f} ms at 10 clients; missed by: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
