"""Writes the results as JSON and prints them as tables; computed values are labelled as such."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.compaction.benchmark_run import BenchmarkResults
from benchmarks.compaction.extrapolate import (
    GB,
    LIMIT_DOLLARS_PER_GB,
    MINUTES,
    TOTAL_GB,
    Extrapolation,
    extrapolate,
)
from benchmarks.compaction.machine import machine, settings, versions
from benchmarks.compaction.measure import Measurement
from benchmarks.compaction.workloads import REQUEST_FILES, Scale
from rich.console import Console
from rich.table import Table

from icepack.domain.units import format_size
from icepack.domain.verification import SAMPLE_SHARE

Highlighter = Callable[[str, bool], str]

MIN_WIDTH = 140
MAX_OVERHEAD = 0.15
MAX_GROWTH = 0.05


Json = dict[str, Any]


def write(found: BenchmarkResults, path: Path) -> None:
    """Keeps the results of workloads that were not measured this time, if the file is from the same kind of run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = to_json(found)
    if path.exists():
        document = merge_results(document, json.loads(path.read_text()))
    path.write_text(json.dumps(document, indent=2) + "\n")


def merge_results(new: Json, old: Json) -> Json:
    if any(new[key] != old.get(key) for key in ("scale", "machine", "settings")):
        return new

    def both(key: str) -> list[Json]:
        kept = [item for item in old[key] if item["workload"] not in new["workloads"]]
        return sorted([*kept, *new[key]], key=lambda item: item["workload"])

    return {
        **new,
        "workloads": dict(sorted({**old["workloads"], **new["workloads"]}.items())),
        "results": both("results"),
        "extrapolation": both("extrapolation"),
    }


def to_json(found: BenchmarkResults) -> Json:
    run = {
        "rounds": found.rounds,
        "begun_at": found.started_at.isoformat(timespec="minutes"),
        "seconds_of_run": round(found.seconds),
        "load_per_core_before": round(found.load_before, 2),
    }
    return {
        "scale": str(found.scale),
        "fresh_processes": found.fresh_processes,
        "machine": {**machine(), "versions": versions()},
        "settings": settings(),
        "requests_input_files": REQUEST_FILES,
        "workloads": {
            workload.key: {"title": workload.title, **asdict(found.inputs[workload.key]), "run": run}
            for workload in found.workloads
        },
        "results": [_result_json(item) for item in found.results],
        "extrapolation": [asdict(item) for item in extrapolate(found)],
    }


def _result_json(item: Measurement) -> Json:
    kept = {key: value for key, value in asdict(item).items() if key != "files"}
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in kept.items()}


def show(found: BenchmarkResults) -> None:
    console = Console(highlight=False)
    console.width = max(console.width, MIN_WIDTH)
    console.print(_measurement_table(found))
    console.print(_comparison_table(found))
    console.print(_extrapolation_table(extrapolate(found)))
    for line in _notes(found):
        console.print(line)


def _measurement_table(found: BenchmarkResults) -> Table:
    table = Table(title=f"Compaction, scale '{found.scale}': measured")
    for name in ("workload", "engine"):
        table.add_column(name)
    for name in ("wall s", "CPU s", "peak memory", "of a task", "bytes out", "files", "requests", "CPU ×", "wall ×"):
        table.add_column(name, justify="right")
    for workload in found.workloads:
        rows = [item for item in found.results if item.workload == workload.key]
        spark = next((item for item in rows if item.engine == "spark"), None)
        for number, item in enumerate(rows):
            title = f"({workload.key}) {workload.title}" if number == 0 else ""
            table.add_row(title, *_cells(item, spark), end_section=number == len(rows) - 1)
    return table


def _cells(item: Measurement, spark: Measurement | None) -> list[str]:
    return [
        item.engine,
        f"{item.wall_seconds:.2f}",
        f"{item.cpu_seconds:.2f}",
        format_size(item.peak_rss_bytes),
        "–" if item.engine == "spark" or item.task_peak_rss_bytes is None else format_size(item.task_peak_rss_bytes),
        format_size(item.bytes_out),
        f"{item.files_out:,}",
        "–" if item.requests is None else f"{item.requests:,}",
        _ratio(spark.cpu_seconds if spark else 0, item.cpu_seconds),
        _ratio(spark.wall_seconds if spark else 0, item.wall_seconds),
    ]


def _ratio(spark: float, other: float) -> str:
    return f"{spark / other:.1f}" if spark and other else "–"


