"""Schedules: when tables are maintained, by cron expressions, maintenance windows, jitter and catch-up.

A tick is a time at which the cron expression fires. Outside the table's windows, a tick waits for the next opening; if
several ticks wait for the same opening, only the last one runs. Jitter then spreads the tables, but never past the end
of the window and never past the next tick.
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
from icepack.domain.scheduling.windows import SEARCH_HORIZON, TimeRange, Window, find_next_opening, find_open_ranges
from icepack.domain.table import TableId, TablePattern

DEFAULT_CRON = "0 */6 * * *"
DEFAULT_CATCH_UP = timedelta(hours=1)
# A shorter catch-up time would make a busy scheduler skip ticks that it has only just seen.
MIN_CATCH_UP = timedelta(minutes=5)

# How far back to search for the last tick; short periods first, because most cron expressions fire often.
_LOOKBACKS = (timedelta(hours=1), timedelta(days=1), SEARCH_HORIZON)
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
    """A schedule for every table that matches the pattern; `cron` is a cron expression."""

    pattern: TablePattern
    cron: str
    # The parameters of a compaction to run; None runs whatever is recommended at that time.
    compaction: Mapping[str, Any] | None = None


@lru_cache(maxsize=16)
def _default_entry(cron: str) -> ScheduleEntry:
    return ScheduleEntry(pattern=TablePattern.parse("*"), cron=cron)


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A cron expression in a time zone, and the maintenance windows in which its ticks may run."""

    cron: str
    zone: tzinfo
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """The schedules of all tables."""

    entries: tuple[ScheduleEntry, ...] = ()
    default_cron: str = DEFAULT_CRON
    zone: tzinfo = UTC
    jitter: timedelta = timedelta(0)
    catch_up: timedelta = DEFAULT_CATCH_UP

    def entry_for(self, table: TableId) -> ScheduleEntry:
        """Returns the most specific matching entry, the last among equals, as with policies; or else the default."""
        matching = [entry for entry in self.entries if entry.pattern.matches(table)]
        if not matching:
            return _default_entry(self.default_cron)
        return sorted(matching, key=lambda entry: PolicyRule(entry.pattern, {}).specificity(table))[-1]

    @property
    def max_delay(self) -> timedelta:
        """How late a tick may run: `catch_up`, but at least MIN_CATCH_UP."""
        return max(self.catch_up, MIN_CATCH_UP)

    def cron_schedule(self, table: TableId, windows: tuple[Window, ...]) -> CronSchedule:
        return CronSchedule(self.entry_for(table).cron, self.zone, windows)


@dataclass(frozen=True, slots=True, order=True)
class Occurrence:
    """One scheduled run of a table: its tick, when its window opens, and when the run is due after jitter."""

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
class MissedOccurrences:
    """Occurrences that have become due: at most one to run, and the others, which are skipped."""

    run: Occurrence | None
    skipped: tuple[Occurrence, ...] = ()


def build_submission_key(table: TableId, tick: datetime, kind: ActionKind) -> str:
    """Builds an idempotency key that is the same in every scheduler, so that only one of them creates the job."""
    return f"{build_tick_key(table, tick)}{kind.value}"


def build_tick_key(table: TableId, tick: datetime) -> str:
    """Builds the common prefix of the idempotency keys of one tick's jobs."""
    return f"schedule:{table}:{tick.astimezone(UTC).isoformat()}:"


