"""When a table is looked after: cron lines, windows, jitter, and what becomes of ticks that were missed.

A tick is a moment that the cron line names. Outside the table's windows it waits for the next opening; of several that
wait for one opening, the last stands for all. Jitter then spreads the tables, never past the window's end and never
past the next tick.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import takewhile
from typing import Any

from cronsim import CronSim

from icepack.domain.actions import ActionKind
from icepack.domain.policy import PolicyRule
from icepack.domain.scheduling.windows import HORIZON, Span, Window, next_opening, spans
from icepack.domain.table import TableId, TablePattern

DEFAULT_LINE = "0 */6 * * *"
DEFAULT_CATCH_UP = timedelta(hours=1)
LEAST_CATCH_UP = timedelta(minutes=5)

_LOOKBACKS = (timedelta(hours=1), timedelta(days=1), HORIZON)
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
    """A schedule for every table that the pattern matches."""

    pattern: TablePattern
    line: str
    compaction: Mapping[str, Any] | None = None
    """A compaction with exactly these parameters; None is whatever is recommended then."""


@lru_cache(maxsize=16)
def _default_entry(line: str) -> ScheduleEntry:
    return ScheduleEntry(pattern=TablePattern.parse("*"), line=line)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A cron line by the clock of a time zone, and the windows in which its ticks may begin."""

    line: str
    zone: tzinfo
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """Which table is looked after when."""

    entries: tuple[ScheduleEntry, ...] = ()
    default_line: str = DEFAULT_LINE
    zone: tzinfo = UTC
    jitter: timedelta = timedelta(0)
    catch_up: timedelta = DEFAULT_CATCH_UP

    def entry_for(self, table: TableId) -> ScheduleEntry:
        """The entry that reaches deepest, the last among equals, as with policies; without one, the default."""
        fitting = [entry for entry in self.entries if entry.pattern.matches(table)]
        if not fitting:
            return _default_entry(self.default_line)
        return sorted(fitting, key=lambda entry: PolicyRule(entry.pattern, {}).rank(table))[-1]

    @property
    def patience(self) -> timedelta:
        """How late a tick may be: `catch_up`, but never so little that a busy scheduler would miss what it just met."""
        return max(self.catch_up, LEAST_CATCH_UP)

    def rhythm(self, table: TableId, windows: tuple[Window, ...]) -> Rhythm:
        return Rhythm(self.entry_for(table).line, self.zone, windows)


@dataclass(frozen=True, slots=True, order=True)
class Occurrence:
    """One time that a table is looked after: its tick, when its window lets it begin, and when it does."""

    due_at: datetime
    tick: datetime
    opens_at: datetime

    @property
    def waits_for_window(self) -> bool:
        return self.opens_at > self.tick

    @property
    def jitter(self) -> timedelta:
        return self.due_at - self.opens_at


@dataclass(frozen=True, slots=True)
class Missed:
    """What to make of occurrences that have come due: one to run at most, the others left out."""

    run: Occurrence | None
    skipped: tuple[Occurrence, ...] = ()


def submission_key(table: TableId, tick: datetime, kind: ActionKind) -> str:
    """The same in every scheduler, so that only one submission counts."""
    return f"{tick_key(table, tick)}{kind.value}"


def tick_key(table: TableId, tick: datetime) -> str:
    """What the keys of one tick's jobs begin with."""
    return f"schedule:{table}:{tick.astimezone(UTC).isoformat()}:"


