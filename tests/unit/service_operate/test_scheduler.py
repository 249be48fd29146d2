"""The scheduler over a real store: every tick once, none lost, none piled up."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Event
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icepack.domain.actions import ActionKind, Compact, Strategy
from icepack.domain.job import JobState, Submission
from icepack.domain.policy import Policy
from icepack.domain.scheduling.schedule import ScheduleEntry, Timetable
from icepack.domain.scheduling.windows import Window, parse_windows
from icepack.domain.table import TableId, TablePattern
from icepack.errors import Cancelled, CatalogFault, EnvironmentFault
from icepack.service.fleet.schedule_log import ACTOR, PASS, ScheduleLog
from icepack.service.loop import repeat
from icepack.service.retry import Backoff
from icepack.service.scheduler import End, Scheduler
from icepack.store.backend import Stores, open_stores

from .parts import DAY, HOUR, ITEMS, MINUTE, NOON, ORDERS, FakeAdvisor, HandClock, end_all, queued

Build = Callable[..., Scheduler]
NIGHT = (Window.parse("22:00-06:00"),)


@pytest.fixture
def build(stores: Stores, clock: HandClock, advisor: FakeAdvisor) -> Build:
    return lambda **facts: scheduler(stores, clock, advisor, **facts)


def scheduler(stores: Stores, clock: HandClock, advisor: FakeAdvisor, **facts: Any) -> Scheduler:
    entries = facts.pop("entries", ())
    defaults: dict[str, Any] = {
        "timetable": Timetable(entries=entries),
        "advisor": advisor,
        "tables": advisor.names,
        "windows": lambda _: (),
        "jobs": stores.jobs,
        "memory": ScheduleLog(stores.audit),
        "clock": clock,
        "threads": 2,
    }
    return Scheduler(**defaults | facts)


def entry(pattern: str, line: str, **compaction: Any) -> ScheduleEntry:
    return ScheduleEntry(pattern=TablePattern.parse(pattern), line=line, compaction=compaction or None)


def test_the_first_look_submits_nothing_and_remembers_where_it_began(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    advisor.add(ORDERS, small=50)
    assert build().run_once().answers == ()
    assert queued(stores) == []
    assert ScheduleLog(stores.audit).read() is not None


def test_a_tick_submits_what_is_recommended_then_in_order(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES))
    build().run_once()
    advisor.add(ORDERS, small=50)
    clock.forward(6 * HOUR)
    (answer,) = build().run_once().answers
    assert answer.end is End.SUBMITTED
    jobs = queued(stores)
    assert [job.kind for job in jobs] == [ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES]
    assert {job.requester for job in jobs} == {ACTOR}
    assert jobs[0].idempotency_key == "schedule:lake.sales.orders:2026-06-01T18:00:00+00:00:compact"


def test_a_healthy_table_gets_no_job(build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock) -> None:
    advisor.add(ORDERS)
    build().run_once()
    clock.forward(6 * HOUR)
    assert [answer.end for answer in build().run_once().answers] == [End.NOTHING]
    assert queued(stores) == []


def test_a_tick_is_seen_to_once_however_often_the_clock_is_looked_at(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.forward(6 * HOUR)
    for _ in range(5):
        build().run_once()
        clock.forward(15 * timedelta(seconds=1))
    assert len(queued(stores)) == 1
    assert advisor.asked[ORDERS] == 1


def test_nothing_is_written_while_nothing_happens(build: Build, stores: Stores, clock: HandClock) -> None:
    for _ in range(5):
        build().run_once()
        clock.forward(MINUTE)
    assert len(stores.audit.entries(action=PASS)) == 1


def test_an_entry_with_parameters_submits_exactly_those(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, properties={"write.target-file-size-bytes": "1000"}, target_file_bytes=1000)
    given = {"strategy": Strategy.DELETE_FILES, "target_file_bytes": 7_000_000, "max_cost_dollars": 3.0}
    facts = {"entries": (entry("orders", "*/30 * * * *", **given),)}
    build(**facts).run_once()
    clock.forward(30 * MINUTE)
    build(**facts).run_once()
    (job,) = queued(stores)
    assert isinstance(job.action, Compact)
    assert {name: getattr(job.action, name) for name in given} == given


def test_a_table_that_policy_leaves_alone_is_left_alone_by_its_schedule_too(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50, properties={"icepack.enabled": "false"})
    facts = {"entries": (entry("orders", "*/30 * * * *", strategy=Strategy.SMALL_FILES),)}
    build(**facts).run_once()
    clock.forward(30 * MINUTE)
    assert [answer.end for answer in build(**facts).run_once().answers] == [End.NOTHING]
    assert queued(stores) == []


def test_two_schedulers_at_one_tick_submit_once(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES))
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=50)
    build().run_once()
    clock.forward(6 * HOUR)
    both_have_read = Barrier(2)

    def tables() -> list[TableId]:
        both_have_read.wait(10)
        return advisor.names()

    with ThreadPoolExecutor(2) as pool:
        rounds = list(pool.map(lambda one: one.run_once(), [build(tables=tables), build(tables=tables)]))
    assert all(len(found.answers) == 2 for found in rounds)
    assert len(queued(stores)) == 4
    made = [item.outcome for found in rounds for answer in found.answers for item in answer.submissions]
    assert sorted(made) == ["created"] * 4 + ["repeated"] * 4


def test_another_scheduler_that_saw_the_table_differently_changes_nothing(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    late = ScheduleLog(stores.audit).read()
    clock.forward(6 * HOUR)
    build().run_once()
    advisor.add(ORDERS, small=5000)

    class Stale(ScheduleLog):
        def read(self) -> Any:
            return late

    end_all(stores)
    (answer,) = build(memory=Stale(stores.audit)).run_once().answers
    assert answer.end is End.REPEATED
    assert queued(stores) == []


class Dying:
    """A job store whose caller is killed after so many submissions."""

    def __init__(self, stores: Stores, after: int) -> None:
        self._jobs = stores.jobs
        self._left = after

    def submit(self, request: Any) -> Submission:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return self._jobs.submit(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_scheduler_that_is_killed_half_way_is_taken_up_where_it_was(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock, after: int
) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES))
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=50)
    build().run_once()
    clock.forward(6 * HOUR)
    with pytest.raises(KeyboardInterrupt):
        build(jobs=Dying(stores, after), threads=1).run_once()
    clock.forward(timedelta(seconds=20))
    build().run_once()
    assert [job.kind for job in queued(stores, ORDERS)] == [ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES]
    assert len(queued(stores)) == 4


def test_a_tick_is_left_out_while_jobs_of_an_earlier_one_are_not_done(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.forward(6 * HOUR)
    build().run_once()
    advisor.add(ORDERS, small=100)
    clock.forward(6 * HOUR)
    found = build().run_once()
    assert [answer.end for answer in found.answers] == [End.BUSY]
    assert "not done yet" in found.skipped[0].reason
    assert len(queued(stores)) == 1
    end_all(stores)
    clock.forward(6 * HOUR)
    assert [answer.end for answer in build().run_once().answers] == [End.SUBMITTED]


def test_a_table_in_trouble_is_tried_again_and_hinders_no_other(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=50)
    advisor.broken[ORDERS] = CatalogFault("It sleeps.")
    build().run_once()
    clock.forward(6 * HOUR)
    ends = {answer.call.table: answer.end for answer in build().run_once().answers}
    assert ends == {ORDERS: End.FAILED, ITEMS: End.SUBMITTED}
    clock.forward(timedelta(seconds=15))
    assert build().run_once().answers == ()
    clock.forward(MINUTE)
    assert [answer.end for answer in build().run_once().answers] == [End.FAILED]
    advisor.broken.clear()
    clock.forward(MINUTE)
    assert [answer.end for answer in build().run_once().answers] == [End.SUBMITTED]
    clock.forward(MINUTE)
    assert build().run_once().pending == {}


def test_a_table_in_trouble_for_too_long_waits_for_its_next_tick(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    advisor.broken[ORDERS] = RuntimeError("odd")
    build().run_once()
    clock.forward(6 * HOUR)
    build().run_once()
    clock.forward(HOUR + MINUTE)
    found = build().run_once()
    assert found.answers == ()
    assert [item.tick for item in found.skipped] == [NOON + 6 * HOUR]
    assert found.pending == {}


def test_a_table_waits_for_its_own_window(build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock) -> None:
    advisor.add(ORDERS, small=50, properties={"icepack.windows": "22:00-06:00"})
    build().run_once()
    clock.forward(6 * HOUR)
    (answer,) = build().run_once().answers
    assert (answer.end, answer.again_at) == (End.WAITING, NOON + 10 * HOUR)
    assert queued(stores) == []
    clock.forward(4 * HOUR)
    (answer,) = build().run_once().answers
    assert answer.end is End.SUBMITTED
    assert queued(stores)[0].idempotency_key == "schedule:lake.sales.orders:2026-06-01T18:00:00+00:00:compact"


def test_by_the_configurations_windows_a_tick_comes_due_when_they_open(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    facts = {"windows": lambda _: NIGHT}
    build(**facts).run_once()
    clock.forward(9 * HOUR)
    assert build(**facts).run_once().answers == ()
    clock.forward(HOUR)
    assert [answer.end for answer in build(**facts).run_once().answers] == [End.SUBMITTED]


@pytest.mark.parametrize(("hours", "runs", "missed"), [(12.5, 1, 1), (23.9, 0, 3), (24.0, 1, 3)])
def test_after_downtime_only_the_latest_tick_counts_and_the_others_are_recorded(
    build: Build,
    stores: Stores,
    advisor: FakeAdvisor,
    clock: HandClock,
    hours: float,
    runs: int,
    missed: int,
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.forward(timedelta(hours=hours))
    build().run_once()
    assert len(queued(stores)) == runs
    newest = stores.audit.entries(action=PASS, limit=1)[0]
    assert [item["count"] for item in newest.details["skipped"]] == [missed]
    assert newest.details["missed"] == missed
    assert "before a scheduler could see to it" in newest.details["skipped"][0]["reason"]


class Away:
    """A store that can be taken away."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.gone = False

    def __getattr__(self, name: str) -> Any:
        if self.gone:
            raise EnvironmentFault("The state database could not be used.")
        return getattr(self._inner, name)


