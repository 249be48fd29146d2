"""Trace contexts in the W3C `traceparent` format, and the spans of a job's trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


class Phase(StrEnum):
    """The phases of a run, in order; a run that is planned again repeats them."""

    PLANNING = "planning"
    EXECUTION = "execution"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """Identifies a span by hexadecimal ids, and says whether it is exported."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    @classmethod
    def parse(cls, text: str) -> TraceContext | None:
        """Returns None for values that the W3C recommendation says to ignore."""
        found = _TRACEPARENT.fullmatch(text.strip())
        if found is None or not _is_valid(*found.groups(default="")):
            return None
        return cls(trace_id=found[2], span_id=found[3], sampled=bool(int(found[4], 16) & _SAMPLED))


def _is_valid(version: str, trace_id: str, span_id: str, flags: str, more: str) -> bool:
    """Version 00 ends after the flags, later versions may continue; version ff and all-zero ids are invalid."""
    return version != "ff" and not (version == "00" and more) and int(trace_id, 16) > 0 and int(span_id, 16) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A finished operation of a trace."""

    name: str
    context: TraceContext
    # The parent span; None for the root of a trace.
    parent_id: str | None
    started_at: datetime
    ended_at: datetime
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    # The error; empty if the operation succeeded.
    failure: str = ""

    @property
    def duration(self) -> timedelta:
        return self.ended_at - self.started_at


SpanSink = Callable[[Span], None]
PhaseSink = Callable[[Phase], None]


def ignore_phase(_: Phase) -> None:
    """A phase sink for runs that are not traced."""