def ticks(line: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """The moments the cron line names after this one, each once, in UTC and in order.

    A time that daylight saving skips comes right after the gap; one that it repeats comes once, unless the line names
    every hour or minute.
    """
    last = after
    for wall in CronSim(line, after.astimezone(zone)):
        tick = wall.astimezone(UTC)
        if tick > last:
            yield tick
            last = tick


def occurrences(
    rhythm: Rhythm, table: TableId, jitter: timedelta, after: datetime, until: datetime
) -> list[Occurrence]:
    """All that come due after the one moment and not after the other, in order."""
    found = (_occurrence(slot, table, jitter) for slot in _slots(rhythm, after - jitter, until))
    return [occurrence for occurrence in found if after < occurrence.due_at <= until]


def narrowed(found: Sequence[Occurrence], windows: tuple[Window, ...], zone: tzinfo) -> list[Occurrence]:
    """The same by a table's own windows: what is due outside them waits, and the last that waits stands for all."""
    waiting = {}
    for item in sorted(found):
        opens_at = next_opening(windows, zone, item.due_at)
        waiting[opens_at] = item if opens_at == item.due_at else Occurrence(opens_at, item.tick, opens_at)
    return sorted(waiting.values())


def judge_missed(due: Sequence[Occurrence], now: datetime, catch_up: timedelta) -> Missed:
    """Of what has come due only the latest is run, and only if it is not older than `catch_up`."""
    if not due:
        return Missed(None)
    *earlier, latest = sorted(due)
    if now - latest.due_at > catch_up:
        return Missed(None, (*earlier, latest))
    return Missed(latest, tuple(earlier))


@dataclass(frozen=True, slots=True)
class _Slot:
    """A tick, when it may begin, and the moment before which it has to."""

    tick: datetime
    opens_at: datetime
    ends_at: datetime


def _occurrence(slot: _Slot, table: TableId, jitter: timedelta) -> Occurrence:
    room = min(jitter, slot.ends_at - slot.opens_at)
    delay = timedelta(seconds=int(room.total_seconds() * _share(table, slot.tick)))
    return Occurrence(slot.opens_at + delay, slot.tick, slot.opens_at)


def _share(table: TableId, tick: datetime) -> float:
    """A number from 0 up to, and without, 1: always the same for this table and this tick."""
    digest = hashlib.sha256(f"{table}|{tick.isoformat()}".encode()).digest()
    return int.from_bytes(digest[:6]) / 2**48


@dataclass(frozen=True, slots=True)
class _Opening:
    tick: datetime
    opens_at: datetime
    closes_at: datetime


@lru_cache(maxsize=256)
def _slots(rhythm: Rhythm, start: datetime, end: datetime) -> tuple[_Slot, ...]:
    """The slots that open after `start` and not after `end`; many tables share them, so they are worked out once."""
    openings: list[_Opening] = []
    for opening in _openings(rhythm, start, end):
        openings.append(opening)
        if opening.opens_at > end:
            break
    followers = [follower.opens_at for follower in openings[1:]]
    ends = [*followers, openings[-1].closes_at] if openings else []
    slots = (
        _Slot(opening.tick, opening.opens_at, min(opening.closes_at, next_at))
        for opening, next_at in zip(openings, ends, strict=True)
    )
    return tuple(slot for slot in slots if start < slot.opens_at <= end)


def _openings(rhythm: Rhythm, start: datetime, end: datetime) -> Iterator[_Opening]:
    """From `start` on and past `end`: how long a slot lasts depends on the one after it."""
    closed_since = start - HORIZON
    for span in spans(rhythm.windows, rhythm.zone, start - HORIZON, end + HORIZON):
        if span.opens_at > start:
            waiting = _last_tick(rhythm, closed_since, span.opens_at)
            if waiting is not None:
                yield _Opening(waiting, span.opens_at, span.closes_at)
        if span.closes_at > start:
            yield from _ticks_within(rhythm, Span(max(span.opens_at, start), span.closes_at))
        closed_since = span.closes_at


def _ticks_within(rhythm: Rhythm, span: Span) -> Iterator[_Opening]:
    for tick in ticks(rhythm.line, rhythm.zone, span.opens_at):
        if tick >= span.closes_at:
            return
        yield _Opening(tick, tick, span.closes_at)


def _last_tick(rhythm: Rhythm, since: datetime, until: datetime) -> datetime | None:
    """The last tick from `since` to `until`, both included; looked for near the end first."""
    for lookback in _LOOKBACKS:
        begin = max(since, until - lookback)
        upcoming = ticks(rhythm.line, rhythm.zone, begin - _INSTANT)
        found = list(takewhile(lambda tick: tick <= until, upcoming))
        if found:
            return found[-1]
    return None
