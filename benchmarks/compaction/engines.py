"""The three that are measured, behind one method."""

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
from icepack.catalog.manifests import ManifestReader, MemoryManifestCache
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
    groups_to_compare,
)
from icepack.engine.native import compaction
from icepack.engine.spark import SparkSessionEngine
from icepack.kernel.executor import Answer, Assignment, work
from icepack.kernel.memory import GENEROUS

KERNEL_ATTEMPT = 9
"""In the names of the bare kernel's outputs, which lie beside those of the same tasks on Spark."""
MOST_GROUPS = 32
"""More than any workload has."""
START_SECONDS = 1.0
"""Long enough for all processes of the pool to be there before any of them is given something to do."""

Said = dict[str, Any]


def unsampled_job_id() -> UUID:
    """A job none of whose groups is drawn for the sample: what the sample costs is computed, not measured.

    Copies of a table share a folder, and outputs are named after their job, so every run needs an id of its own.
    """
    groups = [GroupClasses(number=number, class_ids=frozenset()) for number in range(MOST_GROUPS)]
    now = datetime.now(UTC)
    while True:
        job_id = uuid4()
        if not groups_to_compare(
            groups, level=ProofLevel.SAMPLED, trusted=(), last_checked_at=now, now=now, seed=str(job_id)
        ):
            return job_id


class Engine(Protocol):
    def compact(self, workload: Workload, table: TableId) -> Said: ...

    def close(self) -> None: ...


class SparkProcedure:
    """Iceberg's `rewriteDataFiles`, which plans and commits by itself."""

    def __init__(self, folder: Path) -> None:
        self._sessions = sessions(folder)
        self._engine = SparkSessionEngine(self._sessions)

    def compact(self, workload: Workload, table: TableId) -> Said:
        context = RunContext(stamp=Stamp(job_id=uuid4()), now=datetime.now(UTC))
        self._engine.run(table, action(workload, RewriteEngine.SPARK), context)
        return {}

    def close(self) -> None:
        self._sessions.close()


class SteadyState(VerificationStore):
    """A state in which every class of files has earned its trust and no sample is due; nothing is remembered."""

    def trusted_classes(self, table: TableId, table_uuid: str, kernel_version: str) -> frozenset[str]:
        return Everything()

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


class Everything(frozenset[str]):
    def __contains__(self, _: object) -> bool:
        return True


class IcepackNative:
    """Planned from the manifests, rewritten on Spark's executors, committed through Iceberg's Java API."""

    def __init__(self, folder: Path, proof: ProofLevel = ProofLevel.SAMPLED) -> None:
        self._folder = folder
        self._proof = proof
        self._sessions = sessions(folder)
        self._engine = SparkSessionEngine(self._sessions)
        reader = ManifestReader(MemoryManifestCache())
        self._inspector = PyIcebergInspector(Catalogs(catalogs(folder)), reader)
        self._tapes: dict[Path, Tape] = {}

    def compact(self, workload: Workload, table: TableId) -> Said:
        wanted = replace(action(workload, RewriteEngine.NATIVE), proof=self._proof)
        now = datetime.now(UTC)
        context = RunContext(
            stamp=Stamp(job_id=unsampled_job_id()),
            now=now,
            plan=lambda: self._plan(table, wanted, now),
            verification=SteadyState(),
        )
        with recorded(self._sessions.spark.sparkContext) as tape:
            result = self._engine.run(table, wanted, context)
        self._tapes[tape_of(self._folder, table)] = tape
        ways = result.details.get("groups", [])
        return {**tape.said, "left_to_spark": sorted({way["why"] for way in ways if "why" in way})}

    def close(self) -> None:
        """The tasks are kept for the bare kernel now, since nobody measures any more."""
        for path, tape in self._tapes.items():
            tape.save(path)
        self._sessions.close()

    def _plan(self, table: TableId, wanted: Compact, now: datetime) -> CompactionPlan:
        listing = self._inspector.files(table)
        return plan_action(wanted, listing, otherwise=SelectionRules.by_hand(TARGET_FILE_BYTES), now=now)


class BareKernel:
    """The very tasks that icepack gave to Spark, in processes of their own; nothing is planned or committed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Its processes load PyArrow before they are given a task, so it has to be said before they are there.
        os.environ.update(GENEROUS)
        self._pool = ProcessPoolExecutor(CORES, mp_context=multiprocessing.get_context("spawn"))
        list(self._pool.map(time.sleep, [START_SECONDS] * CORES))

    def compact(self, workload: Workload, table: TableId) -> Said:
        tape = Tape.load(tape_of(self._folder, table))
        jobs = [self._pool.submit(work, task, tape.storage, KERNEL_ATTEMPT) for task in tape.tasks]
        return said_of([job.result() for job in jobs])

    def close(self) -> None:
        self._pool.shutdown()


@dataclass(slots=True)
class Tape:
    """Tasks as they went to Spark, and what came back."""

    tasks: list[Assignment] = field(default_factory=list)
    storage: dict[str, str] = field(default_factory=dict)
    said: Said = field(default_factory=dict)

    def save(self, path: Path) -> None:
        path.write_bytes(pickle.dumps((self.tasks, self.storage)))

    @classmethod
    def load(cls, path: Path) -> Tape:
        return cls(*pickle.loads(path.read_bytes()))


def tape_of(folder: Path, table: TableId) -> Path:
    """One for all copies of a table: their files are the same."""
    return folder / f"{table.catalog}-{table.name.partition('__')[0]}.tasks"


@contextmanager
def recorded(context: Any) -> Iterator[Tape]:
    """Listens in where icepack hands its tasks to Spark: the benchmark makes none of its own."""
    caller: Any = compaction
    tape, parallelize, run_tasks = Tape(), context.parallelize, caller.run_tasks

    def listen(items: Sequence[Any], *arguments: Any) -> Any:
        tape.tasks += [item for item in items if isinstance(item, Assignment)]
        return parallelize(items, *arguments)

    def run(spark: Any, tasks: Any, storage: Mapping[str, str], *arguments: Any) -> list[Answer]:
        answers: list[Answer] = run_tasks(spark, tasks, storage, *arguments)
        tape.storage, tape.said = dict(storage), said_of(answers)
        return answers

    context.parallelize, caller.run_tasks = listen, run
    try:
        yield tape
    finally:
        context.parallelize, caller.run_tasks = parallelize, run_tasks


def said_of(answers: Sequence[Answer]) -> Said:
    refused = [answer.uncovered for answer in answers if answer.uncovered]
    if refused:
        raise RuntimeError(f"The kernel refused a task: {refused[0]}.")
    written = [answer.written for answer in answers if answer.written]
    return {
        "files": {file.path: file.bytes for item in written for file in item.files},
        "tasks": len(answers),
        "task_lifetime_peak_bytes": max((item.peak_bytes for item in written), default=0),
    }


def action(workload: Workload, engine: RewriteEngine) -> Compact:
    """The same for either; a threshold on deletes also has the ones that dangle removed."""
    has_delete_files = workload.deletes in (Deletes.POSITION, Deletes.EQUALITY)
    return Compact(
        layout=Layout.SORT if workload.sort_by else Layout.BINPACK,
        columns=workload.sort_by,
        target_file_bytes=TARGET_FILE_BYTES,
        delete_file_threshold=1 if has_delete_files else None,
        rewrite_all=True,
        engine=engine,
    )
