"""Exports icepack's spans with OpenTelemetry's SDK."""

from __future__ import annotations

from datetime import datetime

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from icepack.domain.observability.trace import Span
from icepack.telemetry.resource import SCOPE, create_resource

_KINDS = {"submit": SpanKind.PRODUCER, "run": SpanKind.CONSUMER}


def create_otlp_exporter() -> SpanExporter:
    """Creates an exporter that OpenTelemetry's variables configure."""
    return OTLPSpanExporter()


class SpanExport:
    """A span sink that exports in batches in the background; `close` flushes the last batch."""

    def __init__(self, exporter: SpanExporter, processor: SpanProcessor | None = None) -> None:
        self._resource = create_resource()
        self._processor = processor or BatchSpanProcessor(exporter)

    def __call__(self, span: Span) -> None:
        self._processor.on_end(to_otel_span(span, self._resource))

    def close(self) -> None:
        self._processor.shutdown()


def to_otel_span(span: Span, resource: Resource) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_to_otel_context(span.context.trace_id, span.context.span_id, is_remote=False),
        parent=_to_otel_context(span.context.trace_id, span.parent_id, is_remote=True) if span.parent_id else None,
        resource=resource,
        attributes=dict(span.attributes),
        kind=_KINDS.get(span.name, SpanKind.INTERNAL),
        status=Status(StatusCode.ERROR, span.failure) if span.failure else Status(StatusCode.OK),
        start_time=_to_nanoseconds(span.started_at),
        end_time=_to_nanoseconds(span.ended_at),
        instrumentation_scope=SCOPE,
    )


def _to_otel_context(trace_id: str, span_id: str, *, is_remote: bool) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=is_remote, trace_flags=TraceFlags(1))


def _to_nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000
