"""Tracing: spans from submission to commit, whether or not anybody collects them, and what log lines are about."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from threading import Lock
from types import MappingProxyType

from icepack.domain.observability.trace import Phase, Span, SpanSink, TraceContext

log = logging.getLogger(__name__)

Attribute = str | int | float | bool

_ABOUT: ContextVar[Mapping[str, str]] = ContextVar("icepack_about", default=MappingProxyType({}))


def utc_now() -> datetime:
    return datetime.now(UTC)


def begun_under(parent: TraceContext | None) -> TraceContext:
    """The name of a new span: in its parent's trace, or in one of its own."""
    trace_id = parent.trace_id if parent else secrets.token_hex(16)
    return TraceContext(trace_id=trace_id, span_id=secrets.token_hex(8), sampled=parent.sampled if parent else True)


@contextmanager
def about(**facts: str) -> Iterator[None]:
    """What is logged within is about this job, this table, this trace."""
    token = _ABOUT.set({**_ABOUT.get(), **facts})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def in_context(work: Callable[[], None]) -> Callable[[], None]:
    """For another thread, which would not know what its work is about."""
    context = copy_context()
    return lambda: context.run(work)


def subject() -> Mapping[str, str]:
    """What is being worked on here and now."""
    return _ABOUT.get()


class OpenSpan:
    """A piece of work under way."""

    def __init__(self, name: str, parent: TraceContext | None, at: datetime, attributes: dict[str, Attribute]) -> None:
        self.name = name
        self.context = begun_under(parent)
        self.failure = ""
        self._parent = parent
        self._started_at = at
        self._attributes = attributes

    def note(self, **attributes: Attribute) -> None:
        self._attributes.update({name.replace("__", "."): value for name, value in attributes.items()})

    def ended(self, at: datetime) -> Span:
        return Span(
            name=self.name,
            context=self.context,
            parent_id=self._parent.span_id if self._parent else None,
            started_at=self._started_at,
            ended_at=max(at, self._started_at),
            attributes=dict(self._attributes),
            failure=self.failure,
        )


class Tracer:
    """Makes spans, hides the secrets in them, and tells its sink of each; a sink that fails never fails the work."""

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
    def span(self, name: str, parent: TraceContext | None = None, **attributes: Attribute) -> Iterator[OpenSpan]:
        """In an attribute's name two underscores stand for a dot."""
        span = self.start(name, parent)
        span.note(**attributes)
        try:
            yield span
        except BaseException as exc:
            span.failure = span.failure or f"{type(exc).__name__}: {exc}"
            raise
        finally:
            self.end(span)

    def start(self, name: str, parent: TraceContext | None = None) -> OpenSpan:
        return OpenSpan(name, parent, self._clock(), {})

    def end(self, span: OpenSpan) -> Span:
        span.failure = self._clean(span.failure)
        ended = span.ended(self._clock())
        if self._sink is not None and ended.context.sampled:
            self._tell(self._sink, ended)
        return ended

    def _tell(self, sink: SpanSink, span: Span) -> None:
        try:
            sink(span)
        except Exception as exc:
            log.warning("span '%s' was not exported: %s", span.name, exc)


class Phases:
    """The phases of one run as spans, each from where it is entered until the next one is."""

    def __init__(self, tracer: Tracer, parent: TraceContext) -> None:
        self._tracer = tracer
        self._parent = parent
        self._open: OpenSpan | None = None
        self._ended: list[Span] = []
        # Progress, which tells where the commit begins, may come from another thread.
        self._lock = Lock()

    def enter(self, phase: Phase) -> None:
        with self._lock:
            if self._open is None or self._open.name != phase.value:
                self._close("")
                self._open = self._tracer.start(phase.value, self._parent)

    def finish(self, failure: str = "") -> list[Span]:
        """All of them, in order; what went wrong went wrong in the last."""
        with self._lock:
            self._close(failure)
            return list(self._ended)

    def _close(self, failure: str) -> None:
        if self._open is not None:
            self._open.failure = failure
            self._ended.append(self._tracer.end(self._open))
            self._open = None
