"""Runs an engine in its own process, measures it from outside, and reads its result from the table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.compaction.fingerprint import Fingerprint, fingerprint_files, fingerprint_table
from benchmarks.compaction.lake import BenchLake
from benchmarks.compaction.machine import touch_memory
from benchmarks.compaction.process_tree import watch_usage
from benchmarks.compaction.workloads import Workload

from icepack.domain.table import TableId

REPOSITORY = Path(__file__).parents[2]
STOP_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measurement of one engine on one workload."""

    workload: str
    engine: str
    wall_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    # Memory of the warmed-up process before the measured run.
    rss_before_bytes: int
    task_peak_rss_bytes: int | None = None
    tasks: int | None = None
    # Requests for a few files in a bucket, not for the measured table.
    requests: int | None = None
    requests_by_method: dict[str, int] = field(default_factory=dict)
    left_to_spark: tuple[str, ...] = ()
    cpu_seconds_of_rounds: tuple[float, ...] = ()
    bytes_out: int = 0
    files_out: int = 0
    smallest_file_bytes: int = 0
    rows_match: bool = False
    files: dict[str, int] = field(default_factory=dict, repr=False)


class Child:
    """The process of an engine, which answers every request line with one line."""

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
            raise RuntimeError(f"{self.engine} ended on workload ({workload.key}); see its output above.")
        return dict(json.loads(line))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(STOP_SECONDS)


@contextmanager
def start_child(engine: str, folder: Path) -> Iterator[Child]:
    started = Child(engine, folder)
    try:
        yield started
    finally:
        started.close()


def measure(child: Child, lake: BenchLake, workload: Workload, number: int, *, touched_bytes: int = 0) -> Measurement:
    """Measures on fresh copies of the metadata: a small table to warm up, the measured table, and one in the bucket."""
    suffix = f"__{child.engine}_{number}"
    child.compact(workload, lake.local.copy(f"warm_{workload.key}", f"warm_{workload.key}{suffix}"))
    table = lake.local.copy(workload.key, workload.key + suffix)
    touch_memory(touched_bytes)
    with watch_usage(child.pid) as usage:
        report = child.compact(workload, table)
    requests = count_requests(child, lake, workload, suffix)
    return Measurement(
        workload=workload.key,
        engine=child.engine,
        wall_seconds=report["wall_seconds"],
        cpu_seconds=usage.cpu_seconds,
        peak_rss_bytes=usage.peak_rss_bytes,
        rss_before_bytes=usage.rss_before_bytes,
        task_peak_rss_bytes=usage.task_peak_rss_bytes or None,
        tasks=report.get("tasks"),
        requests=sum(requests.values()),
        requests_by_method=requests,
        left_to_spark=tuple(report.get("left_to_spark", ())),
        files=report["files"] if child.engine == "kernel" else _new_files(lake, workload, table),
    )


def count_requests(child: Child, lake: BenchLake, workload: Workload, suffix: str) -> dict[str, int]:
    """Counts all requests to the bucket, from reading the metadata to the end of the commit."""
    table = lake.bucket.copy(workload.key, workload.key + suffix)
    lake.requests.clear()
    child.compact(workload, table)
    return dict(sorted(lake.requests.items()))


def _new_files(lake: BenchLake, workload: Workload, table: TableId) -> dict[str, int]:
    found = lake.local.data_files(table)
    if found.keys() & lake.local.data_files(lake.local.id(workload.key)).keys():
        raise RuntimeError(
            f"Not all files of workload ({workload.key}) were rewritten; the results would not be comparable."
        )
    return found


def fingerprint(lake: BenchLake, workload: Workload, measured: Measurement, number: int) -> Fingerprint:
    spark, has_lineage = lake.sessions.spark, workload.format_version >= 3
    if measured.engine == "kernel":
        return fingerprint_files(spark, list(measured.files), like=lake.local.id(workload.key), has_lineage=has_lineage)
    return fingerprint_table(
        spark, lake.local.id(f"{workload.key}__{measured.engine}_{number}"), has_lineage=has_lineage
    )
