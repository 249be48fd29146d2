"""A lake of small tables, jobs on them, and worker processes that can be killed, frozen and awaited."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import yaml
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from icepack.config.folders import LAKE, EmbeddedLake
from icepack.domain.actions import Action, Compact, RewriteEngine
from icepack.domain.job import Job, JobEventKind, JobRequest, JobState
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.store.backend import open_stores

NAMESPACE = "db"
PARTITIONS = 5
FILES_PER_PARTITION = 3
LEASE_SECONDS = 6
REWRITE = Compact(rewrite_all=True, options={"max-concurrent-file-group-rewrites": "1"})
# On this path the JVM commits even if Python is dead; on the native path Python starts the commit.
BY_SPARK = replace(REWRITE, engine=RewriteEngine.SPARK)
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "part", IntegerType()), NestedField(3, "v", StringType())
)
SPEC = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="part"))
Rows = list[tuple[int, int, str]]


class WorkerProcess:
    """A worker in its own session, which identifies its JVM even after the worker has died."""

    def __init__(self, command: list[str], log: Path, environ: dict[str, str]) -> None:
        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environ, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def jvms(self) -> list[int]:
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        found = [(pid, _read_status(pid)) for pid in pids]
        return [pid for pid, status in found if status and (status.command, status.session) == ("java", self.pid)]

    @property
    def is_frozen(self) -> bool:
        status = _read_status(self.pid)
        return status is not None and status.state == "T"

    def thaw_jvm(self) -> None:
        for jvm in self.jvms():
            with suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGCONT)

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def wait(self, seconds: float = 120) -> int:
        """Waits for the exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError(f"worker {self.pid} is still running:\n{self.log_tail()}")
            time.sleep(0.1)
        return self.process.returncode

    def end(self) -> None:
        """Kills the worker and its JVM, whatever state they are in."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        for jvm in self.jvms():
            with suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGKILL)

    def log_tail(self) -> str:
        return self._log.read_text()[-3000:]


class _ProcessStatus(NamedTuple):
    command: str
    state: str
    session: int


def _read_status(pid: int) -> _ProcessStatus | None:
    try:
        named, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return None
    state, _, _, session, *_ = rest.split()
    return _ProcessStatus(named.partition("(")[2], state, int(session))


class Chaos:
    """The lake, its queue in PostgreSQL, and all workers that were started."""

    def __init__(self, folder: Path, state_url: str) -> None:
        self.folder = folder
        self.stores = open_stores(state_url)
        self.lake = EmbeddedLake(folder / "lake")
        self.lake.folder.mkdir()
        self.catalog = load_catalog(LAKE, **self.lake.properties)
        self.catalog.create_namespace(NAMESPACE)
        self.workers: list[WorkerProcess] = []
        self.rows: dict[TableId, Rows] = {}
        self.jobs: list[Job] = []
        self.config = folder / "icepack.yaml"
        self.config.write_text(yaml.safe_dump(self._settings(state_url)))

    def _settings(self, state_url: str) -> dict[str, Any]:
        return {
            "catalogs": {LAKE: self.lake.properties},
            "state": {"url": state_url},
            "worker": {"lease": f"{LEASE_SECONDS}s", "poll": "200ms", "retry_delay": "0s"},
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

    def table(self, name: str) -> TableId:
        table = TableId(LAKE, (NAMESPACE,), name)
        self.catalog.create_table((NAMESPACE, name), SCHEMA, partition_spec=SPEC)
        self.rows[table] = []
        self.append(table)
        return table

    def append(self, table: TableId) -> None:
        """Adds some small files to every partition."""
        for _ in range(FILES_PER_PARTITION):
            first = len(self.rows[table])
            rows = [(first + n, n % PARTITIONS, f"v{first + n}") for n in range(PARTITIONS * 4)]
            self._append_with_retries(table, rows)
            self.rows[table] += rows

    def _append_with_retries(self, table: TableId, rows: Rows) -> None:
        ids, parts, values = zip(*rows, strict=True)
        columns = {"id": pa.array(ids, pa.int64()), "part": pa.array(parts, pa.int32()), "v": values}
        while True:
            with suppress(CommitFailedException):
                self.load(table).append(pa.table(columns))
                return

    def load(self, table: TableId) -> Table:
        return self.catalog.load_table((NAMESPACE, table.name))

    def submit(self, table: TableId, action: Action = REWRITE, **facts: Any) -> Job:
        job = self.stores.jobs.submit(JobRequest(table=table, action=action, max_attempts=50, **facts)).job
        self.jobs.append(job)
        return job

    def state(self, job: Job) -> JobState:
        return self.stores.jobs.get(job.id).state

    def start(self, point: str = "none") -> WorkerProcess:
        """Starts a worker for one job, with a fault at the given point."""
        script = Path(__file__).with_name("chaos_worker.py")
        return self._start([sys.executable, str(script), str(self.config), point, str(self.folder)], point)

    def start_loop(self) -> WorkerProcess:
        """Starts the real command."""
        call = "from icepack.cli.main import main; main()"
        return self._start([sys.executable, "-c", call, "--config", str(self.config), "worker", "--loop"], "loop")

    def _start(self, command: list[str], name: str) -> WorkerProcess:
        log = self.folder / f"worker-{len(self.workers)}-{name}.log"
        environ = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        worker = WorkerProcess(command, log, environ)
        self.workers.append(worker)
        return worker

    def reap(self, job: Job) -> None:
        """Waits until the reaper has taken the job from its dead worker."""
        self.until(lambda: self.stores.jobs.reap() is not None and self.state(job) is not JobState.RUNNING, "reaping")

    def until(self, condition: Callable[[], object], what: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                tails = "\n".join(worker.log_tail() for worker in self.workers[-2:])
                raise AssertionError(f"{what} did not happen; logs of the last workers:\n{tails}")
            time.sleep(0.2)

    def all_done(self) -> bool:
        return all(self.state(job).is_final for job in self.jobs)

    def end(self) -> None:
        for worker in self.workers:
            worker.end()
        for holder in self.folder.glob("holder-*"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(holder.read_text()), signal.SIGKILL)
            holder.unlink()
        self.stores.close()

    def content(self, table: TableId) -> Rows:
        found = self.load(table).scan().to_arrow().to_pylist()
        return sorted((row["id"], row["part"], row["v"]) for row in found)

    def rewrites(self, table: TableId, job_id: UUID) -> list[str]:
        """Returns the attempts of the job that committed to the table."""
        snapshots = self.load(table).metadata.snapshots
        summaries = [snapshot.summary.additional_properties for snapshot in snapshots if snapshot.summary]
        return [summary["icepack.attempt"] for summary in summaries if summary.get("icepack.job-id") == str(job_id)]

    def uncommitted(self, table: TableId) -> set[str]:
        """Returns the data files that no snapshot of the table references."""
        loaded = self.load(table)
        known = {
            Path(entry.data_file.file_path).name
            for snapshot in loaded.metadata.snapshots
            for manifest in snapshot.manifests(loaded.io)
            for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=False)
        }
        folder = Path(loaded.location().removeprefix("file:").replace("//", "/")) / "data"
        return {path.name for path in folder.rglob("*.parquet")} - known

    def check(self) -> None:
        """Checks that every job finished once, every table has its rows, and no lock is left."""
        for job in self.jobs:
            ended = self.stores.jobs.get(job.id)
            assert ended.state is JobState.SUCCEEDED, ended
            ends = [event for event in self.stores.jobs.events(job.id) if event.kind in _ENDS]
            assert [event.kind for event in ends] == [JobEventKind.SUCCEEDED], ends
        for table, rows in self.rows.items():
            assert self.content(table) == sorted(rows), table
        assert self.stores.locks.list_locks() == []
        kept = {run.job_id: run.state for run in self.stores.history.runs(limit=1000)}
        assert {kept[job.id] for job in self.jobs} == {RunState.SUCCEEDED}


_ENDS = (JobEventKind.SUCCEEDED, JobEventKind.FAILED, JobEventKind.CANCELLED)
