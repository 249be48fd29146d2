"""Maintenance windows, including changes to and from daylight saving time."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.scheduling.windows import (
    ALL_DAYS,
    Window,
    find_next_opening,
    find_open_ranges,
    is_open,
    parse_windows,
)

ZONES = [
    UTC,
    *(ZoneInfo(name) for name in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")),
]
BERLIN = ZoneInfo("Europe/Berlin")

moments = st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))
minutes = st.integers(0, 24 * 60 - 1)
days = st.lists(st.sampled_from(ALL_DAYS), min_size=1, unique=True).map(
    lambda named: tuple(day for day in ALL_DAYS if day in named)
)
windows = st.builds(
    lambda opens, length, on: Window(opens, opens + length, on), minutes, st.integers(1, 24 * 60 - 1), days
)


@given(windows)
def test_a_window_is_read_back_from_its_text(window: Window) -> None:
    assert Window.parse(str(window)) == window


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("22:00-06:00", "22:00-06:00"),
        (" 9:30 - 17:00 ", "09:30-17:00"),
        ("mon-fri 22:00-06:00", "mon,tue,wed,thu,fri 22:00-06:00"),
        ("FRI-MON 1:00-2:00", "mon,fri,sat,sun 01:00-02:00"),
        ("sat, sun 00:00-24:00", "sat,sun 00:00-24:00"),
        ("22:00-00:00", "22:00-24:00"),
    ],
)
def test_people_write_windows_in_several_ways(text: str, shown: str) -> None:
    assert str(Window.parse(text)) == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("22:00", "is not a window"),
        ("", "is not a window"),
        ("22:00-22:00", "empty"),
        ("24:00-02:00", "opens at the end of a day"),
        ("25:00-26:00", "is not a time of day"),
        ("10:61-12:00", "is not a time of day"),
        ("someday 22:00-06:00", "is not a day of the week"),
    ],
)
def test_an_invalid_window_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Window.parse(text)


def test_several_windows_come_as_a_list_or_with_semicolons_between_them() -> None:
    wanted = (Window.parse("mon,tue 01:00-02:00"), Window.parse("22:00-06:00"))
    assert parse_windows("22:00-06:00; mon,tue 1:00-2:00") == wanted
    assert parse_windows(["22:00-06:00", "mon,tue 1:00-2:00"]) == wanted
    assert parse_windows("") == ()


@given(st.lists(windows, min_size=1, max_size=3), st.sampled_from(ZONES), moments)
def test_the_next_opening_is_open_and_nothing_is_between(chosen: list[Window], zone: ZoneInfo, at: datetime) -> None:
    opens_at = find_next_opening(chosen, zone, at)
    assert opens_at >= at
    assert is_open(chosen, zone, opens_at)
    if opens_at > at:
        assert not is_open(chosen, zone, at)
        assert not is_open(chosen, zone, at + (opens_at - at) * 0.999)


@given(st.lists(windows, min_size=1, max_size=3), st.sampled_from(ZONES), moments)
def test_open_ranges_are_in_order_and_do_not_touch(chosen: list[Window], zone: ZoneInfo, at: datetime) -> None:
    found = find_open_ranges(chosen, zone, at, at + timedelta(days=20))
    assert all(span.opens_at < span.closes_at for span in found)
    assert all(before.closes_at < after.opens_at for before, after in pairwise(found))


@given(windows, st.sampled_from(ZONES), moments)
def test_open_means_that_the_local_time_is_between_the_two_times(window: Window, zone: ZoneInfo, at: datetime) -> None:
    """Apart from the hour that daylight saving repeats, in which a window is open once."""
    wall = at.astimezone(zone)
    if any(_is_repeated(moment) for moment in (wall, wall - timedelta(hours=3), wall + timedelta(hours=3))):
        return
    minute = wall.hour * 60 + wall.minute
    today, yesterday = ALL_DAYS[wall.weekday()], ALL_DAYS[wall.weekday() - 1]
    inside = (today in window.days and window.opens_minute <= minute < window.closes_minute) or (
        yesterday in window.days and minute + 24 * 60 < window.closes_minute
    )
    assert is_open([window], zone, at) == inside


def _is_repeated(wall: datetime) -> bool:
    return wall.replace(fold=0).utcoffset() != wall.replace(fold=1).utcoffset()


def test_a_night_window_ends_at_its_local_time_however_long_the_night_was() -> None:
    window = [Window.parse("22:00-06:00")]
    for day, hours in ((date(2026, 3, 28), 7), (date(2026, 6, 1), 8), (date(2026, 10, 24), 9)):
        evening = datetime.combine(day, time(23), BERLIN)
        (span,) = find_open_ranges(window, BERLIN, evening, evening)
        assert span.closes_at - span.opens_at == timedelta(hours=hours)
        assert span.closes_at.astimezone(BERLIN).hour == 6


def test_a_window_in_the_hour_that_is_skipped_does_not_open_that_day() -> None:
    start = datetime(2026, 3, 29, tzinfo=BERLIN)
    found = find_open_ranges([Window.parse("02:15-02:45")], BERLIN, start, start + timedelta(days=2, hours=12))
    assert [span.opens_at.astimezone(BERLIN).day for span in found] == [30, 31]
    (half,) = find_open_ranges([Window.parse("02:30-03:15")], BERLIN, start, start + timedelta(hours=12))
    assert half.opens_at.astimezone(BERLIN).hour == 3
    assert half.closes_at - half.opens_at == timedelta(minutes=15)


def test_no_windows_mean_always() -> None:
    assert is_open((), UTC, datetime(2026, 1, 1, tzinfo=UTC))
    assert find_next_opening((), UTC, datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)
