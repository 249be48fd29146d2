"""Tracing: spans from submission to commit, and the job, table and trace that log lines belong to.

Spans are created with or without a collector, because job events and log lines contain them; see
docs/decisions/0016-spans-without-the-sdk.md.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import datetime
from threading import Lock
from types import MappingProxyType

from icepack.clock import utc_now
from icepack.domain.observability.trace import Phase, Span, SpanSink, TraceContext

log = logging.getLogger(__name__)

Attribute = str | int | float | bool

_LOG_CONTEXT: ContextVar[Mapping[str, str]] = ContextVar("icepack_log_context", default=MappingProxyType({}))


def new_span_context(parent: TraceContext | None) -> TraceContext:
    """Creates the context of a new span: in its parent's trace, or in a new trace."""
    trace_id = parent.trace_id if parent else secrets.token_hex(16)
    return TraceContext(trace_id=trace_id, span_id=secrets.token_hex(8), sampled=parent.sampled if parent else True)


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Adds these fields (job, table, trace) to all log lines written inside the block."""
    token = _LOG_CONTEXT.set({**_LOG_CONTEXT.get(), **fields})
    try:
        yield
    finally:
        _LOG_CONTEXT.reset(token)


def bind_context(work: Callable[[], None]) -> Callable[[], None]:
    """Wraps work for another thread so that it keeps the log context of this one."""
    context = copy_context()
    return lambda: context.run(work)


def current_log_context() -> Mapping[str, str]:
    return _LOG_CONTEXT.get()


class ActiveSpan:
    """A span that has not ended yet."""

    def __init__(self, name: str, parent: TraceContext | None, at: datetime, attributes: dict[str, Attribute]) -> None:
        self.name = name
        self.context = new_span_context(parent)
        self.failure = ""
        self._parent = parent
        self._started_at = at
        self._attributes = attributes

    def set_attributes(self, **attributes: Attribute) -> None:
        """Sets attributes; two underscores in a name stand for a dot."""
        self._attributes.update({name.replace("__", "."): value for name, value in attributes.items()})

    def to_span(self, ended_at: datetime) -> Span:
        return Span(
            name=self.name,
            context=self.context,
            parent_id=self._parent.span_id if self._parent else None,
            started_at=self._started_at,
            ended_at=max(ended_at, self._started_at),
            attributes=dict(self._attributes),
            failure=self.failure,
        )


class Tracer:
    """Creates spans, redacts their errors and passes each ended span to a sink; a failing sink never fails the work."""

    def __init__(
        self,
        sink: SpanSink | None = None,
        clock: Callable[[], datetime] = utc_now,
        clean: Callable[[str], str] = str,
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._clean = clean

    @contextmanager
    def span(self, name: str, parent: TraceContext | None = None, **attributes: Attribute) -> Iterator[ActiveSpan]:
        """Traces the block as one span; two underscores in an attribute's name stand for a dot."""
        span = self.start(name, parent)
        span.set_attributes(**attributes)
        try:
            yield span
        except BaseException as exc:
            span.failure = span.failure or f"{type(exc).__name__}: {exc}"
            raise
        finally:
            self.end(span)

    def start(self, name: str, parent: TraceContext | None = None) -> ActiveSpan:
        return ActiveSpan(name, parent, self._clock(), {})

    def end(self, span: ActiveSpan) -> Span:
        span.failure = self._clean(span.failure)
        ended = span.to_span(self._clock())
        if self._sink is not None and ended.context.sampled:
            self._export(self._sink, ended)
        return ended

    def _export(self, sink: SpanSink, span: Span) -> None:
        try:
            sink(span)
        except Exception as exc:
            log.warning("span '%s' was not exported: %s", span.name, exc)


class PhaseSpans:
    """The phases of a run as spans; each one lasts until the next one is entered."""

    def __init__(self, tracer: Tracer, parent: TraceContext) -> None:
        self._tracer = tracer
        self._parent = parent
        self._active: ActiveSpan | None = None
        self._ended: list[Span] = []
        # Progress reports, which mark the start of the commit phase, may come from another thread.
        self._lock = Lock()

    def enter(self, phase: Phase) -> None:
        with self._lock:
            if self._active is None or self._active.name != phase.value:
                self._end_active("")
                self._active = self._tracer.start(phase.value, self._parent)

    def finish(self, failure: str = "") -> list[Span]:
        """Ends the current phase and returns all phases in order; a failure belongs to the last one."""
        with self._lock:
            self._end_active(failure)
            return list(self._ended)

    def _end_active(self, failure: str) -> None:
        if self._active is not None:
            self._active.failure = failure
            self._ended.append(self._tracer.end(self._active))
            self._active = None
