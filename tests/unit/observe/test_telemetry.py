"""Spans and metrics reach an OpenTelemetry collector, and icepack works without one."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from opentelemetry.trace.status import StatusCode

from icepack.domain.observability.metric_definitions import METRICS, MetricKind, MetricValues, Series
from icepack.domain.observability.trace import Span, TraceContext
from icepack.errors import ConfigError
from icepack.telemetry import open_metric_export, open_span_export
from icepack.telemetry.exporters import export_interval, is_enabled
from icepack.telemetry.spans import SpanExport
from icepack.tracing import Tracer

from .collector import Collector, run_collector

AT = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
CONTEXT = TraceContext(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7")
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
WITHOUT_OPENTELEMETRY = """
import sys
sys.modules["opentelemetry"] = None
from icepack.cli.main import cli, run_command
from icepack.telemetry import open_span_export
print(open_span_export({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://nowhere"}))
sys.exit(run_command(cli, ["metrics"], prog_name="icepack"))
"""


class FixedMetrics:
    """Metric values that do not change."""

    def __init__(self, values: MetricValues) -> None:
        self._values = values

    def read(self) -> MetricValues:
        return self._values


METRICS_SOURCE = FixedMetrics(
    {
        Series("compaction_jobs_total", ("success",)): 142.0,
        Series("compaction_duration_seconds_bucket", ("4",)): 3.0,
        Series("compaction_duration_seconds_sum"): 150.5,
        Series("icepack_queue_age_seconds"): 12.5,
    }
)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with run_collector() as found:
        monkeypatch.setenv(ENDPOINT, found.url)
        monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
        yield found


def test_a_span_is_converted_to_an_opentelemetry_span() -> None:
    memory = InMemorySpanExporter()
    export = SpanExport(memory, SimpleSpanProcessor(memory))
    Tracer(export).end(Tracer().start("submit"))
    export(
        Span(
            name="run",
            context=CONTEXT,
            parent_id="1" * 16,
            started_at=AT,
            ended_at=AT + timedelta(seconds=2),
            attributes={"icepack.attempt": 2},
            failure="It broke.",
        )
    )
    first, second = memory.get_finished_spans()
    assert first.context is not None
    assert second.context is not None
    assert second.parent is not None
    assert (first.kind, first.parent, first.status.status_code) == (SpanKind.PRODUCER, None, StatusCode.OK)
    assert second.kind is SpanKind.CONSUMER
    assert second.context.trace_id == int(CONTEXT.trace_id, 16)
    assert (second.context.span_id, second.parent.span_id) == (int(CONTEXT.span_id, 16), int("1" * 16, 16))
    assert (second.start_time or 0) % 1_000_000_000 == 123_456_000
    assert (second.end_time or 0) - (second.start_time or 0) == 2_000_000_000
    assert (second.status.status_code, second.status.description) == (StatusCode.ERROR, "It broke.")
    assert dict(second.attributes or {}) == {"icepack.attempt": 2}


def test_spans_arrive_at_a_collector_before_the_process_ends(collector: Collector) -> None:
    export = open_span_export({ENDPOINT: collector.url})
    assert export is not None
    with Tracer(export).span("run", CONTEXT) as run:
        pass
    export.close()
    (span,) = collector.spans()
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("run", CONTEXT.trace_id, CONTEXT.span_id)
    assert span.span_id.hex() == run.context.span_id
    resource = {
        pair.key: pair.value.string_value for pair in collector.received[0].resource_spans[0].resource.attributes
    }
    assert resource["service.name"] == "icepack"


def test_metrics_arrive_at_a_collector(collector: Collector) -> None:
    export = open_metric_export({ENDPOINT: collector.url}, METRICS_SOURCE)
    assert export is not None
    with export:
        assert export.push()
    found = collector.metrics()
    assert {name for name, metric in found.items() if metric.WhichOneof("data") == "histogram"} == {
        metric.name for metric in METRICS if metric.kind is MetricKind.HISTOGRAM
    }
    jobs = {point.attributes[0].value.string_value: point for point in found["compaction_jobs_total"].sum.data_points}
    assert jobs["success"].as_double == 142
    assert jobs["failed"].as_double == 0
    assert found["compaction_jobs_total"].sum.is_monotonic
    assert found["icepack_queue_age_seconds"].gauge.data_points[0].as_double == 12.5
    (duration,) = found["compaction_duration_seconds"].histogram.data_points
    assert (duration.count, duration.sum, duration.bucket_counts[4]) == (3, 150.5, 3)
    assert len(duration.bucket_counts) == len(duration.explicit_bounds) + 1
    assert not duration.HasField("min")
    assert "last_compaction_timestamp" not in found


def test_the_last_values_are_pushed_on_exit(collector: Collector) -> None:
    export = open_metric_export({ENDPOINT: collector.url, "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}, METRICS_SOURCE)
    assert export is not None
    with export:
        assert collector.received == []
    assert len(collector.received) == 1


def test_an_unreadable_source_is_logged_and_not_raised(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    class UnavailableMetrics:
        def read(self) -> MetricValues:
            raise RuntimeError("the database is away")

    export = open_metric_export({ENDPOINT: collector.url}, UnavailableMetrics())
    assert export is not None
    with caplog.at_level(logging.WARNING):
        assert not export.push()
    assert "the database is away" in caplog.text


@pytest.mark.parametrize(
    ("environ", "enabled"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}, False),
        ({ENDPOINT: "http://c", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({ENDPOINT: "http://c", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_opentelemetrys_own_variables_enable_the_export(environ: dict[str, str], enabled: bool) -> None:
    assert is_enabled(environ, "TRACES") is enabled
    if not enabled:
        assert open_span_export(environ) is None


def test_the_interval_is_in_milliseconds() -> None:
    assert export_interval({}) == timedelta(minutes=1)
    assert export_interval({"OTEL_METRIC_EXPORT_INTERVAL": "1500"}) == timedelta(seconds=1.5)
    with pytest.raises(ConfigError, match="milliseconds"):
        export_interval({"OTEL_METRIC_EXPORT_INTERVAL": "soon"})


def test_icepack_runs_where_opentelemetry_is_not_installed(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "ICEPACK_STATE__URL": f"sqlite:///{tmp_path}/state.db",
        ENDPOINT: "http://nowhere",
    }
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPENTELEMETRY], env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("None\n# HELP compaction_jobs_total")
    assert "pip install 'icepack[otel]'" in ran.stderr
