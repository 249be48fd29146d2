"""The text that Prometheus scrapes has all metrics, with their labels, buckets, help and type."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from icepack.domain.observability.metric_definitions import METRICS, MetricKind, MetricValues, Series
from icepack.metrics import render_exposition


class FixedMetrics:
    def read(self) -> MetricValues:
        return {
            Series("compaction_jobs_total", ("success",)): 142.0,
            Series("compaction_duration_seconds_bucket", ("0",)): 1.0,
            Series("compaction_duration_seconds_bucket", ("4",)): 3.0,
            Series("compaction_duration_seconds_sum"): 150.5,
            Series("icepack_queue_age_seconds"): 12.5,
        }


BODY = render_exposition(FixedMetrics())[0].decode()


def samples(name: str) -> list[Sample]:
    families = text_string_to_metric_families(BODY)
    return [sample for family in families for sample in family.samples if sample.name == name]


def test_the_content_type_is_prometheus_text() -> None:
    assert render_exposition(FixedMetrics())[1] == "text/plain; version=0.0.4; charset=utf-8"


def test_every_metric_has_its_help_and_type() -> None:
    lines = BODY.splitlines()
    assert [line for line in lines if line.startswith("# HELP")] == [f"# HELP {it.name} {it.help}" for it in METRICS]
    assert [line for line in lines if line.startswith("# TYPE")] == [f"# TYPE {it.name} {it.kind}" for it in METRICS]


def test_every_combination_of_labels_has_a_sample_unless_it_is_hidden_while_empty() -> None:
    for metric in METRICS:
        if metric.kind is MetricKind.HISTOGRAM:
            continue
        found = [tuple(sample.labels[label] for label in metric.labels) for sample in samples(metric.name)]
        assert found == ([series.values for series in metric.series()] if metric.is_always_shown else []), metric.name


def test_values_are_those_of_the_source() -> None:
    assert {sample.labels["status"]: sample.value for sample in samples("compaction_jobs_total")} == {
        "success": 142,
        "failed": 0,
        "cancelled": 0,
    }
    assert [sample.value for sample in samples("icepack_queue_age_seconds")] == [12.5]


def test_histograms_have_cumulative_buckets_with_plain_bounds() -> None:
    buckets = {sample.labels["le"]: sample.value for sample in samples("compaction_duration_seconds_bucket")}
    assert list(buckets) == ["1", "5", "15", "30", "60", "120", "300", "600", "1800", "3600", "7200", "+Inf"]
    assert (buckets["1"], buckets["30"], buckets["60"], buckets["+Inf"]) == (1, 1, 4, 4)
    assert [sample.value for sample in samples("compaction_duration_seconds_count")] == [4]
    assert [sample.value for sample in samples("compaction_duration_seconds_sum")] == [150.5]
    assert 'compression_ratio_bucket{le="0.75"}' in BODY
    assert 'file_size_distribution_bucket{le="1048576"}' in BODY
