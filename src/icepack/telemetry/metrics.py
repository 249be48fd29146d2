"""icepack's figures as OpenTelemetry's metrics, histograms and all, pushed at an interval."""

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

from icepack.domain.observability.metric_definitions import METRICS, Figures, FiguresPort, Metric, MetricKind
from icepack.metrics import buckets, shown, total
from icepack.telemetry.resource import SCOPE, resource

log = logging.getLogger(__name__)

_CUMULATIVE = AggregationTemporality.CUMULATIVE
_SINCE_EVER = 0
"""The totals are older than this process; the protocol's word for an unknown start is 0."""


def otlp_exporter() -> MetricExporter:
    """Where OpenTelemetry's variables say."""
    return OTLPMetricExporter()


class FigureExport(AbstractContextManager["FigureExport"]):
    """Pushes at an interval and once more at the end; a collector that is away is told the next time."""

    def __init__(self, exporter: MetricExporter, port: FiguresPort, *, every: timedelta) -> None:
        self._exporter = exporter
        self._port = port
        self._every = every
        self._stop = Event()
        self._thread = Thread(target=self._push_on, name="icepack-figures", daemon=True)

    def __enter__(self) -> FigureExport:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._exporter.shutdown()

    def push(self) -> bool:
        """Whether the collector took them."""
        try:
            result = self._exporter.export(metrics_data(self._port.read(), time.time_ns()))
        except Exception as exc:
            log.warning("the figures were not exported: %s", exc)
            return False
        return result is MetricExportResult.SUCCESS

    def _push_on(self) -> None:
        while not self._stop.wait(self._every.total_seconds()):
            self.push()
        self.push()


def metrics_data(figures: Figures, now: int) -> MetricsData:
    """All of them at one moment, which is given in nanoseconds."""
    metrics = [
        OtelMetric(metric.name, metric.help, "", data)
        for metric in METRICS
        if (data := _data(metric, figures, now)).data_points
    ]
    scope = ScopeMetrics(scope=SCOPE, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource(), scope_metrics=[scope], schema_url="")])


def _data(metric: Metric, figures: Figures, now: int) -> Sum | Gauge | Histogram:
    match metric.kind:
        case MetricKind.COUNTER:
            return Sum(_points(metric, figures, now), _CUMULATIVE, is_monotonic=True)
        case MetricKind.GAUGE:
            return Gauge(_points(metric, figures, now))
        case MetricKind.HISTOGRAM:
            return Histogram([_histogram_point(metric, figures, now)], _CUMULATIVE)
        case _:
            assert_never(metric.kind)


def _points(metric: Metric, figures: Figures, now: int) -> list[NumberDataPoint]:
    return [NumberDataPoint(labels, _SINCE_EVER, now, value) for labels, value in shown(metric, figures)]


def _histogram_point(metric: Metric, figures: Figures, now: int) -> HistogramDataPoint:
    counts = buckets(metric, figures)
    # The smallest and the largest value are not kept, and the protocol lets one leave them out.
    unknown: Any = None
    return HistogramDataPoint(
        attributes={},
        start_time_unix_nano=_SINCE_EVER,
        time_unix_nano=now,
        count=sum(counts),
        sum=total(metric, figures),
        bucket_counts=counts,
        explicit_bounds=metric.bounds,
        min=unknown,
        max=unknown,
    )
