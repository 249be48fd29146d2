"""icepack's spans as OpenTelemetry's."""

from __future__ import annotations

from datetime import datetime

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from icepack.domain.observability.trace import Span
from icepack.telemetry.resource import SCOPE, resource

_KINDS = {"submit": SpanKind.PRODUCER, "run": SpanKind.CONSUMER}


def otlp_exporter() -> SpanExporter:
    """Where OpenTelemetry's variables say."""
    return OTLPSpanExporter()


class SpanExport:
    """Hands spans to an exporter in the background; `close` waits until the last has gone."""

    def __init__(self, exporter: SpanExporter, processor: SpanProcessor | None = None) -> None:
        self._resource = resource()
        self._processor = processor or BatchSpanProcessor(exporter)

    def __call__(self, span: Span) -> None:
        self._processor.on_end(to_otel(span, self._resource))

    def close(self) -> None:
        self._processor.shutdown()


def to_otel(span: Span, source: Resource) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_context(span.context.trace_id, span.context.span_id, remote=False),
        parent=_context(span.context.trace_id, span.parent_id, remote=True) if span.parent_id else None,
        resource=source,
        attributes=dict(span.attributes),
        kind=_KINDS.get(span.name, SpanKind.INTERNAL),
        status=Status(StatusCode.ERROR, span.failure) if span.failure else Status(StatusCode.OK),
        start_time=_nanoseconds(span.started_at),
        end_time=_nanoseconds(span.ended_at),
        instrumentation_scope=SCOPE,
    )


def _context(trace_id: str, span_id: str, *, remote: bool) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=remote, trace_flags=TraceFlags(1))


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000
