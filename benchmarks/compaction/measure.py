"""Runs an engine in a process of its own, watches it from outside, and looks at what it left in the table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.compaction.fingerprint import Fingerprint, of_files, of_table
from benchmarks.compaction.lake import BenchLake
from benchmarks.compaction.machine import touch_memory
from benchmarks.compaction.tree import watched
from benchmarks.compaction.workloads import Workload

from icepack.domain.table import TableId

REPOSITORY = Path(__file__).parents[2]
STOP_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One engine on one workload."""

    workload: str
    engine: str
    wall_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    rss_before_bytes: int
    """Of the warm process, before the measured run began."""
    task_peak_rss_bytes: int | None = None
    tasks: int | None = None
    requests: int | None = None
    """For a few files in a bucket, not for the measured table."""
    requests_by_method: dict[str, int] = field(default_factory=dict)
    left_to_spark: tuple[str, ...] = ()
    cpu_seconds_of_rounds: tuple[float, ...] = ()
    bytes_out: int = 0
    files_out: int = 0
    smallest_file_bytes: int = 0
    rows_match: bool = False
    files: dict[str, int] = field(default_factory=dict, repr=False)


class Child:
    """An engine's process, which answers each line with a line."""

    def __init__(self, engine: str, folder: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.compaction.child", engine, str(folder)]
        self.engine = engine
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def compact(self, workload: Workload, table: TableId) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"workload": workload.key, "table": str(table)}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.engine} ended on workload ({workload.key}); what it said stands above.")
        return dict(json.loads(line))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(STOP_SECONDS)


@contextmanager
def child(engine: str, folder: Path) -> Iterator[Child]:
    started = Child(engine, folder)
    try:
        yield started
    finally:
        started.close()


def measure(child: Child, lake: BenchLake, workload: Workload, number: int, *, touched_bytes: int = 0) -> Measurement:
    """On fresh copies of the metadata: a small table to warm up, the one that counts, and the one in the bucket."""
    ending = f"__{child.engine}_{number}"
    child.compact(workload, lake.local.copy(f"warm_{workload.key}", f"warm_{workload.key}{ending}"))
    table = lake.local.copy(workload.key, workload.key + ending)
    touch_memory(touched_bytes)
    with watched(child.pid) as usage:
        said = child.compact(workload, table)
    requests = count_requests(child, lake, workload, ending)
    return Measurement(
        workload=workload.key,
        engine=child.engine,
        wall_seconds=said["wall_seconds"],
        cpu_seconds=usage.cpu_seconds,
        peak_rss_bytes=usage.peak_rss_bytes,
        rss_before_bytes=usage.rss_before_bytes,
        task_peak_rss_bytes=usage.task_peak_rss_bytes or None,
        tasks=said.get("tasks"),
        requests=sum(requests.values()),
        requests_by_method=requests,
        left_to_spark=tuple(said.get("left_to_spark", ())),
        files=said["files"] if child.engine == "kernel" else _new_files(lake, workload, table),
    )


def count_requests(child: Child, lake: BenchLake, workload: Workload, ending: str) -> dict[str, int]:
    """All that reach the bucket from the first look at the metadata to the end of the commit."""
    table = lake.bucket.copy(workload.key, workload.key + ending)
    lake.requests.clear()
    child.compact(workload, table)
    return dict(sorted(lake.requests.items()))


def _new_files(lake: BenchLake, workload: Workload, table: TableId) -> dict[str, int]:
    found = lake.local.data_files(table)
    if found.keys() & lake.local.data_files(lake.local.id(workload.key)).keys():
        raise RuntimeError(f"Not all files of workload ({workload.key}) were rewritten; the figures would not compare.")
    return found


def fingerprint(lake: BenchLake, workload: Workload, measured: Measurement, number: int) -> Fingerprint:
    spark, has_lineage = lake.sessions.spark, workload.format_version >= 3
    if measured.engine == "kernel":
        return of_files(spark, list(measured.files), like=lake.local.id(workload.key), has_lineage=has_lineage)
    return of_table(spark, lake.local.id(f"{workload.key}__{measured.engine}_{number}"), has_lineage=has_lineage)
