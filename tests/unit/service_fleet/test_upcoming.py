"""A forecast for tables that share a schedule equals the forecast for each table alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from icepack.domain.scheduling.schedule import ScheduleEntry, Timetable, apply_windows, find_occurrences
from icepack.domain.scheduling.windows import Window, parse_windows
from icepack.domain.table import TableId, TablePattern
from icepack.service.fleet.upcoming import ForecastQuery, forecast_runs

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
TABLES = [TableId("lake", ("sales",), name) for name in ("orders", "items", "log", "users")]
ENTRY = ScheduleEntry(pattern=TablePattern.parse("sales.o*"), cron="30 */4 * * *")
WINDOWS = st.sampled_from(["", "22:00-06:00", "13:00-13:30; 20:00-21:00"]).map(parse_windows)
Windows = list[tuple[Window, ...]]


@given(st.sampled_from([0, 1, 45]), st.integers(0, 60), st.integers(1, 60), st.lists(WINDOWS, min_size=4, max_size=4))
@settings(deadline=None, max_examples=60)
def test_the_first_runs_are_the_earliest_of_all_tables(jitter: int, limit: int, hours: int, windows: Windows) -> None:
    plan = Timetable(entries=(ENTRY,), jitter=timedelta(minutes=jitter))
    own, until = dict(zip(TABLES, windows, strict=True)), NOON + timedelta(hours=hours)
    query = ForecastQuery(
        timetable=plan,
        cron_schedule=lambda table: plan.cron_schedule(table, ()),
        own_windows=own.__getitem__,
        after=NOON,
        until=until,
    )
    found = forecast_runs(query, TABLES, limit)
    each = sorted(
        (due, table)
        for table in TABLES
        for due in apply_windows(
            find_occurrences(plan.cron_schedule(table, ()), table, plan.jitter, NOON, until), own[table], plan.zone
        )
        if due.due_at <= until
    )
    assert [(run.occurrence, run.table) for run in found.runs] == each[: min(limit, found.total)]
    assert sum(found.by_hour.values()) == found.total
    if not jitter:
        assert found.total == len(each)
    assert {run.entry.cron for run in found.runs if run.table.name == "orders"} <= {ENTRY.cron}
