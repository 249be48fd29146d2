"""Estimates what an action costs, in requests, compute seconds and dollars."""

from __future__ import annotations

from dataclasses import dataclass

from icepack.domain.units import MIB

# Reading a data file takes one request for its footer and one for its body.
GETS_PER_DATA_FILE = 2
# A commit writes a metadata file, a manifest list and manifests.
PUTS_PER_COMMIT = 4
# The part size of multipart uploads; each part is one request.
MULTIPART_BYTES = 32 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Prices and rates, all of which are configurable."""

    get_dollars_per_1000: float = 0.0004
    put_dollars_per_1000: float = 0.005
    compute_dollars_per_gb_second: float = 0.0000166667
    memory_gb: float = 2.0
    # Measured: Spark 4.1 rewrote 453 MB of zstd Parquet in 54 core-seconds.
    rewrite_bytes_per_core_second: float = 8.0 * MIB
    parallelism: int = 2
    startup_seconds: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Estimated cost; measured costs are in the run record."""

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


def estimate_cost(model: CostModel, *, gets: int, puts: int, bytes_rewritten: int = 0) -> CostEstimate:
    """Estimates seconds and dollars from requests and rewritten bytes."""
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


def estimate_rewrite_cost(
    model: CostModel, *, files_in: int, delete_files_in: int, bytes_in: int, files_out: int
) -> CostEstimate:
    """Estimates the cost of reading every input once, writing every output in parts, and one commit."""
    parts_out = max(files_out, -(-bytes_in // MULTIPART_BYTES)) if bytes_in else 0
    return estimate_cost(
        model,
        gets=(files_in + delete_files_in) * GETS_PER_DATA_FILE,
        puts=parts_out + PUTS_PER_COMMIT,
        bytes_rewritten=bytes_in,
    )


def estimate_saved_dollars(model: CostModel, files_removed: int, scans_per_day: float, days: int = 30) -> float:
    """Estimates what readers save on requests, by default in 30 days, because removed files are no longer opened."""
    requests = max(files_removed, 0) * GETS_PER_DATA_FILE * scans_per_day * days
    return requests * model.get_dollars_per_1000 / 1000
