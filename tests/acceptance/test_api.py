"""`icepack up` end to end: a real server process, a real PostgreSQL, a real worker with Spark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog import load_catalog

from contract.postgres_server import PostgresServer
from icepack.api.auth.api_keys import generate_key
from icepack.client import ApiProblem, Client
from icepack.config.folders import LAKE, EmbeddedLake
from icepack.domain.access import ApiKey, Role, Scope
from icepack.domain.job import JobProgress, JobState
from icepack.errors import EnvironmentFault
from icepack.store.backend import open_stores

from .chaos import SCHEMA, SPEC

# Slow enough for the test to see its progress; the native kernel would be too fast.
ONE_AT_A_TIME = {"rewrite_all": True, "engine": "spark", "options": {"max-concurrent-file-group-rewrites": "1"}}
TIMEOUT_SECONDS = 180.0
# So many that progress is seen even on an idle machine: each partition is one group.
PARTITIONS = 48


class Lake:
    def __init__(self, folder: Path) -> None:
        self.embedded = EmbeddedLake(folder / "lake")
        self.embedded.folder.mkdir()
        self.catalog = load_catalog(LAKE, **self.embedded.properties)
        self.catalog.create_namespace("db")

    def table(self, name: str, partitions: int, files: int = 3) -> None:
        table = self.catalog.create_table(("db", name), SCHEMA, partition_spec=SPEC)
        for number in range(files):
            ids = range(number * partitions * 4, (number + 1) * partitions * 4)
            columns = {
                "id": pa.array(ids, pa.int64()),
                "part": pa.array([n % partitions for n in ids], pa.int32()),
                "v": [f"v{n}" for n in ids],
            }
            table.append(pa.table(columns))

    def rows(self, name: str) -> list[Any]:
        return sorted(map(repr, self.catalog.load_table(("db", name)).scan().to_arrow().to_pylist()))

    def files(self, name: str) -> int:
        return len(self.catalog.load_table(("db", name)).inspect.files())

    def operations(self, name: str) -> list[str]:
        found = self.catalog.load_table(("db", name)).metadata.snapshots
        return [snapshot.summary.operation.value for snapshot in found if snapshot.summary]


class ServiceProcess:
    """`icepack up` as a process."""

    def __init__(self, folder: Path, lake: Lake, state_url: str) -> None:
        self.folder, self.lake = folder, lake
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        settings = {
            "catalogs": {LAKE: lake.embedded.properties},
            "state": {"url": state_url},
            "server": {"port": port},
            "auth": {"enabled": True},
            "worker": {"lease": "10s", "poll": "200ms"},
            "spark": {
                "master": "local[2]",
                "driver_memory": "1g",
                "conf": {
                    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                    "spark.sql.shuffle.partitions": "2",
                    "spark.ui.enabled": "false",
                },
            },
        }
        config = folder / "icepack.yaml"
        config.write_text(yaml.safe_dump(settings))
        self.log = folder / "up.log"
        command = [sys.executable, "-m", "icepack.cli.main", "--config", str(config), "up"]
        environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "--without", "scheduler", "--without", "orchestrator"],
                stdout=output,
                stderr=output,
                env=environ,
                start_new_session=True,
            )

    def wait_until(self, condition: Any, what: str) -> Any:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not (found := condition()):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"{what} did not happen:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.1)
        return found

    def children(self) -> list[int]:
        """Returns the process ids of its workers, found by their command line."""
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdecimal() and str(self.folder) in (path / "cmdline").read_text():
                    found.append(int(path.name))
        return [pid for pid in found if pid != self.process.pid]

    def kill(self) -> None:
        for pid in [self.process.pid, *self.children()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def state_url() -> Iterator[str]:
    server = PostgresServer()
    try:
        server.start()
        with server.database() as url:
            yield url
    finally:
        server.remove()


@pytest.fixture(scope="module")
def key(state_url: str) -> str:
    created, stores = generate_key(), open_stores(state_url)
    facts = {"role": Role.ADMIN, "scopes": (Scope(),), "created_at": datetime.now(UTC)}
    stores.keys.add(ApiKey(id=created.id, name="tests", **facts), created.digest)
    stores.close()
    return created.text


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, state_url: str, key: str) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("up")
    lake = Lake(folder)
    lake.table("orders", partitions=PARTITIONS)
    lake.table("long", partitions=240, files=2)
    lake.table("busy", partitions=2)
    service = ServiceProcess(folder, lake, state_url)
    try:
        yield service
    finally:
        service.kill()


@pytest.fixture
def client(up: ServiceProcess, key: str) -> Iterator[Client]:
    with Client(up.url, key=key) as found:

        def tables_are_cached() -> bool:
            try:
                return found.tables().total == 3
            except EnvironmentFault:
                return False

        up.wait_until(tables_are_cached, "the first health sync")
        yield found


def test_compaction_keeps_all_rows(up: ServiceProcess, client: Client) -> None:
    rows, seen = up.lake.rows("orders"), []
    plan = client.plan("orders").compaction
    accepted = client.act("orders", "compact", options=ONE_AT_A_TIME)
    assert accepted.status is JobState.QUEUED
    assert plan.estimated
    job = client.wait(accepted.job_id, seconds=TIMEOUT_SECONDS, every=0.1, watch=lambda job: seen.append(job.progress))
    assert job.state is JobState.SUCCEEDED, job.message
    completed = {progress.partitions_completed for progress in seen}
    assert completed & set(range(1, PARTITIONS)), "no progress was seen"
    assert job.progress.partitions_completed == job.progress.partitions_total == PARTITIONS
    assert job.progress.files_processed == 3 * PARTITIONS
    assert up.lake.files("orders") == PARTITIONS
    assert up.lake.rows("orders") == rows
    assert [event.kind for event in client.job_events(job.id).events][:2] == ["submitted", "claimed"]
    assert client.history("orders").runs[0].job_id == job.id


def test_running_job_is_cancelled(up: ServiceProcess, client: Client) -> None:
    rows = up.lake.rows("long")
    accepted = client.act("long", "compact", options=ONE_AT_A_TIME)
    up.wait_until(lambda: client.job(accepted.job_id).progress.partitions_completed, "progress")
    assert client.cancel(accepted.job_id).state is JobState.RUNNING
    job = client.wait(accepted.job_id, seconds=TIMEOUT_SECONDS, every=0.1)
    assert job.state is JobState.CANCELLED
    assert job.progress != JobProgress()
    assert up.lake.rows("long") == rows
    assert "replace" not in up.lake.operations("long")


def test_twenty_threads_with_one_key_get_one_job(up: ServiceProcess, client: Client, key: str) -> None:
    def submit(_: int) -> Any:
        with Client(up.url, key=key) as own:
            return own.compact("busy", catalog="lake", namespace="db", idempotency_key="twenty").job_id

    with ThreadPoolExecutor(20) as pool:
        assert len(set(pool.map(submit, range(20)))) == 1
    submissions = [
        entry for entry in client.audit(action="api.jobs.submit").entries if entry.details["table"] == "lake.db.busy"
    ]
    assert [entry.outcome for entry in submissions].count("created") == 1


def test_dead_worker_is_replaced(up: ServiceProcess, client: Client) -> None:
    (worker,) = [pid for pid in up.children() if b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    os.kill(worker, signal.SIGKILL)
    up.wait_until(lambda: set(up.children()) - {worker}, "another worker")
    assert client.health().status == "ok"
    accepted = client.act("busy", "rewrite_manifests")
    assert client.wait(accepted.job_id, seconds=TIMEOUT_SECONDS, every=0.2).state is JobState.SUCCEEDED


def test_service_stops_cleanly(up: ServiceProcess, client: Client, state_url: str) -> None:
    with Client(up.url) as anonymous, pytest.raises(ApiProblem) as rejected:
        anonymous.tables()
    assert rejected.value.status == 401
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(TIMEOUT_SECONDS) == 0, up.log.read_text()[-3000:]
    assert up.children() == []
    stores = open_stores(state_url)
    assert stores.locks.list_locks() == []
    stores.close()
