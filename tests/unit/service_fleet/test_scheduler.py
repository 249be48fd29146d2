"""The scheduler with a real store: every tick is processed once, none is lost, none pile up."""

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
from icepack.service.scheduler import Scheduler, TickOutcome
from icepack.store.backend import Stores, open_stores

from .fakes import DAY, HOUR, ITEMS, MINUTE, NOON, ORDERS, FakeAdvisor, FakeClock, finish_all, list_queued

Build = Callable[..., Scheduler]
NIGHT = (Window.parse("22:00-06:00"),)


@pytest.fixture
def build(stores: Stores, clock: FakeClock, advisor: FakeAdvisor) -> Build:
    return lambda **facts: scheduler(stores, clock, advisor, **facts)


def scheduler(stores: Stores, clock: FakeClock, advisor: FakeAdvisor, **facts: Any) -> Scheduler:
    entries = facts.pop("entries", ())
    defaults: dict[str, Any] = {
        "timetable": Timetable(entries=entries),
        "advisor": advisor,
        "tables": advisor.names,
        "windows": lambda _: (),
        "jobs": stores.jobs,
        "schedule_log": ScheduleLog(stores.audit),
        "clock": clock,
        "threads": 2,
    }
    return Scheduler(**defaults | facts)


def entry(pattern: str, line: str, **compaction: Any) -> ScheduleEntry:
    return ScheduleEntry(pattern=TablePattern.parse(pattern), cron=line, compaction=compaction or None)


def test_the_first_pass_submits_nothing_and_writes_a_checkpoint(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    advisor.add(ORDERS, small=50)
    assert build().run_once().results == ()
    assert list_queued(stores) == []
    assert ScheduleLog(stores.audit).read() is not None


def test_a_tick_submits_what_is_recommended_then_in_order(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES))
    build().run_once()
    advisor.add(ORDERS, small=50)
    clock.advance(6 * HOUR)
    (result,) = build().run_once().results
    assert result.outcome is TickOutcome.SUBMITTED
    jobs = list_queued(stores)
    assert [job.kind for job in jobs] == [ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES]
    assert {job.requester for job in jobs} == {ACTOR}
    assert jobs[0].idempotency_key == "schedule:lake.sales.orders:2026-06-01T18:00:00+00:00:compact"


def test_a_healthy_table_gets_no_job(build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock) -> None:
    advisor.add(ORDERS)
    build().run_once()
    clock.advance(6 * HOUR)
    assert [result.outcome for result in build().run_once().results] == [TickOutcome.NOTHING]
    assert list_queued(stores) == []


def test_a_tick_is_processed_once_no_matter_how_many_passes_there_are(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.advance(6 * HOUR)
    for _ in range(5):
        build().run_once()
        clock.advance(15 * timedelta(seconds=1))
    assert len(list_queued(stores)) == 1
    assert advisor.advised[ORDERS] == 1


def test_nothing_is_written_while_nothing_happens(build: Build, stores: Stores, clock: FakeClock) -> None:
    for _ in range(5):
        build().run_once()
        clock.advance(MINUTE)
    assert len(stores.audit.entries(action=PASS)) == 1


def test_an_entry_with_parameters_submits_exactly_those(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, properties={"write.target-file-size-bytes": "1000"}, target_file_bytes=1000)
    given = {"strategy": Strategy.DELETE_FILES, "target_file_bytes": 7_000_000, "max_cost_dollars": 3.0}
    facts = {"entries": (entry("orders", "*/30 * * * *", **given),)}
    build(**facts).run_once()
    clock.advance(30 * MINUTE)
    build(**facts).run_once()
    (job,) = list_queued(stores)
    assert isinstance(job.action, Compact)
    assert {name: getattr(job.action, name) for name in given} == given


def test_a_table_that_the_policy_disables_is_not_scheduled(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50, properties={"icepack.enabled": "false"})
    facts = {"entries": (entry("orders", "*/30 * * * *", strategy=Strategy.SMALL_FILES),)}
    build(**facts).run_once()
    clock.advance(30 * MINUTE)
    assert [result.outcome for result in build(**facts).run_once().results] == [TickOutcome.NOTHING]
    assert list_queued(stores) == []


def test_two_schedulers_at_one_tick_submit_once(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES))
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=50)
    build().run_once()
    clock.advance(6 * HOUR)
    both_have_read = Barrier(2)

    def tables() -> list[TableId]:
        both_have_read.wait(10)
        return advisor.names()

    with ThreadPoolExecutor(2) as pool:
        rounds = list(pool.map(lambda one: one.run_once(), [build(tables=tables), build(tables=tables)]))
    assert all(len(found.results) == 2 for found in rounds)
    assert len(list_queued(stores)) == 4
    made = [item.outcome for found in rounds for result in found.results for item in result.submissions]
    assert sorted(made) == ["created"] * 4 + ["repeated"] * 4


