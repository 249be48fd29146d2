"""What a finished job adds to the metrics depends on that job alone, not on others counted with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.actions import ActionKind
from icepack.domain.job import JobState
from icepack.domain.observability import metric_definitions
from icepack.domain.observability.metric_definitions import METRICS, JobResult, MetricKind, Series
from icepack.domain.observability.metric_totals import EndedJob, compute_cost_metrics, count_ended_jobs
from icepack.domain.plan.cost import CostModel

START = datetime(2026, 1, 1, tzinfo=UTC)
FINAL = [state for state in JobState if state.is_final]

records = st.none() | st.fixed_dictionaries(
    {
        "effect": st.fixed_dictionaries(
            {
                "files_rewritten": st.integers(0, 10**6),
                "bytes_rewritten": st.integers(0, 10**12),
                "bytes_added": st.integers(0, 10**12),
            }
        ),
        "error": st.sampled_from(["", "RowsChanged", "CommitConflict", "Anything"]),
        "realised_seconds": st.integers(0, 10**5),
    }
)


@st.composite
def ended_jobs(draw: st.DrawFn) -> EndedJob:
    seconds = st.integers(0, 10**6)
    started_at = START + timedelta(seconds=draw(seconds))
    return EndedJob(
        kind=draw(st.sampled_from(ActionKind)),
        state=draw(st.sampled_from(FINAL)),
        submitted_at=START,
        started_at=draw(st.sampled_from([None, started_at])),
        finished_at=started_at + timedelta(seconds=draw(seconds)),
        record=draw(records),
        collapsed=draw(st.booleans()),
    )


def _job(**facts: Any) -> EndedJob:
    plain = {"kind": ActionKind.COMPACT, "state": JobState.SUCCEEDED, "submitted_at": START, "finished_at": START}
    return EndedJob(**{**plain, **facts})


@given(st.lists(ended_jobs()), st.lists(ended_jobs()))
def test_counting_jobs_together_equals_counting_them_apart(some: list[EndedJob], others: list[EndedJob]) -> None:
    together, one, two = count_ended_jobs([*some, *others]), count_ended_jobs(some), count_ended_jobs(others)
    assert {series: one.sums[series] + two.sums[series] for series in together.sums} == pytest.approx(together.sums)
    peaks = {series: max(one.maxima.get(series, 0), two.maxima.get(series, 0)) for series in together.maxima}
    assert together.maxima == peaks


@given(st.lists(ended_jobs()))
def test_every_job_that_did_not_collapse_is_counted_once(jobs: list[EndedJob]) -> None:
    found = count_ended_jobs(jobs).sums
    ends = sum(value for series, value in found.items() if series.name == metric_definitions.JOBS.name)
    failures = sum(value for series, value in found.items() if series.name == metric_definitions.FAILURES.name)
    assert ends == sum(not job.collapsed for job in jobs)
    assert failures == sum(job.state is JobState.FAILED and not job.collapsed for job in jobs)


@given(st.lists(ended_jobs()))
def test_a_histogram_s_buckets_add_up_to_its_count(jobs: list[EndedJob]) -> None:
    found = count_ended_jobs(jobs).sums
    for metric in METRICS:
        if metric.kind is MetricKind.HISTOGRAM:
            buckets = [value for series, value in found.items() if series.name == f"{metric.name}_bucket"]
            assert sum(buckets) == found.get(Series(f"{metric.name}_count"), 0)


@given(st.lists(ended_jobs()))
def test_only_declared_series_are_counted(jobs: list[EndedJob]) -> None:
    declared = {series for metric in METRICS for series in metric.series()}
    parts = ("_bucket", "_sum", "_count")
    found = {series for series in count_ended_jobs(jobs).sums if not series.name.endswith(parts)}
    assert found <= declared


def test_a_value_on_a_bound_is_within_it() -> None:
    metric = metric_definitions.DURATION
    assert [metric.bucket_index(value) for value in (0.0, 1.0, 1.5, 7200.0, 7201.0)] == [0, 0, 1, 10, 11]


def test_sizes_beyond_every_bound_are_in_the_last_bucket() -> None:
    sizes = [{"below_bytes": None, "count": 2, "bytes": 5 * 2**30}, {"below_bytes": 2**20, "count": 1, "bytes": 9}]
    found = count_ended_jobs([_job(record={"effect": {"added_sizes": sizes}})]).sums
    last = str(len(metric_definitions.FILE_SIZES.bounds))
    assert found[Series("file_size_distribution_bucket", (last,))] == 2
    assert found[Series("file_size_distribution_bucket", ("0",))] == 1
    assert found[Series("file_size_distribution_sum")] == 5 * 2**30 + 9


def test_without_estimates_neither_side_costs_anything() -> None:
    found = count_ended_jobs([_job(record={"realised_seconds": 50.0})])
    assert set(compute_cost_metrics(found.sums, CostModel()).values()) == {0.0}


def test_every_metric_says_what_it_is_and_every_label_is_closed() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert all(metric.help.endswith(".") and "\n" not in metric.help for metric in METRICS)
    assert all(values for metric in METRICS for values in metric.labels.values())
    assert metric_definitions.COMPACTIONS.labels["status"] == tuple(end.value for end in JobResult)
