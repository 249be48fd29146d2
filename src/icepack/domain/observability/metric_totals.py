"""Tallying: what an ended job adds to the figures that only grow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from icepack.domain.actions import ActionKind
from icepack.domain.fleet import expected_spending, realised_spending_of
from icepack.domain.job import JobState
from icepack.domain.observability import metric_definitions
from icepack.domain.observability.metric_definitions import CheckResult, Ended, Metric, Reason, Series
from icepack.domain.plan.cost import CostEstimate, CostModel

_ENDS = {JobState.SUCCEEDED: Ended.SUCCESS, JobState.FAILED: Ended.FAILED, JobState.CANCELLED: Ended.CANCELLED}
_REASONS = {
    "CommitConflict": Reason.CONFLICT,
    "CommitStateUnknown": Reason.CONFLICT,
    "Refused": Reason.REFUSED,
    "TableLocked": Reason.REFUSED,
    "RowsChanged": Reason.ROWS_CHANGED,
}

# Kept apart from prices, which may be configured anew: dollars are made of them when they are asked for.
ESTIMATES = Series("estimates")
ESTIMATED_DOLLARS = Series("estimated_dollars")
ESTIMATED_CORE_SECONDS = Series("estimated_core_seconds")
ESTIMATED_GETS = Series("estimated_gets")
ESTIMATED_PUTS = Series("estimated_puts")
RUN_SECONDS = Series("run_seconds_of_estimates")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """What of a job that has ended the figures are made from."""

    kind: ActionKind
    state: JobState
    submitted_at: datetime
    finished_at: datetime
    not_before: datetime | None = None
    started_at: datetime | None = None
    record: Mapping[str, Any] | None = None
    """Of the run that ended it, as JSON; None where no run lived to tell."""
    collapsed: bool = False
    """An equal job did its work."""
    by_hand: bool = False
    """A run that no job asked for: it has waited for nothing."""


@dataclass(slots=True)
class Tally:
    """What is to be added, and what is to be raised to."""

    sums: defaultdict[Series, float] = field(default_factory=lambda: defaultdict(float))
    peaks: dict[Series, float] = field(default_factory=dict)

    def add(self, metric: Metric, value: float = 1.0, *labels: str) -> None:
        self.sums[Series(metric.name, labels)] += value

    def observe(self, metric: Metric, value: float, times: int = 1) -> None:
        self.put(metric, metric.bucket(value), times, value * times)

    def put(self, metric: Metric, bucket: int, times: int, total: float) -> None:
        self.sums[Series(f"{metric.name}_bucket", (str(bucket),))] += times
        self.sums[Series(f"{metric.name}_count")] += times
        self.sums[Series(f"{metric.name}_sum")] += total

    def raise_to(self, metric: Metric, value: float) -> None:
        series = Series(metric.name)
        self.peaks[series] = max(self.peaks.get(series, value), value)


def tally(jobs: Iterable[EndedJob]) -> Tally:
    found = Tally()
    for job in jobs:
        if not job.collapsed:
            _count(found, job)
    return found


def _count(found: Tally, job: EndedJob) -> None:
    end = _ENDS[job.state]
    found.add(metric_definitions.JOBS, 1, job.kind.value, end.value)
    if end is Ended.FAILED:
        found.add(metric_definitions.FAILURES, 1, reason_of(job.record).value)
    if job.started_at is not None and not job.by_hand:
        due_at = max(job.submitted_at, job.not_before or job.submitted_at)
        found.observe(metric_definitions.WAITS, max((job.started_at - due_at).total_seconds(), 0.0))
    if job.kind is ActionKind.COMPACT:
        _count_compaction(found, job, end)
    _count_cost(found, job.record or {})


def reason_of(record: Mapping[str, Any] | None) -> Reason:
    return Reason.WORKER_LOST if record is None else _REASONS.get(record.get("error", ""), Reason.OTHER)


def _count_compaction(found: Tally, job: EndedJob, end: Ended) -> None:
    found.add(metric_definitions.COMPACTIONS, 1, end.value)
    if end is not Ended.CANCELLED and job.started_at is not None:
        found.observe(metric_definitions.DURATION, max((job.finished_at - job.started_at).total_seconds(), 0.0))
    if end is Ended.SUCCESS:
        found.raise_to(metric_definitions.LAST, job.finished_at.timestamp())
    _count_effect(found, (job.record or {}).get("effect") or {})
    _count_checks(found, (job.record or {}).get("value_proof") or {})


def _count_checks(found: Tally, proof: Mapping[str, Any]) -> None:
    equal = proof.get("groups_compared", 0) + proof.get("commits_compared", 0)
    found.add(metric_definitions.VALUE_CHECKS, equal, CheckResult.EQUAL.value)
    found.add(metric_definitions.VALUE_CHECKS, proof.get("mismatch") is not None, CheckResult.DIFFERENT.value)
    found.add(metric_definitions.NATIVE_FAILURES, len(proof.get("failures", ())))


def _count_effect(found: Tally, effect: Mapping[str, Any]) -> None:
    read, written = effect.get("bytes_rewritten", 0), effect.get("bytes_added", 0)
    found.add(metric_definitions.FILES, effect.get("files_rewritten", 0))
    found.add(metric_definitions.BYTES_READ, read)
    found.add(metric_definitions.BYTES_WRITTEN, written)
    if read and written:
        found.observe(metric_definitions.RATIO, read / written)
    for sizes in effect.get("added_sizes", ()):
        found.put(metric_definitions.FILE_SIZES, _size_bucket(sizes["below_bytes"]), sizes["count"], sizes["bytes"])


def _size_bucket(below_bytes: int | None) -> int:
    bounds = metric_definitions.FILE_SIZES.bounds
    return len(bounds) if below_bytes is None else metric_definitions.FILE_SIZES.bucket(below_bytes)


def _count_cost(found: Tally, record: Mapping[str, Any]) -> None:
    """Only jobs with an estimate, so that the two sides can be compared."""
    estimate = record.get("estimate")
    if estimate is not None:
        found.sums[ESTIMATES] += 1
        found.sums[ESTIMATED_DOLLARS] += estimate["dollars"]
        found.sums[ESTIMATED_CORE_SECONDS] += estimate["compute_seconds"]
        found.sums[ESTIMATED_GETS] += estimate["get_requests"]
        found.sums[ESTIMATED_PUTS] += estimate["put_requests"]
        found.sums[RUN_SECONDS] += record.get("realised_seconds", 0.0)


def cost_figures(totals: Mapping[Series, float], model: CostModel) -> dict[Series, float]:
    """What was estimated beside what it came to, at today's prices."""
    estimate = CostEstimate(
        get_requests=int(totals.get(ESTIMATED_GETS, 0)), put_requests=int(totals.get(ESTIMATED_PUTS, 0))
    )
    startup, jobs = expected_spending(CostEstimate(), model), totals.get(ESTIMATES, 0)
    realised = realised_spending_of(totals.get(RUN_SECONDS, 0.0), estimate, model)
    dollars = totals.get(ESTIMATED_DOLLARS, 0.0) + startup.dollars * jobs
    seconds = totals.get(ESTIMATED_CORE_SECONDS, 0.0) + startup.compute_seconds * jobs
    return {
        Series(metric_definitions.ESTIMATED_DOLLARS.name): dollars,
        Series(metric_definitions.REALISED_DOLLARS.name): realised.dollars,
        Series(metric_definitions.ESTIMATED_SECONDS.name): seconds,
        Series(metric_definitions.REALISED_SECONDS.name): realised.compute_seconds,
    }
