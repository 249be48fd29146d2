"""The measured engines behind one protocol: Spark's procedure, icepack's native rewrite and its bare kernel."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid4

from benchmarks.compaction.session import CORES, catalogs, sessions
from benchmarks.compaction.workloads import TARGET_FILE_BYTES, Deletes, Workload

from icepack.catalog.catalog import Catalogs
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifest_cache import MemoryManifestCache
from icepack.catalog.manifests import ManifestReader
from icepack.domain.actions import Compact, Layout, RewriteEngine
from icepack.domain.plan.compaction import CompactionPlan, plan_action
from icepack.domain.plan.select import SelectionRules
from icepack.domain.ports.engine import RunContext
from icepack.domain.run import Stamp
from icepack.domain.table import TableId
from icepack.domain.verification import (
    GroupClasses,
    NativeDisabled,
    ProofLevel,
    VerificationStore,
    select_groups_to_compare,
)
from icepack.engine.native import compaction
from icepack.engine.spark import SparkSessionEngine
from icepack.kernel.executor import TaskAssignment, TaskResult, run_task
from icepack.kernel.memory import HIGH_MEMORY_ENVIRONMENT

# Part of the names of the bare kernel's outputs, which are in the same folder as those of the same tasks on Spark.
KERNEL_ATTEMPT = 9
# More groups than any workload has.
MAX_GROUPS = 32
# Long enough for all processes of the pool to start before any of them gets a task.
START_SECONDS = 1.0

EngineReport = dict[str, Any]


def unsampled_job_id() -> UUID:
    """Returns a job id with which no group is sampled, because the cost of the sample is computed, not measured.

    Copies of a table share a folder, and outputs are named after their job, so every run needs its own id.
    """
    groups = [GroupClasses(number=number, class_ids=frozenset()) for number in range(MAX_GROUPS)]
    now = datetime.now(UTC)
    while True:
        job_id = uuid4()
        if not select_groups_to_compare(
            groups, level=ProofLevel.SAMPLED, trusted=(), last_checked_at=now, now=now, seed=str(job_id)
        ):
            return job_id


class Engine(Protocol):
    def compact(self, workload: Workload, table: TableId) -> EngineReport: ...

    def close(self) -> None: ...


class SparkProcedure:
    """Iceberg's `rewriteDataFiles`, which plans and commits itself."""

    def __init__(self, folder: Path) -> None:
        self._sessions = sessions(folder)
        self._engine = SparkSessionEngine(self._sessions)

    def compact(self, workload: Workload, table: TableId) -> EngineReport:
        context = RunContext(stamp=Stamp(job_id=uuid4()), now=datetime.now(UTC))
        self._engine.run(table, build_action(workload, RewriteEngine.SPARK), context)
        return {}

    def close(self) -> None:
        self._sessions.close()


class VerifiedState(VerificationStore):
    """A store in which every file class is verified and no sample is due; it stores nothing."""

    def trusted_classes(self, table: TableId, table_uuid: str, kernel_version: str) -> frozenset[str]:
        return AllClasses()

    def last_checked_at(self, table: TableId, table_uuid: str) -> datetime | None:
        return datetime.now(UTC)

    def record_check(self, *given: Any, **named: Any) -> None:
        pass

    def disable_native(self, entry: NativeDisabled) -> None:
        raise RuntimeError(f"Values differed: {entry.reason}.")

    def enable_native(self, table: TableId) -> bool:
        return False

    def native_disabled(self, table: TableId) -> NativeDisabled | None:
        return None

    def all_native_disabled(self) -> list[NativeDisabled]:
        return []


class AllClasses(frozenset[str]):
    def __contains__(self, _: object) -> bool:
        return True


