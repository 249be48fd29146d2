"""What icepack knows arrives at a collector, and nothing else depends on there being one."""

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

from icepack.domain.observability.metric_definitions import METRICS, Figures, MetricKind, Series
from icepack.domain.observability.trace import Span, TraceContext
from icepack.errors import ConfigError
from icepack.telemetry import open_figure_export, open_span_export
from icepack.telemetry.exporters import interval, is_wanted
from icepack.telemetry.spans import SpanExport
from icepack.tracing import Tracer

from .collector import Collector, collecting

AT = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
CONTEXT = TraceContext(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7")
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from icepack.cli.main import cli, run_command
from icepack.telemetry import open_span_export
print(open_span_export({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://nowhere"}))
sys.exit(run_command(cli, ["metrics"], prog_name="icepack"))
"""


class Known:
    """Figures that do not change."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def read(self) -> Figures:
        return self._figures


FIGURES = Known(
    {
        Series("compaction_jobs_total", ("success",)): 142.0,
        Series("compaction_duration_seconds_bucket", ("4",)): 3.0,
        Series("compaction_duration_seconds_sum"): 150.5,
        Series("icepack_queue_age_seconds"): 12.5,
    }
)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv(ENDPOINT, found.url)
        monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
        yield found


def test_a_span_becomes_opentelemetry_s() -> None:
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


def test_figures_arrive_at_a_collector(collector: Collector) -> None:
    export = open_figure_export({ENDPOINT: collector.url}, FIGURES)
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


def test_the_last_figures_are_pushed_at_the_end(collector: Collector) -> None:
    export = open_figure_export({ENDPOINT: collector.url, "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}, FIGURES)
    assert export is not None
    with export:
        assert collector.received == []
    assert len(collector.received) == 1


def test_figures_that_cannot_be_read_do_no_harm(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    class Away:
        def read(self) -> Figures:
            raise RuntimeError("the database is away")

    export = open_figure_export({ENDPOINT: collector.url}, Away())
    assert export is not None
    with caplog.at_level(logging.WARNING):
        assert not export.push()
    assert "the database is away" in caplog.text


@pytest.mark.parametrize(
    ("environ", "wanted"),
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
def test_opentelemetry_s_own_variables_decide(environ: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environ, "TRACES") is wanted
    if not wanted:
        assert open_span_export(environ) is None


def test_the_interval_is_in_milliseconds() -> None:
    assert interval({}) == timedelta(minutes=1)
    assert interval({"OTEL_METRIC_EXPORT_INTERVAL": "1500"}) == timedelta(seconds=1.5)
    with pytest.raises(ConfigError, match="milliseconds"):
        interval({"OTEL_METRIC_EXPORT_INTERVAL": "soon"})


def test_icepack_runs_where_opentelemetry_is_not_installed(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "ICEPACK_STATE__URL": f"sqlite:///{tmp_path}/state.db",
        ENDPOINT: "http://nowhere",
    }
    ran = subprocess.run([sys.executable, "-c", WITHOUT], env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("None\n# HELP compaction_jobs_total")
    assert "pip install 'icepack[otel]'" in ran.stderr