def test_a_lost_database_loses_no_tick(build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.forward(6 * HOUR)
    jobs = Away(stores.jobs)
    jobs.gone = True
    with pytest.raises(EnvironmentFault):
        build(jobs=jobs).run_once()
    jobs.gone = False
    clock.forward(10 * MINUTE)
    assert [answer.end for answer in build(jobs=jobs).run_once().answers] == [End.SUBMITTED]


def test_a_loop_survives_a_lost_database_and_ends_when_told(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    jobs, stop, told = Away(stores.jobs), Event(), []
    one = build(jobs=jobs)
    one.run_once()
    clock.forward(6 * HOUR)
    jobs.gone = True

    tries = iter(range(4))

    def step() -> None:
        jobs.gone = next(tries) < 3
        one.run_once(stop)
        stop.set()

    pauses = Backoff(first_seconds=0.001, longest_seconds=0.002)
    repeat(step, every=HOUR, stop=stop, tell=told.append, backoff=pauses)
    assert told == ["The state database could not be used.", "All is well again."]
    assert len(queued(stores)) == 1


def test_being_told_to_stop_half_way_leaves_the_tick_to_the_next(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.forward(6 * HOUR)
    stop = Event()
    stop.set()
    with pytest.raises(Cancelled):
        build().run_once(stop)
    assert len(build().run_once().answers) == 1


def test_a_clock_that_goes_back_does_no_harm(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.forward(6 * HOUR)
    build().run_once()
    clock.forward(-HOUR)
    assert build().run_once().answers == ()
    clock.forward(2 * HOUR)
    build().run_once()
    assert len(queued(stores)) == 1


def test_what_is_upcoming_is_in_order_and_within_the_tables_own_windows(
    build: Build, advisor: FakeAdvisor, clock: HandClock
) -> None:
    facts = {"entries": (entry("orders", "0 */12 * * *", strategy=Strategy.SMALL_FILES),)}
    own = {ORDERS: NIGHT, ITEMS: ()}
    found = build(**facts).upcoming([ORDERS, ITEMS], own.__getitem__, NOON, NOON + DAY).runs
    shown = [(item.table.name, f"{item.occurrence.due_at:%d %H}") for item in found]
    assert shown == [
        ("items", "01 18"),
        ("items", "02 00"),
        ("orders", "02 00"),
        ("items", "02 06"),
        ("items", "02 12"),
    ]
    assert [item.entry.compaction is None for item in found] == [True, True, False, True, True]


looks = st.lists(st.sampled_from([1, 15, 40, 90, 200, 400, 1000]), min_size=1, max_size=8)


@given(looks, st.sampled_from(["", "22:00-06:00", "13:00-13:30; 20:00-21:00"]), st.sampled_from([0, 10]))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whenever_two_schedulers_look_no_tick_is_run_twice_or_too_late(
    migrated: Path, tmp_path: Path, minutes: list[int], windows: str, jitter: int
) -> None:
    """Both look in turns, at random times; jobs are done at once, so nothing but the keys keeps ticks apart."""
    stores = open_stores(f"sqlite:///{shutil.copy(migrated, tmp_path / f'{uuid4()}.db')}")
    clock = HandClock(NOON)
    advisor = FakeAdvisor(clock)
    advisor.add(ORDERS, small=50)
    timetable = Timetable(default_line="*/30 * * * *", jitter=jitter * MINUTE)
    facts: dict[str, Any] = {"timetable": timetable, "windows": lambda _: parse_windows(windows)}
    pair = [scheduler(stores, clock, advisor, **facts) for _ in range(2)]
    ran: list[datetime] = []
    for number, pause in enumerate(minutes):
        for one in (pair[number % 2], pair[(number + 1) % 2]):
            found = one.run_once()
            ran += [answer.call.occurrence.tick for answer in found.answers]
            assert all(clock.now - answer.call.occurrence.due_at <= HOUR for answer in found.answers)
            end_all(stores)
        clock.forward(pause * MINUTE)
    stores.close()
    assert ran == sorted(set(ran))
    assert all(tick.tzinfo is UTC for tick in ran)


def test_jobs_that_were_cancelled_do_not_come_back_for_the_same_tick(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    mark = ScheduleLog(stores.audit).read()
    clock.forward(6 * HOUR)
    build().run_once()
    stores.jobs.cancel(queued(stores)[0].id)

    class Stale(ScheduleLog):
        def read(self) -> Any:
            return mark

    build(memory=Stale(stores.audit)).run_once()
    assert queued(stores) == []
    assert stores.jobs.counts()[JobState.CANCELLED] == 1


def test_after_weeks_of_downtime_the_record_stays_short(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    facts = {"entries": (entry("orders", "*/30 * * * *"),)}
    build(**facts).run_once()
    clock.forward(60 * DAY)
    found = build(**facts).run_once()
    assert len(found.answers) == 1
    assert [item.count for item in found.skipped] == [7 * 48 - 1]


def test_no_catch_up_at_all_still_leaves_a_busy_scheduler_its_time(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    advisor.add(ORDERS, small=50)
    facts = {"timetable": Timetable(catch_up=timedelta(0))}
    build(**facts).run_once()
    clock.forward(6 * HOUR + 4 * MINUTE)
    assert len(build(**facts).run_once().answers) == 1
