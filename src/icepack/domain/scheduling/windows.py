"""Maintenance windows: the local hours in which jobs may start on a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum

DAY_MINUTES = 24 * 60
# Long enough to find a weekly window even if daylight saving time skips one of its openings.
SEARCH_HORIZON = timedelta(days=15)

_WINDOW_FORMAT = re.compile(r"(?:(?P<days>[a-z,\-\s]+?)\s+)?(?P<opens>\d{1,2}:\d{2})\s*-\s*(?P<closes>\d{1,2}:\d{2})")
_EXPECTED = "use a form such as 22:00-06:00 or mon-fri 22:00-06:00"


class Weekday(StrEnum):
    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


ALL_DAYS = tuple(Weekday)


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """Opens and closes at these minutes after midnight on each of the days; 1440 and above is on the next day."""

    opens_minute: int
    closes_minute: int
    days: tuple[Weekday, ...] = ALL_DAYS

    def __str__(self) -> str:
        hours = f"{_format_minute(self.opens_minute)}-{_format_minute(self.closes_minute)}"
        return hours if self.days == ALL_DAYS else f"{','.join(self.days)} {hours}"

    @classmethod
    def parse(cls, text: str) -> Window:
        found = _WINDOW_FORMAT.fullmatch(text.strip().lower())
        if found is None:
            raise ValueError(f"'{text}' is not a window; {_EXPECTED}")
        opens, closes = _parse_minutes(found["opens"]), _parse_minutes(found["closes"])
        if opens == closes:
            raise ValueError(f"'{text}' is empty; use 00:00-24:00 for the whole day")
        if opens == DAY_MINUTES:
            raise ValueError(f"'{text}' opens at the end of a day; use 00:00")
        return cls(opens, closes if closes > opens else closes + DAY_MINUTES, _parse_days(found["days"] or ""))


@dataclass(frozen=True, slots=True, order=True)
class TimeRange:
    """A period in which a window is open, from `opens_at` up to, but not including, `closes_at`."""

    opens_at: datetime
    closes_at: datetime


ALWAYS = TimeRange(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def parse_windows(value: str | Sequence[str | Window]) -> tuple[Window, ...]:
    """Parses a list of windows, or one text with windows separated by semicolons."""
    items = value.split(";") if isinstance(value, str) else value
    parsed = {item if isinstance(item, Window) else Window.parse(item) for item in items if str(item).strip()}
    return tuple(sorted(parsed))


def find_open_ranges(windows: Sequence[Window], zone: tzinfo, start: datetime, end: datetime) -> list[TimeRange]:
    """Returns the open periods between two times, in order; without windows, it is always open."""
    if not windows:
        return [ALWAYS]
    first, last = start.astimezone(zone).date(), end.astimezone(zone).date()
    found = sorted(_ranges_on_days(windows, zone, first - timedelta(days=2), last + timedelta(days=2)))
    return [
        open_range for open_range in _merge_ranges(found) if open_range.closes_at > start and open_range.opens_at <= end
    ]


def is_open(windows: Sequence[Window], zone: tzinfo, at: datetime) -> bool:
    return any(open_range.opens_at <= at for open_range in find_open_ranges(windows, zone, at, at))


def find_next_opening(windows: Sequence[Window], zone: tzinfo, at: datetime) -> datetime:
    """Returns `at` itself if a window is open then, otherwise the next opening."""
    return max(find_open_ranges(windows, zone, at, at + SEARCH_HORIZON)[0].opens_at, at)


def _ranges_on_days(windows: Sequence[Window], zone: tzinfo, first: date, last: date) -> Iterator[TimeRange]:
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        for window in windows:
            if ALL_DAYS[day.weekday()] in window.days:
                open_range = TimeRange(
                    _to_instant(day, window.opens_minute, zone), _to_instant(day, window.closes_minute, zone)
                )
                if open_range.opens_at < open_range.closes_at:
                    yield open_range


def _merge_ranges(ordered: list[TimeRange]) -> list[TimeRange]:
    merged: list[TimeRange] = []
    for open_range in ordered:
        if merged and open_range.opens_at <= merged[-1].closes_at:
            merged[-1] = TimeRange(merged[-1].opens_at, max(merged[-1].closes_at, open_range.closes_at))
        else:
            merged.append(open_range)
    return merged


def _to_instant(day: date, minute: int, zone: tzinfo) -> datetime:
    """Converts a local time to UTC; a repeated time is its first occurrence, a skipped time is the end of the gap."""
    days, minute = divmod(minute, DAY_MINUTES)
    wall = datetime.combine(day + timedelta(days=days), time(minute // 60, minute % 60), zone)
    before, after = wall.utcoffset(), wall.replace(fold=1).utcoffset()
    assert before is not None and after is not None
    if after <= before:
        return wall.astimezone(UTC)
    return _find_end_of_gap(wall, after - before)


def _find_end_of_gap(wall: datetime, gap: timedelta) -> datetime:
    """Finds the first instant after the local times that daylight saving time skips, to the second."""
    late = wall.astimezone(UTC)
    early = late - gap
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) / 2
        if middle.astimezone(wall.tzinfo).utcoffset() == wall.utcoffset():
            early = middle
        else:
            late = middle
    return late.replace(microsecond=0)


def _format_minute(minute: int) -> str:
    shown = minute if minute == DAY_MINUTES else minute % DAY_MINUTES
    return f"{shown // 60:02}:{shown % 60:02}"


def _parse_minutes(text: str) -> int:
    hours, minutes = (int(part) for part in text.split(":"))
    total = hours * 60 + minutes
    if minutes > 59 or total > DAY_MINUTES:
        raise ValueError(f"'{text}' is not a time of day; {_EXPECTED}")
    return total


def _parse_days(text: str) -> tuple[Weekday, ...]:
    named = {day for part in text.split(",") if part.strip() for day in _parse_day_range(part.strip())}
    return tuple(day for day in ALL_DAYS if day in named) or ALL_DAYS


def _parse_day_range(text: str) -> list[Weekday]:
    first, separator, last = (part.strip() for part in text.partition("-"))
    start, end = _parse_weekday(first), _parse_weekday(last) if separator else _parse_weekday(first)
    length = (end - start) % 7 + 1
    return [ALL_DAYS[(start + step) % 7] for step in range(length)]


def _parse_weekday(text: str) -> int:
    if text not in ALL_DAYS:
        raise ValueError(f"'{text}' is not a day of the week; use {', '.join(ALL_DAYS)}")
    return ALL_DAYS.index(Weekday(text))