def iter_ticks(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """Yields the ticks of a cron expression after this time, in UTC and in order.

    A local time that daylight saving time skips fires right after the gap; one that it repeats fires once, unless the
    expression fires every hour or minute.
    """
    last = after
    for local_time in CronSim(cron, after.astimezone(zone)):
        tick = local_time.astimezone(UTC)
        if tick > last:
            yield tick
            last = tick


def find_occurrences(
    schedule: CronSchedule, table: TableId, jitter: timedelta, after: datetime, until: datetime
) -> list[Occurrence]:
    """Returns the occurrences that become due after `after` and no later than `until`, in order."""
    found = (_to_occurrence(slot, table, jitter) for slot in _find_slots(schedule, after - jitter, until))
    return [occurrence for occurrence in found if after < occurrence.due_at <= until]


def apply_windows(found: Sequence[Occurrence], windows: tuple[Window, ...], zone: tzinfo) -> list[Occurrence]:
    """Moves occurrences outside a table's own windows to the next opening; of several, only the last one runs."""
    waiting = {}
    for item in sorted(found):
        opens_at = find_next_opening(windows, zone, item.due_at)
        waiting[opens_at] = item if opens_at == item.due_at else Occurrence(opens_at, item.tick, opens_at)
    return sorted(waiting.values())


def resolve_missed(due: Sequence[Occurrence], now: datetime, catch_up: timedelta) -> MissedOccurrences:
    """Runs only the latest of the due occurrences, and only if it is no more than `catch_up` late."""
    if not due:
        return MissedOccurrences(None)
    *earlier, latest = sorted(due)
    if now - latest.due_at > catch_up:
        return MissedOccurrences(None, (*earlier, latest))
    return MissedOccurrences(latest, tuple(earlier))


@dataclass(frozen=True, slots=True)
class _Slot:
    """A tick, the time from which it may run, and the time before which it has to start."""

    tick: datetime
    opens_at: datetime
    ends_at: datetime


def _to_occurrence(slot: _Slot, table: TableId, jitter: timedelta) -> Occurrence:
    max_delay = min(jitter, slot.ends_at - slot.opens_at)
    delay = timedelta(seconds=int(max_delay.total_seconds() * _jitter_share(table, slot.tick)))
    return Occurrence(slot.opens_at + delay, slot.tick, slot.opens_at)


def _jitter_share(table: TableId, tick: datetime) -> float:
    """Returns a number from 0 up to, but not including, 1 that is always the same for this table and tick."""
    digest = hashlib.sha256(f"{table}|{tick.isoformat()}".encode()).digest()
    return int.from_bytes(digest[:6]) / 2**48


@dataclass(frozen=True, slots=True)
class _Opening:
    tick: datetime
    opens_at: datetime
    closes_at: datetime


@lru_cache(maxsize=256)
def _find_slots(schedule: CronSchedule, start: datetime, end: datetime) -> tuple[_Slot, ...]:
    """Returns the slots that open after `start` and no later than `end`; cached, because many tables share them."""
    openings: list[_Opening] = []
    for opening in _iter_openings(schedule, start, end):
        openings.append(opening)
        if opening.opens_at > end:
            break
    next_openings = [following.opens_at for following in openings[1:]]
    ends = [*next_openings, openings[-1].closes_at] if openings else []
    slots = (
        _Slot(opening.tick, opening.opens_at, min(opening.closes_at, next_at))
        for opening, next_at in zip(openings, ends, strict=True)
    )
    return tuple(slot for slot in slots if start < slot.opens_at <= end)


def _iter_openings(schedule: CronSchedule, start: datetime, end: datetime) -> Iterator[_Opening]:
    """Yields openings from `start` and past `end`, because the length of a slot depends on the next one."""
    closed_since = start - SEARCH_HORIZON
    for open_range in find_open_ranges(schedule.windows, schedule.zone, start - SEARCH_HORIZON, end + SEARCH_HORIZON):
        if open_range.opens_at > start:
            waiting = _find_last_tick(schedule, closed_since, open_range.opens_at)
            if waiting is not None:
                yield _Opening(waiting, open_range.opens_at, open_range.closes_at)
        if open_range.closes_at > start:
            yield from _iter_ticks_within(schedule, TimeRange(max(open_range.opens_at, start), open_range.closes_at))
        closed_since = open_range.closes_at


def _iter_ticks_within(schedule: CronSchedule, open_range: TimeRange) -> Iterator[_Opening]:
    for tick in iter_ticks(schedule.cron, schedule.zone, open_range.opens_at):
        if tick >= open_range.closes_at:
            return
        yield _Opening(tick, tick, open_range.closes_at)


def _find_last_tick(schedule: CronSchedule, since: datetime, until: datetime) -> datetime | None:
    """Finds the last tick from `since` to `until`, both included, searching near the end first."""
    for lookback in _LOOKBACKS:
        begin = max(since, until - lookback)
        upcoming = iter_ticks(schedule.cron, schedule.zone, begin - _INSTANT)
        found = list(takewhile(lambda tick: tick <= until, upcoming))
        if found:
            return found[-1]
    return None
