"""Maintenance windows: the hours in which a table may be worked on, by the clock on the wall."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum

DAY_MINUTES = 24 * 60
HORIZON = timedelta(days=15)
"""Far enough for a window that opens once a week and that daylight saving swallows once."""

_FORM = re.compile(r"(?:(?P<days>[a-z,\-\s]+?)\s+)?(?P<opens>\d{1,2}:\d{2})\s*-\s*(?P<closes>\d{1,2}:\d{2})")
_EXPECTED = "write a window as 22:00-06:00, or mon-fri 22:00-06:00"


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
    """Open from `opens_minute` to `closes_minute` after midnight of each of the days; past 1440 is the day after."""

    opens_minute: int
    closes_minute: int
    days: tuple[Weekday, ...] = ALL_DAYS

    def __str__(self) -> str:
        hours = f"{_clock(self.opens_minute)}-{_clock(self.closes_minute)}"
        return hours if self.days == ALL_DAYS else f"{','.join(self.days)} {hours}"

    @classmethod
    def parse(cls, text: str) -> Window:
        found = _FORM.fullmatch(text.strip().lower())
        if found is None:
            raise ValueError(f"'{text}' is no window; {_EXPECTED}")
        opens, closes = _minutes(found["opens"]), _minutes(found["closes"])
        if opens == closes:
            raise ValueError(f"'{text}' is empty; write 00:00-24:00 for the whole day")
        if opens == DAY_MINUTES:
            raise ValueError(f"'{text}' opens at the end of a day; write 00:00")
        return cls(opens, closes if closes > opens else closes + DAY_MINUTES, _days(found["days"] or ""))


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of time in which a table may be worked on; it is closed again at `closes_at` itself."""

    opens_at: datetime
    closes_at: datetime


ALWAYS = Span(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def parse_windows(value: str | Sequence[str | Window]) -> tuple[Window, ...]:
    """A list of windows, or one text with semicolons between them."""
    items = value.split(";") if isinstance(value, str) else value
    parsed = {item if isinstance(item, Window) else Window.parse(item) for item in items if str(item).strip()}
    return tuple(sorted(parsed))


def spans(windows: Sequence[Window], zone: tzinfo, start: datetime, end: datetime) -> list[Span]:
    """When it is open between the two moments, in order; no windows at all means always."""
    if not windows:
        return [ALWAYS]
    first, last = start.astimezone(zone).date(), end.astimezone(zone).date()
    found = sorted(_on_days(windows, zone, first - timedelta(days=2), last + timedelta(days=2)))
    return [span for span in _merged(found) if span.closes_at > start and span.opens_at <= end]


def is_open(windows: Sequence[Window], zone: tzinfo, at: datetime) -> bool:
    return any(span.opens_at <= at for span in spans(windows, zone, at, at))


def next_opening(windows: Sequence[Window], zone: tzinfo, at: datetime) -> datetime:
    """The moment itself while it is open, else when it opens next."""
    return max(spans(windows, zone, at, at + HORIZON)[0].opens_at, at)


def _on_days(windows: Sequence[Window], zone: tzinfo, first: date, last: date) -> Iterator[Span]:
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        for window in windows:
            if ALL_DAYS[day.weekday()] in window.days:
                span = Span(_instant(day, window.opens_minute, zone), _instant(day, window.closes_minute, zone))
                if span.opens_at < span.closes_at:
                    yield span


def _merged(ordered: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in ordered:
        if merged and span.opens_at <= merged[-1].closes_at:
            merged[-1] = Span(merged[-1].opens_at, max(merged[-1].closes_at, span.closes_at))
        else:
            merged.append(span)
    return merged


def _instant(day: date, minute: int, zone: tzinfo) -> datetime:
    """When the clock on the wall shows this: the first time if it does so twice, right after the gap if never."""
    days, minute = divmod(minute, DAY_MINUTES)
    wall = datetime.combine(day + timedelta(days=days), time(minute // 60, minute % 60), zone)
    before, after = wall.utcoffset(), wall.replace(fold=1).utcoffset()
    assert before is not None and after is not None
    if after <= before:
        return wall.astimezone(UTC)
    return _end_of_gap(wall, after - before)


def _end_of_gap(wall: datetime, gap: timedelta) -> datetime:
    """The first moment after the hour that was skipped."""
    late = wall.astimezone(UTC)
    early = late - gap
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) / 2
        if middle.astimezone(wall.tzinfo).utcoffset() == wall.utcoffset():
            early = middle
        else:
            late = middle
    return late.replace(microsecond=0)


def _clock(minute: int) -> str:
    shown = minute if minute == DAY_MINUTES else minute % DAY_MINUTES
    return f"{shown // 60:02}:{shown % 60:02}"


def _minutes(text: str) -> int:
    hours, minutes = (int(part) for part in text.split(":"))
    total = hours * 60 + minutes
    if minutes > 59 or total > DAY_MINUTES:
        raise ValueError(f"'{text}' is no time of day; {_EXPECTED}")
    return total


def _days(text: str) -> tuple[Weekday, ...]:
    named = {day for part in text.split(",") if part.strip() for day in _range(part.strip())}
    return tuple(day for day in ALL_DAYS if day in named) or ALL_DAYS


def _range(text: str) -> list[Weekday]:
    first, separator, last = (part.strip() for part in text.partition("-"))
    start, end = _weekday(first), _weekday(last) if separator else _weekday(first)
    length = (end - start) % 7 + 1
    return [ALL_DAYS[(start + step) % 7] for step in range(length)]


def _weekday(text: str) -> int:
    if text not in ALL_DAYS:
        raise ValueError(f"'{text}' is no day of the week; use {', '.join(ALL_DAYS)}")
    return ALL_DAYS.index(Weekday(text))
