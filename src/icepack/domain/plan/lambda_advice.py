"""Advises whether a compaction fits in an AWS Lambda function, and with how much memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from icepack.domain.units import GIB, MIB, format_duration, format_size

LAMBDA_TIME_LIMIT = timedelta(minutes=15)
LAMBDA_SIZE_LIMIT_BYTES = 10 * GIB
# A table that is compacted less often than this is worth a function, whatever its size.
SPORADIC_INTERVAL = timedelta(hours=1)
# Upper bounds of the input size, with the memory for inputs below them.
_MEMORY_STEPS = ((100 * MIB, 512), (500 * MIB, 1024), (1000 * MIB, 2048))
LARGEST_MEMORY_MB = 3008


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaAdvice:
    """Whether a compaction fits in an AWS Lambda function; an estimate, like the cost it is derived from."""

    fits: bool
    memory_mb: int
    reason: str


def advise_lambda(data_bytes: int, duration: timedelta, runs_every: timedelta | None) -> LambdaAdvice:
    """Advises by input size, estimated duration and interval between runs; None means that it never ran."""
    return LambdaAdvice(
        fits=should_use_lambda(data_bytes, duration, runs_every),
        memory_mb=choose_lambda_memory_mb(data_bytes),
        reason=_explain(data_bytes, duration, runs_every),
    )


def should_use_lambda(data_bytes: int, duration: timedelta, runs_every: timedelta | None) -> bool:
    """Whether the work is short enough for a function, and either sporadic or small."""
    return duration < LAMBDA_TIME_LIMIT and (_is_sporadic(runs_every) or data_bytes < LAMBDA_SIZE_LIMIT_BYTES)


def choose_lambda_memory_mb(data_bytes: int) -> int:
    """Chooses the memory by input size: more memory brings more CPU, but small inputs do not need it."""
    return next((memory_mb for below, memory_mb in _MEMORY_STEPS if data_bytes < below), LARGEST_MEMORY_MB)


def _is_sporadic(runs_every: timedelta | None) -> bool:
    return runs_every is None or runs_every > SPORADIC_INTERVAL


def _explain(data_bytes: int, duration: timedelta, runs_every: timedelta | None) -> str:
    took, limit = format_duration(duration), format_duration(LAMBDA_TIME_LIMIT)
    size, size_limit = format_size(data_bytes), format_size(LAMBDA_SIZE_LIMIT_BYTES)
    if duration >= LAMBDA_TIME_LIMIT:
        return f"An estimated {took} is over the time limit of {limit}."
    if data_bytes < LAMBDA_SIZE_LIMIT_BYTES:
        return f"An estimated {took} is under the time limit of {limit}, and {size} is under {size_limit}."
    if _is_sporadic(runs_every):
        return f"An estimated {took} is under the time limit of {limit}, and compaction runs less than once per hour."
    return f"{size} is over {size_limit}, and compaction runs at least once per hour."
