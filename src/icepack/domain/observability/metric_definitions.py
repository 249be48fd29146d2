"""Figures: every metric that icepack shows; what ended jobs add to them is in tallying.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from typing import Any, Protocol

from icepack.domain.actions import ActionKind
from icepack.domain.status import HISTOGRAM_BOUNDS_BYTES


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Ended(StrEnum):
    """How a job ended, in the words of the metrics."""

    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Reason(StrEnum):
    """Why a job failed."""

    CONFLICT = "conflict"
    """Another writer kept winning."""
    REFUSED = "refused"
    """A guard rail or the cost limit said no."""
    ROWS_CHANGED = "rows_changed"
    """The proof did not hold: somebody must look."""
    WORKER_LOST = "worker_lost"
    """Its workers were not heard of again."""
    OTHER = "other"


class CheckResult(StrEnum):
    """What a comparison by value found."""

    EQUAL = "equal"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a metric: its name, and the values of its labels in their order."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What a metric is called, is, and means; its labels have no other values than these."""

    name: str
    kind: MetricKind
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bounds: tuple[float, ...] = ()
    """Of a histogram's buckets, without the last, which has none."""
    always: bool = True
    """Shown as 0 while there is nothing to show; else it is left out until there is."""

    def series(self) -> list[Series]:
        return [Series(self.name, values) for values in product(*self.labels.values())]

    def bucket(self, value: float) -> int:
        """In which bucket a value falls, the smallest first."""
        return next((number for number, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))


_ACTIONS = {"action": tuple(kind.value for kind in ActionKind)}
_ENDS = {"status": tuple(end.value for end in Ended)}
_SECONDS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
_WAITS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
_RATIOS = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


def _counter(name: str, text: str, **more: Any) -> Metric:
    return Metric(name=name, kind=MetricKind.COUNTER, help=text, **more)


def _gauge(name: str, text: str, **more: Any) -> Metric:
    return Metric(name=name, kind=MetricKind.GAUGE, help=text, **more)


def _histogram(name: str, text: str, bounds: tuple[float, ...]) -> Metric:
    return Metric(name=name, kind=MetricKind.HISTOGRAM, help=text, bounds=bounds)


COMPACTIONS = _counter("compaction_jobs_total", "Compaction jobs that have ended.", labels=_ENDS)
DURATION = _histogram(
    "compaction_duration_seconds",
    "How long the last attempt of a compaction job took, whether it succeeded or failed.",
    _SECONDS,
)
FILES = _counter("files_compacted_total", "Data files that compactions replaced.")
BYTES_READ = _counter("bytes_read_total", "Bytes of the data files that compactions replaced.")
BYTES_WRITTEN = _counter("bytes_written_total", "Bytes of the data files that compactions wrote.")
FILE_SIZES = _histogram(
    "file_size_distribution", "Sizes in bytes of the data files that compactions wrote.", HISTOGRAM_BOUNDS_BYTES
)
RATIO = _histogram("compression_ratio", "Bytes read for each byte written, by compaction.", _RATIOS)
PENDING = _gauge("pending_compactions", "Compaction jobs in the queue.")
ACTIVE = _gauge("active_compactions", "Compaction jobs that run.")
LAST = _gauge("last_compaction_timestamp", "When a compaction last succeeded, in seconds since 1970.", always=False)
JOBS = _counter("icepack_jobs_total", "Jobs of every action that have ended.", labels={**_ACTIONS, **_ENDS})
FAILURES = _counter(
    "icepack_job_failures_total",
    "Jobs that failed, by reason.",
    labels={"reason": tuple(reason.value for reason in Reason)},
)
WAITS = _histogram("icepack_job_wait_seconds", "How long jobs were in the queue before their last attempt.", _WAITS)
DEPTH = _gauge(
    "icepack_queue_depth",
    "Jobs in the queue: due, or waiting for their time.",
    labels={**_ACTIONS, "state": ("due", "waiting")},
)
AGE = _gauge("icepack_queue_age_seconds", "How long the oldest job that is due has been in the queue; 0 for none.")
RUNNING = _gauge("icepack_jobs_running", "Jobs that run.", labels=_ACTIONS)
WORKERS = _gauge("icepack_workers", "Workers that hold a job and keep their claim alive.")
IDLE_WORKERS = _gauge("icepack_workers_idle", "Workers that wait for a job.")
LOST_WORKERS = _gauge("icepack_workers_lost", "Workers that hold a job past the end of their lease.")
LOCKS = _gauge("icepack_locks", "Tables that are held.", labels={"holder": ("job", "command")})
LOCK_WAITS = _gauge("icepack_lock_waits", "Tables whose next job is due and waits for who holds the table.")
LOCK_WAIT = _gauge("icepack_lock_wait_seconds", "The longest of those waits so far; 0 for none.")
CACHE_AGE = _gauge("icepack_cache_age_seconds", "How long ago the table cache was refreshed.", always=False)
CACHE_FAILING = _gauge("icepack_cache_refresh_failing", "1 if the last refresh of the table cache failed.")
ESTIMATED_DOLLARS = _counter("icepack_cost_estimated_dollars_total", "What jobs with an estimate should have cost.")
REALISED_DOLLARS = _counter(
    "icepack_cost_realised_dollars_total", "What the same jobs cost: measured seconds, estimated requests."
)
ESTIMATED_SECONDS = _counter("icepack_compute_estimated_seconds_total", "Core-seconds that jobs should have taken.")
REALISED_SECONDS = _counter("icepack_compute_realised_seconds_total", "Core-seconds that the same jobs took.")
VALUE_CHECKS = _counter(
    "icepack_value_checks_total",
    "Groups and commits of compactions whose values were compared with their inputs, by result.",
    labels={"result": tuple(result.value for result in CheckResult)},
)
NATIVE_FAILURES = _counter(
    "icepack_native_failures_total", "Groups whose native rewrite failed, so that Spark's procedure rewrote them."
)
NATIVE_DISABLED = _gauge("icepack_native_disabled_tables", "Tables for which the native rewrite is switched off.")

METRICS = (
    *(COMPACTIONS, DURATION, FILES, BYTES_READ, BYTES_WRITTEN, FILE_SIZES, RATIO, PENDING, ACTIVE, LAST),
    *(JOBS, FAILURES, WAITS, DEPTH, AGE, RUNNING, WORKERS, IDLE_WORKERS, LOST_WORKERS),
    *(LOCKS, LOCK_WAITS, LOCK_WAIT),
    *(CACHE_AGE, CACHE_FAILING, ESTIMATED_DOLLARS, REALISED_DOLLARS, ESTIMATED_SECONDS, REALISED_SECONDS),
    *(VALUE_CHECKS, NATIVE_FAILURES, NATIVE_DISABLED),
)

Figures = Mapping[Series, float]
"""A histogram's are `_bucket` (each bucket's own, by number), `_sum` and `_count` after its name."""


class FiguresPort(Protocol):
    """Reads all figures, cheaply enough to be asked every few seconds."""

    def read(self) -> Figures: ...
