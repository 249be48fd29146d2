"""All measurements of one run, in order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.compaction.files import local_path
from benchmarks.compaction.fingerprint import Fingerprint, of_table
from benchmarks.compaction.lake import BenchLake, Written, opened_lake
from benchmarks.compaction.machine import load_per_core
from benchmarks.compaction.measure import Child, Measurement, child, fingerprint, measure
from benchmarks.compaction.workloads import DATA_SETS, Scale, Workload
from rich.console import Console

ENGINES = ("spark", "icepack", "icepack-count", "icepack-full", "kernel")
"""In this order: the bare kernel takes its tasks from icepack."""
ENOUGH_SECONDS = 10.0
"""Of Spark on one workload: what is short is noisy, and is measured again until there is as much of it."""
TOUCHED_BYTES = 3 * 2**30
"""Before each run that is measured at full scale: more than any of them takes in addition."""

console = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a workload starts from."""

    bytes: int
    files: int
    delete_files: int
    rows: int
    """Still there: without the deleted ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    scale: Scale
    rounds: int
    fresh_processes: bool
    begun_at: datetime
    load_before: float
    seconds: float
    workloads: Sequence[Workload]
    inputs: dict[str, Inputs]
    results: Sequence[Measurement]


class Campaign:
    def __init__(self, folder: Path, workloads: Sequence[Workload], scale: Scale, rounds: int) -> None:
        self._folder = folder
        self._workloads = workloads
        self._scale = scale
        self._rounds = rounds
        self._data: dict[str, Written] = {}
        self._before: dict[str, Fingerprint] = {}
        self._inputs: dict[str, Inputs] = {}
        self._left_to_spark: set[str] = set()

    def run(self) -> Findings:
        began, begun_at, load = time.monotonic(), datetime.now(UTC), load_per_core()
        with opened_lake(self._folder) as lake:
            self._build(lake)
            results = list(self._in_fresh_processes(lake) if self._is_full else self._in_shared_processes(lake))
        return Findings(
            scale=self._scale,
            rounds=self._rounds,
            fresh_processes=self._is_full,
            begun_at=begun_at,
            load_before=load,
            seconds=time.monotonic() - began,
            workloads=self._workloads,
            inputs=self._inputs,
            results=sorted(results, key=lambda item: (item.workload, ENGINES.index(item.engine))),
        )

    @property
    def _is_full(self) -> bool:
        return self._scale is Scale.FULL

    def _build(self, lake: BenchLake) -> None:
        for data in DATA_SETS[self._scale]:
            if any(workload.data == data.name for workload in self._workloads):
                console.print(f"Writing {data.files:,} files of '{data.name}' …")
                self._data[data.name] = lake.write(data)
        for workload in self._workloads:
            console.print(f"Building table ({workload.key}): {workload.title} …")
            lake.build(workload, self._data[workload.data])
            has_lineage = workload.format_version >= 3
            self._before[workload.key] = of_table(
                lake.sessions.spark, lake.local.id(workload.key), has_lineage=has_lineage
            )
            self._inputs[workload.key] = self._described(lake, workload)

    def _described(self, lake: BenchLake, workload: Workload) -> Inputs:
        data = self._data[workload.data]
        return Inputs(
            bytes=data.bytes,
            files=len(data.files),
            delete_files=lake.local.delete_files(lake.local.id(workload.key)),
            rows=self._before[workload.key].rows,
        )

    def _in_fresh_processes(self, lake: BenchLake) -> Iterator[Measurement]:
        """The engines in turn, so that a machine that slows down meanwhile does so for all of them."""
        for workload in self._workloads:
            rounds: dict[str, list[Measurement]] = {engine: [] for engine in ENGINES}
            for number in range(self._rounds):
                for engine, done in rounds.items():
                    if self._has_work(engine, workload) and _is_due(engine, done):
                        with child(engine, self._folder) as started:
                            done.append(self._measured(started, lake, workload, number))
            for done in rounds.values():
                yield from self._settled(lake, workload, done)

    def _in_shared_processes(self, lake: BenchLake) -> Iterator[Measurement]:
        """To start a JVM for every one would take longer than all that is measured at the small scale."""
        for engine in ENGINES:
            with child(engine, self._folder) as started:
                for workload in self._workloads:
                    numbers = range(self._rounds if self._has_work(engine, workload) else 0)
                    rounds = [self._measured(started, lake, workload, number) for number in numbers]
                    yield from self._settled(lake, workload, rounds)

    def _has_work(self, engine: str, workload: Workload) -> bool:
        """What icepack has left to Spark is no task for the bare kernel."""
        if engine in ("icepack-count", "icepack-full"):
            return workload.compares_proofs
        return engine != "kernel" or workload.key not in self._left_to_spark

    def _measured(self, started: Child, lake: BenchLake, workload: Workload, number: int) -> Measurement:
        measured = measure(started, lake, workload, number, touched_bytes=TOUCHED_BYTES if self._is_full else 0)
        if measured.left_to_spark:
            self._left_to_spark.add(workload.key)
        console.print(
            f"({workload.key}) {measured.engine}: {measured.cpu_seconds:.2f} s CPU, {measured.wall_seconds:.2f} s wall"
        )
        return measured

    def _settled(self, lake: BenchLake, workload: Workload, rounds: Sequence[Measurement]) -> Iterator[Measurement]:
        """The round with the median CPU, of two the greater, if all of them left the right rows behind."""
        if not rounds:
            return
        matches = [
            fingerprint(lake, workload, measured, number) == self._before[workload.key]
            for number, measured in enumerate(rounds)
        ]
        median = sorted(rounds, key=lambda item: item.cpu_seconds)[len(rounds) // 2]
        for measured in rounds:
            _remove(measured)
        if not all(matches):
            console.print(f"[red]({workload.key}) {median.engine}: the rows are not the same[/]")
        yield replace(
            median,
            rows_match=all(matches),
            cpu_seconds_of_rounds=tuple(round(item.cpu_seconds, 2) for item in rounds),
            bytes_out=sum(median.files.values()),
            files_out=len(median.files),
            smallest_file_bytes=min(median.files.values(), default=0),
        )


def _is_due(engine: str, done: Sequence[Measurement]) -> bool:
    """icepack and the bare kernel are told apart by a tenth, Spark by whole factors: it may have fewer rounds."""
    return engine != "spark" or sum(item.wall_seconds for item in done) < ENOUGH_SECONDS


def _remove(measured: Measurement) -> None:
    """Outputs that were looked at, to make room; no table of the benchmark is read again after that."""
    for path in measured.files:
        local_path(path).unlink()
