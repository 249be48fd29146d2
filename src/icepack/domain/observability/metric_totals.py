"""Counts finished jobs into the metrics that only increase: counters, histograms and the last compaction time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from icepack.domain.actions import ActionKind
from icepack.domain.fleet import compute_spending, estimate_spending
from icepack.domain.job import JobState
from icepack.domain.observability import metric_definitions
from icepack.domain.observability.metric_definitions import CheckResult, FailureReason, JobResult, Metric, Series
from icepack.domain.plan.cost import CostEstimate, CostModel

_JOB_RESULTS = {
    JobState.SUCCEEDED: JobResult.SUCCESS,
    JobState.FAILED: JobResult.FAILED,
    JobState.CANCELLED: JobResult.CANCELLED,
}
_FAILURE_REASONS = {
    "CommitConflict": FailureReason.CONFLICT,
    "CommitStateUnknown": FailureReason.CONFLICT,
    "Refused": FailureReason.REFUSED,
    "TableLocked": FailureReason.REFUSED,
    "RowsChanged": FailureReason.ROWS_CHANGED,
}

# Stored without prices, because those may be reconfigured: dollars are computed from these when the metrics are read.
ESTIMATES = Series("estimates")
ESTIMATED_DOLLARS = Series("estimated_dollars")
ESTIMATED_CORE_SECONDS = Series("estimated_core_seconds")
ESTIMATED_GETS = Series("estimated_gets")
ESTIMATED_PUTS = Series("estimated_puts")
RUN_SECONDS = Series("run_seconds_of_estimates")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """The parts of a finished job that the metrics are computed from."""

    kind: ActionKind
    state: JobState
    submitted_at: datetime
    finished_at: datetime
    not_before: datetime | None = None
    started_at: datetime | None = None
    # The run record, as JSON; None if the worker was lost before it could write one.
    record: Mapping[str, Any] | None = None
    # Whether an equal job did the work instead.
    collapsed: bool = False
    # Whether this was a manual run without a job, which did not wait in the queue.
    by_hand: bool = False


@dataclass(slots=True)
class MetricTotals:
    """What finished jobs add to the stored metrics: sums to add, and maxima to raise them to."""

    sums: defaultdict[Series, float] = field(default_factory=lambda: defaultdict(float))
    maxima: dict[Series, float] = field(default_factory=dict)

    def add(self, metric: Metric, value: float = 1.0, *labels: str) -> None:
        self.sums[Series(metric.name, labels)] += value

    def observe(self, metric: Metric, value: float, times: int = 1) -> None:
        self.add_to_bucket(metric, metric.bucket_index(value), times, value * times)

    def add_to_bucket(self, metric: Metric, bucket: int, times: int, total: float) -> None:
        self.sums[Series(f"{metric.name}_bucket", (str(bucket),))] += times
        self.sums[Series(f"{metric.name}_count")] += times
        self.sums[Series(f"{metric.name}_sum")] += total

    def record_max(self, metric: Metric, value: float) -> None:
        series = Series(metric.name)
        self.maxima[series] = max(self.maxima.get(series, value), value)


def count_ended_jobs(jobs: Iterable[EndedJob]) -> MetricTotals:
    totals = MetricTotals()
    for job in jobs:
        if not job.collapsed:
            _count_job(totals, job)
    return totals


def _count_job(totals: MetricTotals, job: EndedJob) -> None:
    result = _JOB_RESULTS[job.state]
    totals.add(metric_definitions.JOBS, 1, job.kind.value, result.value)
    if result is JobResult.FAILED:
        totals.add(metric_definitions.FAILURES, 1, get_failure_reason(job.record).value)
    if job.started_at is not None and not job.by_hand:
        due_at = max(job.submitted_at, job.not_before or job.submitted_at)
        totals.observe(metric_definitions.WAITS, max((job.started_at - due_at).total_seconds(), 0.0))
    if job.kind is ActionKind.COMPACT:
        _count_compaction(totals, job, result)
    _count_cost(totals, job.record or {})


def get_failure_reason(record: Mapping[str, Any] | None) -> FailureReason:
    if record is None:
        return FailureReason.WORKER_LOST
    return _FAILURE_REASONS.get(record.get("error", ""), FailureReason.OTHER)


def _count_compaction(totals: MetricTotals, job: EndedJob, result: JobResult) -> None:
    totals.add(metric_definitions.COMPACTIONS, 1, result.value)
    if result is not JobResult.CANCELLED and job.started_at is not None:
        totals.observe(metric_definitions.DURATION, max((job.finished_at - job.started_at).total_seconds(), 0.0))
    if result is JobResult.SUCCESS:
        totals.record_max(metric_definitions.LAST, job.finished_at.timestamp())
    _count_effect(totals, (job.record or {}).get("effect") or {})
    _count_checks(totals, (job.record or {}).get("value_proof") or {})


def _count_checks(totals: MetricTotals, proof: Mapping[str, Any]) -> None:
    equal = proof.get("groups_compared", 0) + proof.get("commits_compared", 0)
    totals.add(metric_definitions.VALUE_CHECKS, equal, CheckResult.EQUAL.value)
    totals.add(metric_definitions.VALUE_CHECKS, proof.get("mismatch") is not None, CheckResult.DIFFERENT.value)
    totals.add(metric_definitions.NATIVE_FAILURES, len(proof.get("failures", ())))


def _count_effect(totals: MetricTotals, effect: Mapping[str, Any]) -> None:
    read, written = effect.get("bytes_rewritten", 0), effect.get("bytes_added", 0)
    totals.add(metric_definitions.FILES, effect.get("files_rewritten", 0))
    totals.add(metric_definitions.BYTES_READ, read)
    totals.add(metric_definitions.BYTES_WRITTEN, written)
    if read and written:
        totals.observe(metric_definitions.RATIO, read / written)
    for sizes in effect.get("added_sizes", ()):
        bucket = _find_size_bucket(sizes["below_bytes"])
        totals.add_to_bucket(metric_definitions.FILE_SIZES, bucket, sizes["count"], sizes["bytes"])


def _find_size_bucket(below_bytes: int | None) -> int:
    bounds = metric_definitions.FILE_SIZES.bounds
    return len(bounds) if below_bytes is None else metric_definitions.FILE_SIZES.bucket_index(below_bytes)


def _count_cost(totals: MetricTotals, record: Mapping[str, Any]) -> None:
    """Counts only jobs with an estimate, so that estimated and actual cost can be compared."""
    estimate = record.get("estimate")
    if estimate is not None:
        totals.sums[ESTIMATES] += 1
        totals.sums[ESTIMATED_DOLLARS] += estimate["dollars"]
        totals.sums[ESTIMATED_CORE_SECONDS] += estimate["compute_seconds"]
        totals.sums[ESTIMATED_GETS] += estimate["get_requests"]
        totals.sums[ESTIMATED_PUTS] += estimate["put_requests"]
        totals.sums[RUN_SECONDS] += record.get("realised_seconds", 0.0)


def compute_cost_metrics(totals: Mapping[Series, float], model: CostModel) -> dict[Series, float]:
    """Computes estimated and actual cost at the current prices."""
    estimate = CostEstimate(
        get_requests=int(totals.get(ESTIMATED_GETS, 0)), put_requests=int(totals.get(ESTIMATED_PUTS, 0))
    )
    startup, jobs = estimate_spending(CostEstimate(), model), totals.get(ESTIMATES, 0)
    realised = compute_spending(totals.get(RUN_SECONDS, 0.0), estimate, model)
    dollars = totals.get(ESTIMATED_DOLLARS, 0.0) + startup.dollars * jobs
    seconds = totals.get(ESTIMATED_CORE_SECONDS, 0.0) + startup.compute_seconds * jobs
    return {
        Series(metric_definitions.ESTIMATED_DOLLARS.name): dollars,
        Series(metric_definitions.REALISED_DOLLARS.name): realised.dollars,
        Series(metric_definitions.ESTIMATED_SECONDS.name): seconds,
        Series(metric_definitions.REALISED_SECONDS.name): realised.compute_seconds,
    }
