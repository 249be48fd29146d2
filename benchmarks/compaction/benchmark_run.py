"""Builds the tables of a benchmark run and measures all engines on them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.compaction.files import local_path
from benchmarks.compaction.fingerprint import Fingerprint, fingerprint_table
from benchmarks.compaction.lake import BenchLake, Written, open_lake
from benchmarks.compaction.machine import load_per_core
from benchmarks.compaction.measure import Child, Measurement, fingerprint, measure, start_child
from benchmarks.compaction.workloads import DATA_SETS, Scale, Workload
from rich.console import Console

# The order of the first round matters: the bare kernel runs the tasks that icepack recorded.
ENGINES = ("spark", "icepack", "icepack-count", "icepack-full", "kernel")
# Spark is measured again until its runs add up to this time, because short runs are noisy.
ENOUGH_SECONDS = 10.0
# Memory to touch before each measured run at full scale: more than any run allocates in addition.
TOUCHED_BYTES = 3 * 2**30

console = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The input of a workload."""

    bytes: int
    files: int
    delete_files: int
    # Live rows, without deleted ones.
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResults:
    scale: Scale
    rounds: int
    fresh_processes: bool
    started_at: datetime
    load_before: float
    seconds: float
    workloads: Sequence[Workload]
    inputs: dict[str, Inputs]
    results: Sequence[Measurement]


class BenchmarkRun:
    def __init__(self, folder: Path, workloads: Sequence[Workload], scale: Scale, rounds: int) -> None:
        self._folder = folder
        self._workloads = workloads
        self._scale = scale
        self._rounds = rounds
        self._data: dict[str, Written] = {}
        self._before: dict[str, Fingerprint] = {}
        self._inputs: dict[str, Inputs] = {}
        self._left_to_spark: set[str] = set()

    def run(self) -> BenchmarkResults:
        start_time, started_at, load = time.monotonic(), datetime.now(UTC), load_per_core()
        with open_lake(self._folder) as lake:
            self._build(lake)
            results = list(
                self._measure_in_fresh_processes(lake) if self._is_full else self._measure_in_shared_processes(lake)
            )
        return BenchmarkResults(
            scale=self._scale,
            rounds=self._rounds,
            fresh_processes=self._is_full,
            started_at=started_at,
            load_before=load,
            seconds=time.monotonic() - start_time,
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
            self._before[workload.key] = fingerprint_table(
                lake.sessions.spark, lake.local.id(workload.key), has_lineage=has_lineage
            )
            self._inputs[workload.key] = self._describe_inputs(lake, workload)

    def _describe_inputs(self, lake: BenchLake, workload: Workload) -> Inputs:
        data = self._data[workload.data]
        return Inputs(
            bytes=data.bytes,
            files=len(data.files),
            delete_files=lake.local.delete_files(lake.local.id(workload.key)),
            rows=self._before[workload.key].rows,
        )

    def _measure_in_fresh_processes(self, lake: BenchLake) -> Iterator[Measurement]:
        """Alternates between the engines, every other round in reverse: neither a machine that slows down nor an
        engine's predecessor favours one of them."""
        for workload in self._workloads:
            rounds: dict[str, list[Measurement]] = {engine: [] for engine in ENGINES}
            for number in range(self._rounds):
                for engine in ENGINES if number % 2 == 0 else reversed(ENGINES):
                    if self._has_work(engine, workload) and _is_due(engine, rounds[engine]):
                        with start_child(engine, self._folder) as started:
                            rounds[engine].append(self._measure(started, lake, workload, number))
            for done in rounds.values():
                yield from self._summarize_rounds(lake, workload, done)

    def _measure_in_shared_processes(self, lake: BenchLake) -> Iterator[Measurement]:
        """Shares processes at small scale, where starting a JVM per run would take longer than everything measured."""
        for engine in ENGINES:
            with start_child(engine, self._folder) as started:
                for workload in self._workloads:
                    numbers = range(self._rounds if self._has_work(engine, workload) else 0)
                    rounds = [self._measure(started, lake, workload, number) for number in numbers]
                    yield from self._summarize_rounds(lake, workload, rounds)

    def _has_work(self, engine: str, workload: Workload) -> bool:
        """The bare kernel cannot run a workload that icepack leaves to Spark."""
        if engine in ("icepack-count", "icepack-full"):
            return workload.compares_proofs
        return engine != "kernel" or workload.key not in self._left_to_spark

    def _measure(self, started: Child, lake: BenchLake, workload: Workload, number: int) -> Measurement:
        measured = measure(started, lake, workload, number, touched_bytes=TOUCHED_BYTES if self._is_full else 0)
        if measured.left_to_spark:
            self._left_to_spark.add(workload.key)
        console.print(
            f"({workload.key}) {measured.engine}: {measured.cpu_seconds:.2f} s CPU, {measured.wall_seconds:.2f} s wall"
        )
        return measured

    def _summarize_rounds(
        self, lake: BenchLake, workload: Workload, rounds: Sequence[Measurement]
    ) -> Iterator[Measurement]:
        """Yields the round with the median CPU (of two, the greater), and whether all rounds kept the right rows."""
        if not rounds:
            return
        matches = [
            fingerprint(lake, workload, measured, number) == self._before[workload.key]
            for number, measured in enumerate(rounds)
        ]
        median = sorted(rounds, key=lambda item: item.cpu_seconds)[len(rounds) // 2]
        for measured in rounds:
            _delete_outputs(measured)
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
    """Spark may have fewer rounds: it differs by factors, while icepack and the bare kernel differ by a tenth."""
    return engine != "spark" or sum(item.wall_seconds for item in done) < ENOUGH_SECONDS


def _delete_outputs(measured: Measurement) -> None:
    """Deletes verified outputs to free disk space; no benchmark table is read again after that."""
    for path in measured.files:
        local_path(path).unlink()