def _comparison_table(found: BenchmarkResults) -> Table:
    table = Table(
        title="icepack compared with Spark and its own kernel",
        caption=None if found.scale is Scale.FULL else "The goals apply at full scale: see below.",
    )
    table.add_column("workload")
    for name in ("CPU, times less", "goal", "output size against Spark", "CPU over the kernel", "wall over the kernel"):
        table.add_column(name, justify="right")
    for workload in found.workloads:
        of = {item.engine: item for item in found.results if item.workload == workload.key}
        highlight = _highlight if found.scale is Scale.FULL else _plain
        if "spark" not in of or "icepack" not in of:
            continue
        ratio = of["spark"].cpu_seconds / of["icepack"].cpu_seconds
        growth = of["icepack"].bytes_out / of["spark"].bytes_out - 1
        table.add_row(
            f"({workload.key}) {workload.title}",
            highlight(f"{ratio:.2f}", ratio >= workload.min_ratio),
            f"{workload.min_ratio:.1f}" if found.scale is Scale.FULL else "–",
            _highlight(f"{growth:+.1%}", growth <= MAX_GROWTH),
            *_overhead(of["icepack"], of.get("kernel"), highlight),
        )
    return table


def _overhead(icepack: Measurement, kernel: Measurement | None, highlight: Highlighter) -> list[str]:
    if kernel is None:
        return ["–", "–"]
    over = (icepack.cpu_seconds / kernel.cpu_seconds - 1, icepack.wall_seconds / kernel.wall_seconds - 1)
    return [highlight(f"{share:+.0%}", share <= MAX_OVERHEAD) for share in over]


def _highlight(text: str, is_good: bool) -> str:
    return f"[green]{text}[/]" if is_good else f"[red]{text}[/]"


def _plain(text: str, is_good: bool) -> str:
    return text


def _extrapolation_table(items: list[Extrapolation]) -> Table:
    table = Table(
        title=f"Extrapolated from icepack's CPU seconds, not measured: {TOTAL_GB} GB in {MINUTES} minutes",
        caption=f"The limit is ${LIMIT_DOLLARS_PER_GB} per GB. Assumes independent cores and storage that keeps up.",
    )
    table.add_column("workload")
    for name in ("MB per core-second", "cores", "dollars per GB"):
        table.add_column(name, justify="right")
    for item in items:
        table.add_row(
            f"({item.workload})",
            f"{item.bytes_per_core_second / GB * 1000:.1f}",
            str(item.cores),
            _highlight(f"{item.dollars_per_gb:.5f}", item.dollars_per_gb <= LIMIT_DOLLARS_PER_GB),
        )
    return table


def _proofs(found: BenchmarkResults, key: str) -> list[str]:
    """Compares the cost of the levels of proof."""
    of = {item.engine: item.cpu_seconds for item in found.results if item.workload == key}
    if not {"spark", "icepack", "icepack-count", "icepack-full"} <= of.keys():
        return []
    steady = of["icepack"] / of["icepack-count"] - 1
    sample = SAMPLE_SHARE * (of["icepack-full"] - of["icepack-count"]) / of["icepack-count"]
    full = of["spark"] / of["icepack-full"]
    return [
        f"({key}) proof: sampled, with every class verified, takes {steady:+.1%} CPU over count; the sample of "
        f"{SAMPLE_SHARE:.0%} adds {sample:.1%}, computed from full; full is {full:.2f} times less than "
        f"Spark's procedure."
    ]


def _notes(found: BenchmarkResults) -> list[str]:
    notes = [
        f"[red]({item.workload}) {item.engine}: the rows are not the same.[/]"
        for item in found.results
        if not item.rows_match
    ]
    notes += [
        f"({item.workload}) icepack left it to Spark: {'; '.join(item.left_to_spark)}."
        for item in found.results
        if item.left_to_spark
    ]
    notes += [line for workload in found.workloads for line in _proofs(found, workload.key)]
    notes.append(
        f"Requests were counted on a fake S3 server, for {REQUEST_FILES} of the input files; those of Spark and "
        "icepack include metadata, those of the bare kernel do not."
    )
    if not found.fresh_processes:
        notes.append(
            "Small scale: one process runs all workloads of an engine, so memory is that of the largest one so far. "
            "The fixed cost of a job, half a second to one second of CPU in the JVM, matters as much here as the work."
        )
    return notes
