"""Extrapolates from the measured rate to larger tables; the results are labelled as computed, not measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from benchmarks.compaction.benchmark_run import BenchmarkResults, Inputs
from benchmarks.compaction.measure import Measurement

from icepack.domain.plan.cost import CostModel, estimate_rewrite_cost

GB = 10**9
TOTAL_GB = 100
MINUTES = 5
LIMIT_DOLLARS_PER_GB = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Extrapolation:
    workload: str
    bytes_per_core_second: float
    # Cores needed to compact 100 GB in five minutes.
    cores: int
    # Cost of compute and requests at the prices of the cost model.
    dollars_per_gb: float


def extrapolate(found: BenchmarkResults) -> list[Extrapolation]:
    native = [item for item in found.results if item.engine == "icepack" and not item.left_to_spark]
    return [_extrapolate_workload(item, found.inputs[item.workload]) for item in native]


def _extrapolate_workload(item: Measurement, inputs: Inputs) -> Extrapolation:
    rate = inputs.bytes / item.cpu_seconds
    cost = estimate_rewrite_cost(
        replace(CostModel(), rewrite_bytes_per_core_second=rate),
        files_in=inputs.files,
        delete_files_in=inputs.delete_files,
        bytes_in=inputs.bytes,
        files_out=item.files_out,
    )
    return Extrapolation(
        workload=item.workload,
        bytes_per_core_second=round(rate, 1),
        cores=math.ceil(TOTAL_GB * GB / (MINUTES * 60) / rate),
        dollars_per_gb=round(cost.dollars / inputs.bytes * GB, 6),
    )
