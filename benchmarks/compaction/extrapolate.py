"""From the measured rate to what a larger table would need: reckoned, and nowhere called a measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from benchmarks.compaction.campaign import Findings, Inputs
from benchmarks.compaction.measure import Measurement

from icepack.domain.plan.cost import CostModel, price_rewrite

GB = 10**9
TOTAL_GB = 100
MINUTES = 5
LIMIT_DOLLARS_PER_GB = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Extrapolation:
    workload: str
    bytes_per_core_second: float
    cores: int
    """That 100 GB take in five minutes."""
    dollars_per_gb: float
    """Compute and requests, at the cost model's own prices."""


def extrapolated(found: Findings) -> list[Extrapolation]:
    native = [item for item in found.results if item.engine == "icepack" and not item.left_to_spark]
    return [_extrapolated(item, found.inputs[item.workload]) for item in native]


def _extrapolated(item: Measurement, inputs: Inputs) -> Extrapolation:
    rate = inputs.bytes / item.cpu_seconds
    cost = price_rewrite(
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
