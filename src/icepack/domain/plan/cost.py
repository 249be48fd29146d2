"""What a rewrite is expected to cost, in requests, seconds and dollars."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from icepack.domain.units import GIB, MIB

GETS_PER_DATA_FILE = 2
"""Footer and body."""
PUTS_PER_COMMIT = 4
"""Metadata file, manifest list and the manifests of one commit."""
MULTIPART_BYTES = 32 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Prices and rates; every one of them can be configured."""

    get_dollars_per_1000: float = 0.0004
    put_dollars_per_1000: float = 0.005
    compute_dollars_per_gb_second: float = 0.0000166667
    memory_gb: float = 2.0
    rewrite_bytes_per_core_second: float = 8.0 * MIB
    """Measured: Spark 4.1 rewrote 453 MB of zstd Parquet in 54 core-seconds."""
    parallelism: int = 2
    startup_seconds: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """An estimate, never a measurement."""

    get_requests: int = 0
    put_requests: int = 0
    compute_seconds: float = 0.0
    duration_seconds: float = 0.0
    dollars: float = 0.0

    def plus(self, other: CostEstimate) -> CostEstimate:
        return CostEstimate(
            get_requests=self.get_requests + other.get_requests,
            put_requests=self.put_requests + other.put_requests,
            compute_seconds=self.compute_seconds + other.compute_seconds,
            duration_seconds=self.duration_seconds + other.duration_seconds,
            dollars=self.dollars + other.dollars,
        )


def price(model: CostModel, *, gets: int, puts: int, bytes_rewritten: int = 0) -> CostEstimate:
    """Requests and rewritten bytes, turned into seconds and dollars."""
    compute = bytes_rewritten / max(model.rewrite_bytes_per_core_second, 1.0)
    duration = model.startup_seconds + compute / max(model.parallelism, 1)
    dollars = (
        gets * model.get_dollars_per_1000 / 1000
        + puts * model.put_dollars_per_1000 / 1000
        + compute * model.memory_gb * model.compute_dollars_per_gb_second
    )
    return CostEstimate(
        get_requests=gets,
        put_requests=puts,
        compute_seconds=compute,
        duration_seconds=duration,
        dollars=dollars,
    )


def price_rewrite(
    model: CostModel, *, files_in: int, delete_files_in: int, bytes_in: int, files_out: int
) -> CostEstimate:
    """Reading every input once, writing every output in parts, one commit."""
    parts_out = max(files_out, -(-bytes_in // MULTIPART_BYTES)) if bytes_in else 0
    return price(
        model,
        gets=(files_in + delete_files_in) * GETS_PER_DATA_FILE,
        puts=parts_out + PUTS_PER_COMMIT,
        bytes_rewritten=bytes_in,
    )


def saved_dollars(model: CostModel, files_removed: int, scans_per_day: float, days: int = 30) -> float:
    """What the readers of a month no longer pay for opening files that are gone."""
    requests = max(files_removed, 0) * GETS_PER_DATA_FILE * scans_per_day * days
    return requests * model.get_dollars_per_1000 / 1000


LAMBDA_TIME_LIMIT = timedelta(minutes=15)
LAMBDA_SIZE_LIMIT_BYTES = 10 * GIB
_LAMBDA_MEMORY_STEPS = ((100 * MIB, 512), (500 * MIB, 1024), (1000 * MIB, 2048))
LAMBDA_LARGEST_MEMORY_MB = 3008


def optimal_lambda_memory_mb(data_bytes: int) -> int:
    """More memory buys more CPU: small inputs take the smallest size that is still cheap."""
    for below, memory_mb in _LAMBDA_MEMORY_STEPS:
        if data_bytes < below:
            return memory_mb
    return LAMBDA_LARGEST_MEMORY_MB


def should_use_lambda(data_bytes: int, duration: timedelta, runs_every: timedelta | None) -> bool:
    """Short enough for a function, and either rare or small; a table that is never compacted is rare."""
    is_sporadic = runs_every is None or runs_every > timedelta(hours=1)
    return duration < LAMBDA_TIME_LIMIT and (is_sporadic or data_bytes < LAMBDA_SIZE_LIMIT_BYTES)
