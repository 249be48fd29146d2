"""Trace: where a piece of work stands among the others of its job, in the form of the W3C's `traceparent`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


class Phase(StrEnum):
    """What a run is about, one after the other; a run that is planned anew goes through them again."""

    PLANNING = "planning"
    EXECUTION = "execution"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A span's name in the world: hexadecimal ids, and whether it is to be exported."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    @classmethod
    def parse(cls, text: str) -> TraceContext | None:
        """None for anything that the W3C's recommendation would have us ignore."""
        found = _TRACEPARENT.fullmatch(text.strip())
        if found is None or not _is_valid(*found.groups(default="")):
            return None
        return cls(trace_id=found[2], span_id=found[3], sampled=bool(int(found[4], 16) & _SAMPLED))


def _is_valid(version: str, trace_id: str, span_id: str, flags: str, more: str) -> bool:
    """Version 00 ends after the flags, later ones may go on; ff is none, and zeros are no id."""
    return version != "ff" and not (version == "00" and more) and int(trace_id, 16) > 0 and int(span_id, 16) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of work that has ended."""

    name: str
    context: TraceContext
    parent_id: str | None
    """The span that it is part of; None for the first of its trace."""
    started_at: datetime
    ended_at: datetime
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    failure: str = ""
    """What went wrong; empty when nothing did."""

    @property
    def duration(self) -> timedelta:
        return self.ended_at - self.started_at


SpanSink = Callable[[Span], None]
PhaseSink = Callable[[Phase], None]


def no_phase(_: Phase) -> None:
    """For runs that nobody traces."""
