"""Pushes the metrics to an OpenTelemetry collector at an interval.

The values are totals from the state database, histograms included. The SDK's instruments only aggregate what the
process itself observes and have no observable histogram, so the data points are built here and handed to the SDK's
exporter.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from datetime import timedelta
from threading import Event, Thread
from types import TracebackType
from typing import Any, assert_never

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtelMetric

from icepack.domain.observability.metric_definitions import METRICS, Metric, MetricKind, MetricsSource, MetricValues
from icepack.metrics import bucket_counts, histogram_sum, metric_samples
from icepack.telemetry.resource import SCOPE, create_resource

log = logging.getLogger(__name__)

_CUMULATIVE = AggregationTemporality.CUMULATIVE
# The totals are older than this process; 0 is the protocol's value for an unknown start time.
_UNKNOWN_START = 0


def create_otlp_exporter() -> MetricExporter:
    """Creates an exporter that OpenTelemetry's variables configure."""
    return OTLPMetricExporter()


class MetricExport(AbstractContextManager["MetricExport"]):
    """Pushes at an interval and once more on exit; a push that fails is repeated at the next interval."""

    def __init__(self, exporter: MetricExporter, source: MetricsSource, *, interval: timedelta) -> None:
        self._exporter = exporter
        self._source = source
        self._interval = interval
        self._stop = Event()
        self._thread = Thread(target=self._push_until_stopped, name="icepack-metrics", daemon=True)

    def __enter__(self) -> MetricExport:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._exporter.shutdown()

    def push(self) -> bool:
        """Pushes the current values; returns whether the collector accepted them."""
        try:
            result = self._exporter.export(build_metrics_data(self._source.read(), time.time_ns()))
        except Exception as exc:
            log.warning("metrics were not exported: %s", exc)
            return False
        return result is MetricExportResult.SUCCESS

    def _push_until_stopped(self) -> None:
        while not self._stop.wait(self._interval.total_seconds()):
            self.push()
        self.push()


def build_metrics_data(values: MetricValues, now_ns: int) -> MetricsData:
    metrics = [
        OtelMetric(metric.name, metric.help, "", data)
        for metric in METRICS
        if (data := _build_data(metric, values, now_ns)).data_points
    ]
    scope = ScopeMetrics(scope=SCOPE, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=create_resource(), scope_metrics=[scope], schema_url="")])


def _build_data(metric: Metric, values: MetricValues, now_ns: int) -> Sum | Gauge | Histogram:
    match metric.kind:
        case MetricKind.COUNTER:
            return Sum(_build_points(metric, values, now_ns), _CUMULATIVE, is_monotonic=True)
        case MetricKind.GAUGE:
            return Gauge(_build_points(metric, values, now_ns))
        case MetricKind.HISTOGRAM:
            return Histogram([_build_histogram_point(metric, values, now_ns)], _CUMULATIVE)
        case _:
            assert_never(metric.kind)


def _build_points(metric: Metric, values: MetricValues, now_ns: int) -> list[NumberDataPoint]:
    samples = metric_samples(metric, values)
    return [NumberDataPoint(labels, _UNKNOWN_START, now_ns, value) for labels, value in samples]


def _build_histogram_point(metric: Metric, values: MetricValues, now_ns: int) -> HistogramDataPoint:
    counts = bucket_counts(metric, values)
    # The minimum and maximum are not stored; the protocol allows leaving them out.
    unknown: Any = None
    return HistogramDataPoint(
        attributes={},
        start_time_unix_nano=_UNKNOWN_START,
        time_unix_nano=now_ns,
        count=sum(counts),
        sum=histogram_sum(metric, values),
        bucket_counts=counts,
        explicit_bounds=metric.bounds,
        min=unknown,
        max=unknown,
    )