class IcepackNative:
    """icepack's native rewrite: plans from manifests, rewrites on Spark executors, commits with Iceberg's Java API."""

    def __init__(self, folder: Path, proof: ProofLevel = ProofLevel.SAMPLED) -> None:
        self._folder = folder
        self._proof = proof
        self._sessions = sessions(folder)
        self._engine = SparkSessionEngine(self._sessions)
        reader = ManifestReader(MemoryManifestCache())
        self._inspector = PyIcebergInspector(Catalogs(catalogs(folder)), reader)
        self._recordings: dict[Path, RecordedTasks] = {}

    def compact(self, workload: Workload, table: TableId) -> EngineReport:
        action = replace(build_action(workload, RewriteEngine.NATIVE), proof=self._proof)
        now = datetime.now(UTC)
        context = RunContext(
            stamp=Stamp(job_id=unsampled_job_id()),
            now=now,
            plan=self._plan(table, action, now),
            verification=VerifiedState(),
        )
        with record_tasks(self._sessions.spark.sparkContext) as recording:
            result = self._engine.run(table, action, context)
        self._recordings[recording_path(self._folder, table)] = recording
        groups = result.details.get("groups", [])
        return {**recording.report, "left_to_spark": sorted({group["why"] for group in groups if "why" in group})}

    def close(self) -> None:
        """Saves the tasks for the bare kernel only now, when nothing is measured any more."""
        for path, recording in self._recordings.items():
            recording.save(path)
        self._sessions.close()

    def _plan(self, table: TableId, action: Compact, now: datetime) -> CompactionPlan:
        listing = self._inspector.files(table)
        return plan_action(action, listing, defaults=SelectionRules.iceberg_defaults(TARGET_FILE_BYTES), now=now)


class BareKernel:
    """Runs the same tasks that icepack gave to Spark, in separate processes, without planning or committing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The processes of the pool load PyArrow before their first task, so this has to be set before they start.
        os.environ.update(HIGH_MEMORY_ENVIRONMENT)
        self._pool = ProcessPoolExecutor(CORES, mp_context=multiprocessing.get_context("spawn"))
        list(self._pool.map(time.sleep, [START_SECONDS] * CORES))

    def compact(self, workload: Workload, table: TableId) -> EngineReport:
        recording = RecordedTasks.load(recording_path(self._folder, table))
        jobs = [self._pool.submit(run_task, task, recording.storage, KERNEL_ATTEMPT) for task in recording.tasks]
        return summarize([job.result() for job in jobs])

    def close(self) -> None:
        self._pool.shutdown()


@dataclass(slots=True)
class RecordedTasks:
    """The tasks that were given to Spark, and a report of their results."""

    tasks: list[TaskAssignment] = field(default_factory=list)
    storage: dict[str, str] = field(default_factory=dict)
    report: EngineReport = field(default_factory=dict)

    def save(self, path: Path) -> None:
        path.write_bytes(pickle.dumps((self.tasks, self.storage)))

    @classmethod
    def load(cls, path: Path) -> RecordedTasks:
        return cls(*pickle.loads(path.read_bytes()))


def recording_path(folder: Path, table: TableId) -> Path:
    """Returns one path for all copies of a table, because their files are the same."""
    return folder / f"{table.catalog}-{table.name.partition('__')[0]}.tasks"


@contextmanager
def record_tasks(context: Any) -> Iterator[RecordedTasks]:
    """Records the tasks that icepack gives to Spark, because the benchmark builds no tasks itself."""
    module: Any = compaction
    recording, parallelize, run_tasks = RecordedTasks(), context.parallelize, module.run_tasks

    def record_and_parallelize(items: Sequence[Any], *arguments: Any) -> Any:
        recording.tasks += [item for item in items if isinstance(item, TaskAssignment)]
        return parallelize(items, *arguments)

    def run(spark: Any, tasks: Any, storage: Mapping[str, str], *arguments: Any) -> list[TaskResult]:
        results: list[TaskResult] = run_tasks(spark, tasks, storage, *arguments)
        recording.storage, recording.report = dict(storage), summarize(results)
        return results

    context.parallelize, module.run_tasks = record_and_parallelize, run
    try:
        yield recording
    finally:
        context.parallelize, module.run_tasks = parallelize, run_tasks


def summarize(results: Sequence[TaskResult]) -> EngineReport:
    refused = [result.unsupported for result in results if result.unsupported]
    if refused:
        raise RuntimeError(f"The kernel refused a task: {refused[0]}.")
    written = [result.written for result in results if result.written]
    return {
        "files": {file.path: file.bytes for item in written for file in item.files},
        "tasks": len(results),
        "task_lifetime_peak_bytes": max((item.peak_bytes for item in written), default=0),
    }


def build_action(workload: Workload, engine: RewriteEngine) -> Compact:
    """Builds the same action for all engines; the delete file threshold also removes dangling deletes."""
    has_delete_files = workload.deletes in (Deletes.POSITION, Deletes.EQUALITY)
    return Compact(
        layout=Layout.SORT if workload.sort_by else Layout.BINPACK,
        columns=workload.sort_by,
        target_file_bytes=TARGET_FILE_BYTES,
        delete_file_threshold=1 if has_delete_files else None,
        rewrite_all=True,
        engine=engine,
    )
