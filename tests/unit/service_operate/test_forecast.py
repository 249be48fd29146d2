"""What comes due, worked out together for tables that share a rhythm, is what each table's own rhythm says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from icepack.domain.scheduling.schedule import ScheduleEntry, Timetable, narrowed, occurrences
from icepack.domain.scheduling.windows import Window, parse_windows
from icepack.domain.table import TableId, TablePattern
from icepack.service.fleet.upcoming import Outlook, forecast

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
TABLES = [TableId("lake", ("sales",), name) for name in ("orders", "items", "log", "users")]
ENTRY = ScheduleEntry(pattern=TablePattern.parse("sales.o*"), line="30 */4 * * *")
WINDOWS = st.sampled_from(["", "22:00-06:00", "13:00-13:30; 20:00-21:00"]).map(parse_windows)
Windows = list[tuple[Window, ...]]


@given(st.sampled_from([0, 1, 45]), st.integers(0, 60), st.integers(1, 60), st.lists(WINDOWS, min_size=4, max_size=4))
@settings(deadline=None, max_examples=60)
def test_the_first_ones_are_those_of_all(jitter: int, limit: int, hours: int, windows: Windows) -> None:
    plan = Timetable(entries=(ENTRY,), jitter=timedelta(minutes=jitter))
    own, until = dict(zip(TABLES, windows, strict=True)), NOON + timedelta(hours=hours)
    outlook = Outlook(
        timetable=plan,
        rhythm=lambda table: plan.rhythm(table, ()),
        own_windows=own.__getitem__,
        after=NOON,
        until=until,
    )
    found = forecast(outlook, TABLES, limit)
    each = sorted(
        (due, table)
        for table in TABLES
        for due in narrowed(occurrences(plan.rhythm(table, ()), table, plan.jitter, NOON, until), own[table], plan.zone)
        if due.due_at <= until
    )
    assert [(run.occurrence, run.table) for run in found.runs] == each[: min(limit, found.total)]
    assert sum(found.by_hour.values()) == found.total
    if not jitter:
        assert found.total == len(each)
    assert {run.entry.line for run in found.runs if run.table.name == "orders"} <= {ENTRY.line}
