"""Schedules: whatever the season, the window and the jitter, each tick counts once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.actions import ActionKind
from icepack.domain.scheduling.schedule import (
    Occurrence,
    Rhythm,
    ScheduleEntry,
    Timetable,
    judge_missed,
    occurrences,
    submission_key,
    tick_key,
    ticks,
)
from icepack.domain.scheduling.windows import Window, is_open, parse_windows
from icepack.domain.table import TableId, TablePattern

TABLE = TableId("lake", ("sales",), "orders")
BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

lines = st.sampled_from(
    [
        "0 */6 * * *",
        "*/30 * * * *",
        "* * * * *",
        "0 2 * * *",
        "30 2 * * sun",
        "15 1,2,3 * * *",
        "0 0 1 * *",
        "0 12 * * 1-5",
    ]
)
zones = st.sampled_from([UTC, BERLIN, NEW_YORK, ZoneInfo("Australia/Lord_Howe")])
window_sets = st.sampled_from(
    ["", "22:00-06:00", "sat,sun 00:00-24:00", "mon-fri 20:00-23:30; sun 01:30-03:30", "02:00-02:10", "00:00-24:00"]
).map(parse_windows)
rhythms = st.builds(Rhythm, lines, zones, window_sets)
jitters = st.sampled_from([timedelta(0), timedelta(seconds=45), timedelta(minutes=20), timedelta(hours=3)])
around_the_change = st.one_of(
    st.datetimes(datetime(2026, 3, 27), datetime(2026, 3, 31), timezones=st.just(UTC)),
    st.datetimes(datetime(2026, 10, 22), datetime(2026, 11, 3), timezones=st.just(UTC)),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
)


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def due(rhythm: Rhythm, after: datetime, until: datetime, jitter: timedelta = timedelta(0)) -> list[Occurrence]:
    return occurrences(rhythm, TABLE, jitter, after, until)


@given(rhythms, jitters, around_the_change)
def test_nothing_comes_due_outside_its_window_before_its_tick_or_out_of_order(
    rhythm: Rhythm, jitter: timedelta, start: datetime
) -> None:
    found = due(rhythm, start, start + 4 * DAY, jitter)
    for item in found:
        assert start < item.due_at <= start + 4 * DAY
        assert item.tick <= item.opens_at <= item.due_at
        assert item.jitter <= jitter
        assert is_open(rhythm.windows, rhythm.zone, item.due_at)
    for earlier, later in pairwise(found):
        assert earlier.tick < later.tick
        assert earlier.opens_at < later.opens_at
        assert earlier.due_at < later.due_at


@given(rhythms, jitters, around_the_change, st.floats(0, 1))
def test_where_a_look_ends_and_the_next_begins_changes_nothing(
    rhythm: Rhythm, jitter: timedelta, start: datetime, share: float
) -> None:
    """So nothing is found twice, and nothing lost, however often a scheduler looks."""
    end = start + 3 * DAY
    middle = start + (end - start) * share
    assert due(rhythm, start, middle, jitter) + due(rhythm, middle, end, jitter) == due(rhythm, start, end, jitter)


@given(rhythms, around_the_change)
def test_every_tick_is_run_or_has_a_later_one_that_stands_for_it(rhythm: Rhythm, start: datetime) -> None:
    end = start + 2 * DAY
    found = due(rhythm, start, end + 20 * DAY)
    for tick in ticks(rhythm.line, rhythm.zone, start):
        if tick > end:
            break
        stands_for_it = next(item for item in found if item.tick >= tick)
        assert stands_for_it.tick == tick or stands_for_it.opens_at > tick


@given(lines, zones, around_the_change)
def test_ticks_only_grow(line: str, zone: ZoneInfo, start: datetime) -> None:
    upcoming = ticks(line, zone, start)
    found = [start, *(next(upcoming) for _ in range(50))]
    assert all(earlier < later for earlier, later in pairwise(found))


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        ("2026-03-28", ["2026-03-28T02:30:00+01:00"]),
        ("2026-03-29", ["2026-03-29T03:00:00+02:00"]),
        ("2026-10-25", ["2026-10-25T02:30:00+02:00"]),
    ],
)
def test_a_daily_time_comes_once_a_day_also_when_the_clocks_change(day: str, hours: list[str]) -> None:
    start = at(day)
    found = due(Rhythm("30 2 * * *", BERLIN), start - timedelta(seconds=1), start + 22 * HOUR)
    assert [item.tick.astimezone(BERLIN).isoformat() for item in found] == hours


@pytest.mark.parametrize(("day", "count"), [("2026-03-29", 46), ("2026-06-01", 48), ("2026-10-25", 50)])
def test_every_half_hour_means_every_half_hour_that_passes(day: str, count: int) -> None:
    start = at(day) - timedelta(seconds=1)
    end = (at(day).astimezone(BERLIN) + DAY).astimezone(UTC) - timedelta(seconds=1)
    assert len(due(Rhythm("*/30 * * * *", BERLIN), start, end)) == count


def test_a_tick_outside_the_window_waits_for_its_opening() -> None:
    rhythm = Rhythm("0 12 * * *", BERLIN, (Window.parse("22:00-06:00"),))
    (item,) = due(rhythm, at("2026-06-01T00:00"), at("2026-06-02T00:00"))
    assert item.tick == at("2026-06-01T12:00")
    assert item.due_at == at("2026-06-01T22:00")
    assert item.waits_for_window


def test_of_many_ticks_that_wait_for_one_opening_the_last_stands_for_all() -> None:
    rhythm = Rhythm("*/30 * * * *", UTC, (Window.parse("22:00-23:00"),))
    found = due(rhythm, at("2026-06-01T00:00", UTC), at("2026-06-02T00:00", UTC))
    assert [(item.tick.hour, item.tick.minute) for item in found] == [(22, 0), (22, 30)]
    rhythm = Rhythm("15,45 * * * *", UTC, (Window.parse("22:00-23:00"),))
    found = due(rhythm, at("2026-06-01T00:00", UTC), at("2026-06-02T00:00", UTC))
    assert [(item.tick.hour, item.tick.minute) for item in found] == [(21, 45), (22, 15), (22, 45)]
    assert found[0].opens_at == at("2026-06-01T22:00", UTC)


def test_a_weekday_is_the_day_on_which_the_window_opens() -> None:
    rhythm = Rhythm("0 3 * * *", UTC, (Window.parse("fri 22:00-06:00"),))
    found = due(rhythm, at("2026-06-01T00:00", UTC), at("2026-06-15T00:00", UTC))
    assert [f"{item.due_at:%a %d %H}" for item in found] == ["Fri 05 22", "Sat 06 03", "Fri 12 22", "Sat 13 03"]


@given(st.text("abcdef", min_size=1, max_size=8), around_the_change)
def test_jitter_is_the_same_every_time_and_differs_from_table_to_table(name: str, start: datetime) -> None:
    rhythm, jitter = Rhythm("0 */6 * * *", UTC), timedelta(minutes=30)
    table = TableId("lake", ("sales",), name)
    first = occurrences(rhythm, table, jitter, start, start + DAY)
    assert first == occurrences(rhythm, table, jitter, start, start + DAY)
    assert all(timedelta(0) <= item.jitter < jitter for item in first)


def test_jitter_spreads_a_fleet() -> None:
    start = at("2026-06-01T00:00", UTC)
    fleet = [TableId("lake", ("sales",), f"t{number}") for number in range(400)]
    found = [
        occurrences(Rhythm("0 6 * * *", UTC), table, HOUR, start, start + DAY)[0].jitter // timedelta(minutes=15)
        for table in fleet
    ]
    assert all(60 < found.count(quarter) < 140 for quarter in range(4))


def test_jitter_stays_below_the_next_tick_and_the_windows_end() -> None:
    start = at("2026-06-01T00:00", UTC)
    rhythm = Rhythm("*/5 * * * *", UTC, (Window.parse("22:00-22:07"),))
    found = occurrences(rhythm, TABLE, HOUR, start, start + DAY)
    assert [(item.tick.hour, item.tick.minute) for item in found] == [(22, 0), (22, 5)]
    assert found[0].due_at < found[1].tick
    assert found[1].due_at < at("2026-06-01T22:07", UTC)


@given(rhythms, jitters, around_the_change, st.sampled_from([0, 1, 6, 24, 72]), st.sampled_from([0, 1, 12]))
def test_after_downtime_only_the_latest_tick_is_run_and_only_if_it_is_fresh(
    rhythm: Rhythm, jitter: timedelta, start: datetime, down_hours: int, catch_up_hours: int
) -> None:
    now, catch_up = start + down_hours * HOUR, catch_up_hours * HOUR
    missed = due(rhythm, start, now, jitter)
    judged = judge_missed(missed, now, catch_up)
    assert sorted((*judged.skipped, *([judged.run] if judged.run else []))) == missed
    if judged.run is not None:
        assert judged.run == missed[-1]
        assert now - judged.run.due_at <= catch_up
    elif missed:
        assert now - missed[-1].due_at > catch_up


def test_the_entry_that_reaches_deepest_gives_the_schedule() -> None:
    def entry(pattern: str, line: str) -> ScheduleEntry:
        return ScheduleEntry(pattern=TablePattern.parse(pattern), line=line)

    table = Timetable(
        entries=(entry("sales.orders", "0 1 * * *"), entry("lake.*", "0 3 * * *"), entry("sales.*", "0 2 * * *"))
    )
    assert table.entry_for(TABLE).line == "0 1 * * *"
    assert table.entry_for(TableId("lake", ("sales",), "items")).line == "0 2 * * *"
    assert table.entry_for(TableId("lake", ("ops",), "log")).line == "0 3 * * *"
    assert table.entry_for(TableId("other", ("ops",), "log")).line == "0 */6 * * *"
    assert table.rhythm(TABLE, ()) == Rhythm("0 1 * * *", UTC)


def test_keys_name_the_table_the_tick_and_the_action() -> None:
    tick = at("2026-06-01T14:00")
    key = submission_key(TABLE, tick, ActionKind.COMPACT)
    assert key == "schedule:lake.sales.orders:2026-06-01T12:00:00+00:00:compact"
    assert key.startswith(tick_key(TABLE, tick.astimezone(BERLIN)))
