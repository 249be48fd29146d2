"""Renders the metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import assert_never

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.registry import Collector

from icepack.domain.observability.metric_definitions import (
    METRICS,
    Metric,
    MetricKind,
    MetricsSource,
    MetricValues,
    Series,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsCollector(Collector):
    """Collects the values of a metrics source."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source

    def collect(self) -> Iterable[MetricFamily]:
        values = self._source.read()
        return [_build_family(metric, values) for metric in METRICS]


def render_exposition(source: MetricsSource) -> tuple[bytes, str]:
    """Returns the body of a scrape and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector(source))
    return generate_latest(registry), CONTENT_TYPE


def _build_family(metric: Metric, values: MetricValues) -> MetricFamily:
    family: CounterMetricFamily | GaugeMetricFamily
    match metric.kind:
        case MetricKind.HISTOGRAM:
            buckets = _cumulative_buckets(metric, values)
            return HistogramMetricFamily(metric.name, metric.help, buckets, histogram_sum(metric, values))
        case MetricKind.COUNTER:
            family = CounterMetricFamily(metric.name, metric.help, labels=list(metric.labels))
        case MetricKind.GAUGE:
            family = GaugeMetricFamily(metric.name, metric.help, labels=list(metric.labels))
        case _:
            assert_never(metric.kind)
    for labels, value in metric_samples(metric, values):
        family.add_metric(list(labels.values()), value)
    return family


def metric_samples(metric: Metric, values: MetricValues) -> Iterator[tuple[dict[str, str], float]]:
    """Yields the labels and value of each sample of a counter or gauge."""
    for series in metric.series():
        if metric.is_always_shown or series in values:
            yield dict(zip(metric.labels, series.values, strict=True)), values.get(series, 0.0)


def bucket_counts(metric: Metric, values: MetricValues) -> list[int]:
    """Returns the number of observations in each bucket of a histogram, not cumulative."""
    indexes = range(len(metric.bounds) + 1)
    return [int(values.get(Series(f"{metric.name}_bucket", (str(index),)), 0)) for index in indexes]


def histogram_sum(metric: Metric, values: MetricValues) -> float:
    """Returns the sum of all observations of a histogram."""
    return values.get(Series(f"{metric.name}_sum"), 0.0)


def _cumulative_buckets(metric: Metric, values: MetricValues) -> list[tuple[str, float]]:
    bounds = [*map(_format_bound, metric.bounds), "+Inf"]
    return list(zip(bounds, accumulate(bucket_counts(metric, values)), strict=True))


def _format_bound(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else repr(float(bound))
