"""Definitions of all metrics; metric_totals.py counts finished jobs into those that only increase."""

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


class JobResult(StrEnum):
    """The value of the `status` label: how a job ended."""

    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


class FailureReason(StrEnum):
    """The value of the `reason` label: why a job failed."""

    # Commits of other writers conflicted with the job until its attempts were used up.
    CONFLICT = "conflict"
    # A safety check or the cost limit refused the job.
    REFUSED = "refused"
    # The verification found changed rows, which needs an investigation.
    ROWS_CHANGED = "rows_changed"
    # The job's workers stopped responding.
    WORKER_LOST = "worker_lost"
    OTHER = "other"


class CheckResult(StrEnum):
    """The value of the `result` label: what a comparison by value found."""

    EQUAL = "equal"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Series:
    """One time series of a metric: its name and the values of its labels, in order."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The definition of a metric; its labels have no other values than those listed."""

    name: str
    kind: MetricKind
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The upper bounds of a histogram's buckets, without the last bucket, which has none.
    bounds: tuple[float, ...] = ()
    # Whether the metric is shown as 0 before it has a value; otherwise it is omitted until then.
    is_always_shown: bool = True

    def series(self) -> list[Series]:
        return [Series(self.name, values) for values in product(*self.labels.values())]

    def bucket_index(self, value: float) -> int:
        """Returns the index of the bucket that a value belongs to."""
        return next((index for index, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))


_ACTIONS = {"action": tuple(kind.value for kind in ActionKind)}
_JOB_RESULTS = {"status": tuple(result.value for result in JobResult)}
_SECONDS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
_WAITS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
_RATIOS = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


def _counter(name: str, text: str, **more: Any) -> Metric:
    return Metric(name=name, kind=MetricKind.COUNTER, help=text, **more)


def _gauge(name: str, text: str, **more: Any) -> Metric:
    return Metric(name=name, kind=MetricKind.GAUGE, help=text, **more)


def _histogram(name: str, text: str, bounds: tuple[float, ...]) -> Metric:
    return Metric(name=name, kind=MetricKind.HISTOGRAM, help=text, bounds=bounds)


COMPACTIONS = _counter("compaction_jobs_total", "Finished compaction jobs, by status.", labels=_JOB_RESULTS)
DURATION = _histogram(
    "compaction_duration_seconds",
    "Duration of the last attempt of finished compaction jobs, successful or failed.",
    _SECONDS,
)
FILES = _counter("files_compacted_total", "Data files replaced by compactions.")
BYTES_READ = _counter("bytes_read_total", "Bytes of the data files replaced by compactions.")
BYTES_WRITTEN = _counter("bytes_written_total", "Bytes of the data files written by compactions.")
FILE_SIZES = _histogram(
    "file_size_distribution", "Sizes in bytes of the data files written by compactions.", HISTOGRAM_BOUNDS_BYTES
)
RATIO = _histogram("compression_ratio", "Bytes read per byte written, per compaction.", _RATIOS)
PENDING = _gauge("pending_compactions", "Queued compaction jobs.")
ACTIVE = _gauge("active_compactions", "Running compaction jobs.")
LAST = _gauge(
    "last_compaction_timestamp",
    "Time of the last successful compaction, in seconds since 1970.",
    is_always_shown=False,
)
JOBS = _counter("icepack_jobs_total", "Finished jobs, by action and status.", labels={**_ACTIONS, **_JOB_RESULTS})
FAILURES = _counter(
    "icepack_job_failures_total",
    "Failed jobs, by reason.",
    labels={"reason": tuple(reason.value for reason in FailureReason)},
)
WAITS = _histogram("icepack_job_wait_seconds", "Time that jobs were queued before their last attempt.", _WAITS)
DEPTH = _gauge(
    "icepack_queue_depth",
    "Queued jobs that are due, or waiting for their time.",
    labels={**_ACTIONS, "state": ("due", "waiting")},
)
AGE = _gauge("icepack_queue_age_seconds", "Time that the oldest due job has been queued; 0 if there is none.")
RUNNING = _gauge("icepack_jobs_running", "Running jobs.", labels=_ACTIONS)
WORKERS = _gauge("icepack_workers", "Workers that run a job and renew their claim.")
IDLE_WORKERS = _gauge("icepack_workers_idle", "Workers that wait for a job.")
LOST_WORKERS = _gauge("icepack_workers_lost", "Workers that hold a job past the end of their lease.")
LOCKS = _gauge("icepack_locks", "Locked tables.", labels={"holder": ("job", "command")})
LOCK_WAITS = _gauge("icepack_lock_waits", "Tables whose next job is due and waits for the table lock.")
LOCK_WAIT = _gauge("icepack_lock_wait_seconds", "Longest current wait for a table lock; 0 if there is none.")
CACHE_AGE = _gauge("icepack_cache_age_seconds", "Time since the table cache was refreshed.", is_always_shown=False)
CACHE_FAILING = _gauge("icepack_cache_refresh_failing", "1 if the last refresh of the table cache failed, otherwise 0.")
ESTIMATED_DOLLARS = _counter(
    "icepack_cost_estimated_dollars_total", "Estimated cost of finished jobs that have an estimate."
)
REALISED_DOLLARS = _counter(
    "icepack_cost_realised_dollars_total", "Actual cost of the same jobs, from measured seconds and estimated requests."
)
ESTIMATED_SECONDS = _counter("icepack_compute_estimated_seconds_total", "Estimated core-seconds of finished jobs.")
REALISED_SECONDS = _counter("icepack_compute_realised_seconds_total", "Actual core-seconds of the same jobs.")
VALUE_CHECKS = _counter(
    "icepack_value_checks_total",
    "Rewritten groups and commits whose values were compared with their inputs, by result.",
    labels={"result": tuple(result.value for result in CheckResult)},
)
NATIVE_FAILURES = _counter(
    "icepack_native_failures_total", "Groups whose native rewrite failed and that Spark's procedure rewrote instead."
)
NATIVE_DISABLED = _gauge("icepack_native_disabled_tables", "Tables with the native rewrite disabled.")

METRICS = (
    *(COMPACTIONS, DURATION, FILES, BYTES_READ, BYTES_WRITTEN, FILE_SIZES, RATIO, PENDING, ACTIVE, LAST),
    *(JOBS, FAILURES, WAITS, DEPTH, AGE, RUNNING, WORKERS, IDLE_WORKERS, LOST_WORKERS),
    *(LOCKS, LOCK_WAITS, LOCK_WAIT),
    *(CACHE_AGE, CACHE_FAILING, ESTIMATED_DOLLARS, REALISED_DOLLARS, ESTIMATED_SECONDS, REALISED_SECONDS),
    *(VALUE_CHECKS, NATIVE_FAILURES, NATIVE_DISABLED),
)

# The current values of all metrics. A histogram has the suffixes `_bucket` (not cumulative, by index), `_sum` and
# `_count`.
MetricValues = Mapping[Series, float]


class MetricsSource(Protocol):
    """Reads the values of all metrics, cheaply enough to be called every few seconds."""

    def read(self) -> MetricValues: ...
