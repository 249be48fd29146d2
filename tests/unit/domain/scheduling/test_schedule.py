"""Schedules: every tick runs once, with any time zone change, window and jitter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.actions import ActionKind
from icepack.domain.scheduling.schedule import (
    CronSchedule,
    Occurrence,
    ScheduleEntry,
    Timetable,
    build_submission_key,
    build_tick_key,
    find_occurrences,
    iter_ticks,
    resolve_missed,
)
from icepack.domain.scheduling.windows import Window, is_open, parse_windows
from icepack.domain.table import TableId, TablePattern

TABLE = TableId("lake", ("sales",), "orders")
BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

crons = st.sampled_from(
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
schedules = st.builds(CronSchedule, crons, zones, window_sets)
jitters = st.sampled_from([timedelta(0), timedelta(seconds=45), timedelta(minutes=20), timedelta(hours=3)])
around_the_change = st.one_of(
    st.datetimes(datetime(2026, 3, 27), datetime(2026, 3, 31), timezones=st.just(UTC)),
    st.datetimes(datetime(2026, 10, 22), datetime(2026, 11, 3), timezones=st.just(UTC)),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
)


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def due(schedule: CronSchedule, after: datetime, until: datetime, jitter: timedelta = timedelta(0)) -> list[Occurrence]:
    return find_occurrences(schedule, TABLE, jitter, after, until)


@given(schedules, jitters, around_the_change)
def test_nothing_comes_due_outside_its_window_before_its_tick_or_out_of_order(
    schedule: CronSchedule, jitter: timedelta, start: datetime
) -> None:
    found = due(schedule, start, start + 4 * DAY, jitter)
    for item in found:
        assert start < item.due_at <= start + 4 * DAY
        assert item.tick <= item.opens_at <= item.due_at
        assert item.jitter <= jitter
        assert is_open(schedule.windows, schedule.zone, item.due_at)
    for earlier, later in pairwise(found):
        assert earlier.tick < later.tick
        assert earlier.opens_at < later.opens_at
        assert earlier.due_at < later.due_at


@given(schedules, jitters, around_the_change, st.floats(0, 1))
def test_splitting_the_searched_period_changes_nothing(
    schedule: CronSchedule, jitter: timedelta, start: datetime, share: float
) -> None:
    """So nothing is found twice and nothing is lost, however often a scheduler runs."""
    end = start + 3 * DAY
    middle = start + (end - start) * share
    assert due(schedule, start, middle, jitter) + due(schedule, middle, end, jitter) == due(
        schedule, start, end, jitter
    )


@given(schedules, around_the_change)
def test_every_tick_runs_or_is_replaced_by_a_later_one(schedule: CronSchedule, start: datetime) -> None:
    end = start + 2 * DAY
    found = due(schedule, start, end + 20 * DAY)
    for tick in iter_ticks(schedule.cron, schedule.zone, start):
        if tick > end:
            break
        replacement = next(item for item in found if item.tick >= tick)
        assert replacement.tick == tick or replacement.opens_at > tick


@given(crons, zones, around_the_change)
def test_ticks_only_grow(cron: str, zone: ZoneInfo, start: datetime) -> None:
    upcoming = iter_ticks(cron, zone, start)
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
    found = due(CronSchedule("30 2 * * *", BERLIN), start - timedelta(seconds=1), start + 22 * HOUR)
    assert [item.tick.astimezone(BERLIN).isoformat() for item in found] == hours


@pytest.mark.parametrize(("day", "count"), [("2026-03-29", 46), ("2026-06-01", 48), ("2026-10-25", 50)])
def test_every_half_hour_means_every_half_hour_that_passes(day: str, count: int) -> None:
    start = at(day) - timedelta(seconds=1)
    end = (at(day).astimezone(BERLIN) + DAY).astimezone(UTC) - timedelta(seconds=1)
    assert len(due(CronSchedule("*/30 * * * *", BERLIN), start, end)) == count


def test_a_tick_outside_the_window_waits_for_its_opening() -> None:
    schedule = CronSchedule("0 12 * * *", BERLIN, (Window.parse("22:00-06:00"),))
    (item,) = due(schedule, at("2026-06-01T00:00"), at("2026-06-02T00:00"))
    assert item.tick == at("2026-06-01T12:00")
    assert item.due_at == at("2026-06-01T22:00")
    assert item.waits_for_window


def test_of_many_ticks_that_wait_for_one_opening_only_the_last_runs() -> None:
    schedule = CronSchedule("*/30 * * * *", UTC, (Window.parse("22:00-23:00"),))
    found = due(schedule, at("2026-06-01T00:00", UTC), at("2026-06-02T00:00", UTC))
    assert [(item.tick.hour, item.tick.minute) for item in found] == [(22, 0), (22, 30)]
    schedule = CronSchedule("15,45 * * * *", UTC, (Window.parse("22:00-23:00"),))
    found = due(schedule, at("2026-06-01T00:00", UTC), at("2026-06-02T00:00", UTC))
    assert [(item.tick.hour, item.tick.minute) for item in found] == [(21, 45), (22, 15), (22, 45)]
    assert found[0].opens_at == at("2026-06-01T22:00", UTC)


def test_a_weekday_is_the_day_on_which_the_window_opens() -> None:
    schedule = CronSchedule("0 3 * * *", UTC, (Window.parse("fri 22:00-06:00"),))
    found = due(schedule, at("2026-06-01T00:00", UTC), at("2026-06-15T00:00", UTC))
    assert [f"{item.due_at:%a %d %H}" for item in found] == ["Fri 05 22", "Sat 06 03", "Fri 12 22", "Sat 13 03"]


@given(st.text("abcdef", min_size=1, max_size=8), around_the_change)
def test_jitter_is_the_same_every_time_and_differs_from_table_to_table(name: str, start: datetime) -> None:
    schedule, jitter = CronSchedule("0 */6 * * *", UTC), timedelta(minutes=30)
    table = TableId("lake", ("sales",), name)
    first = find_occurrences(schedule, table, jitter, start, start + DAY)
    assert first == find_occurrences(schedule, table, jitter, start, start + DAY)
    assert all(timedelta(0) <= item.jitter < jitter for item in first)


def test_jitter_spreads_a_fleet() -> None:
    start = at("2026-06-01T00:00", UTC)
    fleet = [TableId("lake", ("sales",), f"t{number}") for number in range(400)]
    found = [
        find_occurrences(CronSchedule("0 6 * * *", UTC), table, HOUR, start, start + DAY)[0].jitter
        // timedelta(minutes=15)
        for table in fleet
    ]
    assert all(60 < found.count(quarter) < 140 for quarter in range(4))


def test_jitter_stays_below_the_next_tick_and_the_windows_end() -> None:
    start = at("2026-06-01T00:00", UTC)
    schedule = CronSchedule("*/5 * * * *", UTC, (Window.parse("22:00-22:07"),))
    found = find_occurrences(schedule, TABLE, HOUR, start, start + DAY)
    assert [(item.tick.hour, item.tick.minute) for item in found] == [(22, 0), (22, 5)]
    assert found[0].due_at < found[1].tick
    assert found[1].due_at < at("2026-06-01T22:07", UTC)


@given(schedules, jitters, around_the_change, st.sampled_from([0, 1, 6, 24, 72]), st.sampled_from([0, 1, 12]))
def test_after_downtime_only_the_latest_tick_is_run_and_only_if_it_is_fresh(
    schedule: CronSchedule, jitter: timedelta, start: datetime, down_hours: int, catch_up_hours: int
) -> None:
    now, catch_up = start + down_hours * HOUR, catch_up_hours * HOUR
    missed = due(schedule, start, now, jitter)
    judged = resolve_missed(missed, now, catch_up)
    assert sorted((*judged.skipped, *([judged.run] if judged.run else []))) == missed
    if judged.run is not None:
        assert judged.run == missed[-1]
        assert now - judged.run.due_at <= catch_up
    elif missed:
        assert now - missed[-1].due_at > catch_up


def test_the_most_specific_entry_gives_the_schedule() -> None:
    def entry(pattern: str, cron: str) -> ScheduleEntry:
        return ScheduleEntry(pattern=TablePattern.parse(pattern), cron=cron)

    table = Timetable(
        entries=(entry("sales.orders", "0 1 * * *"), entry("lake.*", "0 3 * * *"), entry("sales.*", "0 2 * * *"))
    )
    assert table.entry_for(TABLE).cron == "0 1 * * *"
    assert table.entry_for(TableId("lake", ("sales",), "items")).cron == "0 2 * * *"
    assert table.entry_for(TableId("lake", ("ops",), "log")).cron == "0 3 * * *"
    assert table.entry_for(TableId("other", ("ops",), "log")).cron == "0 */6 * * *"
    assert table.cron_schedule(TABLE, ()) == CronSchedule("0 1 * * *", UTC)


def test_keys_name_the_table_the_tick_and_the_action() -> None:
    tick = at("2026-06-01T14:00")
    key = build_submission_key(TABLE, tick, ActionKind.COMPACT)
    assert key == "schedule:lake.sales.orders:2026-06-01T12:00:00+00:00:compact"
    assert key.startswith(build_tick_key(TABLE, tick.astimezone(BERLIN)))