def test_another_scheduler_that_saw_the_table_differently_changes_nothing(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    late = ScheduleLog(stores.audit).read()
    clock.advance(6 * HOUR)
    build().run_once()
    advisor.add(ORDERS, small=5000)

    class Stale(ScheduleLog):
        def read(self) -> Any:
            return late

    finish_all(stores)
    (result,) = build(schedule_log=Stale(stores.audit)).run_once().results
    assert result.outcome is TickOutcome.REPEATED
    assert list_queued(stores) == []


class KilledStore:
    """A job store whose caller is killed after some submissions."""

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
def test_the_next_scheduler_completes_the_tick_of_a_killed_one(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock, after: int
) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES))
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=50)
    build().run_once()
    clock.advance(6 * HOUR)
    with pytest.raises(KeyboardInterrupt):
        build(jobs=KilledStore(stores, after), threads=1).run_once()
    clock.advance(timedelta(seconds=20))
    build().run_once()
    assert [job.kind for job in list_queued(stores, ORDERS)] == [ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES]
    assert len(list_queued(stores)) == 4


def test_a_tick_is_skipped_while_jobs_of_an_earlier_one_are_active(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.advance(6 * HOUR)
    build().run_once()
    advisor.add(ORDERS, small=100)
    clock.advance(6 * HOUR)
    found = build().run_once()
    assert [result.outcome for result in found.results] == [TickOutcome.BUSY]
    assert "have not ended" in found.skipped[0].reason
    assert len(list_queued(stores)) == 1
    finish_all(stores)
    clock.advance(6 * HOUR)
    assert [result.outcome for result in build().run_once().results] == [TickOutcome.SUBMITTED]


def test_a_failing_table_is_retried_and_affects_no_other(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=50)
    advisor.broken[ORDERS] = CatalogFault("It sleeps.")
    build().run_once()
    clock.advance(6 * HOUR)
    outcomes = {result.tick.table: result.outcome for result in build().run_once().results}
    assert outcomes == {ORDERS: TickOutcome.FAILED, ITEMS: TickOutcome.SUBMITTED}
    clock.advance(timedelta(seconds=15))
    assert build().run_once().results == ()
    clock.advance(MINUTE)
    assert [result.outcome for result in build().run_once().results] == [TickOutcome.FAILED]
    advisor.broken.clear()
    clock.advance(MINUTE)
    assert [result.outcome for result in build().run_once().results] == [TickOutcome.SUBMITTED]
    clock.advance(MINUTE)
    assert build().run_once().pending == {}


def test_a_table_that_fails_for_too_long_waits_for_its_next_tick(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    advisor.broken[ORDERS] = RuntimeError("odd")
    build().run_once()
    clock.advance(6 * HOUR)
    build().run_once()
    clock.advance(HOUR + MINUTE)
    found = build().run_once()
    assert found.results == ()
    assert [item.tick for item in found.skipped] == [NOON + 6 * HOUR]
    assert found.pending == {}


def test_a_table_waits_for_its_own_window(build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock) -> None:
    advisor.add(ORDERS, small=50, properties={"icepack.windows": "22:00-06:00"})
    build().run_once()
    clock.advance(6 * HOUR)
    (result,) = build().run_once().results
    assert (result.outcome, result.retry_at) == (TickOutcome.WAITING, NOON + 10 * HOUR)
    assert list_queued(stores) == []
    clock.advance(4 * HOUR)
    (result,) = build().run_once().results
    assert result.outcome is TickOutcome.SUBMITTED
    assert list_queued(stores)[0].idempotency_key == "schedule:lake.sales.orders:2026-06-01T18:00:00+00:00:compact"


def test_a_tick_is_due_when_the_configured_window_opens(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    facts = {"windows": lambda _: NIGHT}
    build(**facts).run_once()
    clock.advance(9 * HOUR)
    assert build(**facts).run_once().results == ()
    clock.advance(HOUR)
    assert [result.outcome for result in build(**facts).run_once().results] == [TickOutcome.SUBMITTED]


@pytest.mark.parametrize(("hours", "runs", "missed"), [(12.5, 1, 1), (23.9, 0, 3), (24.0, 1, 3)])
def test_after_downtime_only_the_latest_tick_counts_and_the_others_are_recorded(
    build: Build,
    stores: Stores,
    advisor: FakeAdvisor,
    clock: FakeClock,
    hours: float,
    runs: int,
    missed: int,
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.advance(timedelta(hours=hours))
    build().run_once()
    assert len(list_queued(stores)) == runs
    newest = stores.audit.entries(action=PASS, limit=1)[0]
    assert [item["count"] for item in newest.details["skipped"]] == [missed]
    assert newest.details["missed"] == missed
    assert "before a scheduler could process it" in newest.details["skipped"][0]["reason"]


class FlakyStore:
    """A store that can be made unavailable."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.gone = False

    def __getattr__(self, name: str) -> Any:
        if self.gone:
            raise EnvironmentFault("The state database could not be used.")
        return getattr(self._inner, name)


def test_a_lost_database_loses_no_tick(build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.advance(6 * HOUR)
    jobs = FlakyStore(stores.jobs)
    jobs.gone = True
    with pytest.raises(EnvironmentFault):
        build(jobs=jobs).run_once()
    jobs.gone = False
    clock.advance(10 * MINUTE)
    assert [result.outcome for result in build(jobs=jobs).run_once().results] == [TickOutcome.SUBMITTED]


def test_a_loop_survives_a_lost_database_and_ends_when_stopped(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    jobs, stop, reported = FlakyStore(stores.jobs), Event(), []
    one = build(jobs=jobs)
    one.run_once()
    clock.advance(6 * HOUR)
    jobs.gone = True

    tries = iter(range(4))

    def step() -> None:
        jobs.gone = next(tries) < 3
        one.run_once(stop)
        stop.set()

    backoff = Backoff(initial_seconds=0.001, max_seconds=0.002)
    repeat(step, every=HOUR, stop=stop, report=reported.append, backoff=backoff)
    assert reported == ["The state database could not be used.", "Recovered."]
    assert len(list_queued(stores)) == 1


def test_a_stopped_pass_leaves_the_tick_to_the_next_one(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.advance(6 * HOUR)
    stop = Event()
    stop.set()
    with pytest.raises(Cancelled):
        build().run_once(stop)
    assert len(build().run_once().results) == 1


def test_a_clock_that_goes_back_does_no_harm(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    clock.advance(6 * HOUR)
    build().run_once()
    clock.advance(-HOUR)
    assert build().run_once().results == ()
    clock.advance(2 * HOUR)
    build().run_once()
    assert len(list_queued(stores)) == 1


def test_what_is_upcoming_is_in_order_and_within_the_tables_own_windows(
    build: Build, advisor: FakeAdvisor, clock: FakeClock
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


pauses = st.lists(st.sampled_from([1, 15, 40, 90, 200, 400, 1000]), min_size=1, max_size=8)


@given(pauses, st.sampled_from(["", "22:00-06:00", "13:00-13:30; 20:00-21:00"]), st.sampled_from([0, 10]))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_schedulers_never_process_a_tick_twice_or_too_late(
    migrated: Path, tmp_path: Path, minutes: list[int], windows: str, jitter: int
) -> None:
    """Both run in turns, at random times; jobs end immediately, so only the keys tell the ticks apart."""
    stores = open_stores(f"sqlite:///{shutil.copy(migrated, tmp_path / f'{uuid4()}.db')}")
    clock = FakeClock(NOON)
    advisor = FakeAdvisor(clock)
    advisor.add(ORDERS, small=50)
    timetable = Timetable(default_cron="*/30 * * * *", jitter=jitter * MINUTE)
    facts: dict[str, Any] = {"timetable": timetable, "windows": lambda _: parse_windows(windows)}
    pair = [scheduler(stores, clock, advisor, **facts) for _ in range(2)]
    ran: list[datetime] = []
    for number, pause in enumerate(minutes):
        for one in (pair[number % 2], pair[(number + 1) % 2]):
            found = one.run_once()
            ran += [result.tick.occurrence.tick for result in found.results]
            assert all(clock.now - result.tick.occurrence.due_at <= HOUR for result in found.results)
            finish_all(stores)
        clock.advance(pause * MINUTE)
    stores.close()
    assert ran == sorted(set(ran))
    assert all(tick.tzinfo is UTC for tick in ran)


def test_jobs_that_were_cancelled_do_not_come_back_for_the_same_tick(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    checkpoint = ScheduleLog(stores.audit).read()
    clock.advance(6 * HOUR)
    build().run_once()
    stores.jobs.cancel(list_queued(stores)[0].id)

    class Stale(ScheduleLog):
        def read(self) -> Any:
            return checkpoint

    build(schedule_log=Stale(stores.audit)).run_once()
    assert list_queued(stores) == []
    assert stores.jobs.counts()[JobState.CANCELLED] == 1


def test_after_weeks_of_downtime_the_record_stays_short(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    facts = {"entries": (entry("orders", "*/30 * * * *"),)}
    build(**facts).run_once()
    clock.advance(60 * DAY)
    found = build(**facts).run_once()
    assert len(found.results) == 1
    assert [item.count for item in found.skipped] == [7 * 48 - 1]


def test_no_catch_up_at_all_still_leaves_a_busy_scheduler_its_time(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    facts = {"timetable": Timetable(catch_up=timedelta(0))}
    build(**facts).run_once()
    clock.advance(6 * HOUR + 4 * MINUTE)
    assert len(build(**facts).run_once().results) == 1
