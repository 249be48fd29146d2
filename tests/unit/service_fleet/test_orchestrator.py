"""The orchestrator with a real store: the most benefit first, within budget and concurrency, nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any
from uuid import uuid4

import pytest

from icepack.domain.actions import ActionKind, Compact
from icepack.domain.fleet import DecisionOutcome
from icepack.domain.job import JobRequest, JobState
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.policy import Policy, PolicyRule, read_policy_values
from icepack.domain.ports.table_cache import CachedTable
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId, TablePattern
from icepack.errors import Cancelled, CatalogFault, EnvironmentFault
from icepack.service.advice import PolicyResolver
from icepack.service.fleet.candidates import CandidateBuilder, OrchestratorOptions
from icepack.service.fleet.spending import DailySpending, find_midnight
from icepack.service.orchestrator import ACTOR, SHADOW, SUBMIT, Orchestrator, OrchestratorPass
from icepack.store.backend import Stores

from .fakes import (
    DAY,
    HOUR,
    ITEMS,
    LOG,
    MINUTE,
    MODEL,
    NOON,
    ORDERS,
    FakeAdvisor,
    FakeClock,
    finish_all,
    list_queued,
    table,
)

Build = Callable[..., Orchestrator]


@pytest.fixture
def build(stores: Stores, clock: FakeClock, advisor: FakeAdvisor) -> Build:
    def build_one(rules: Sequence[PolicyRule] = (), **facts: Any) -> Orchestrator:
        options = OrchestratorOptions(**{"concurrency": 2, **facts.pop("options", {})})
        policies = PolicyResolver(base=advisor.policy, rules=rules)
        defaults: dict[str, Any] = {
            "advisor": advisor,
            "tables": advisor.names,
            "jobs": stores.jobs,
            "cache": stores.cache,
            "audit": stores.audit,
            "spending": DailySpending(stores.history, policies, MODEL, options.zone),
            "candidates": CandidateBuilder(policies, MODEL, options),
            "options": options,
            "clock": clock,
            "threads": 2,
        }
        return Orchestrator(**defaults | facts)

    return build_one


def cache_all(stores: Stores, advisor: FakeAdvisor) -> None:
    generation = stores.cache.begin("test", HOUR)
    advice = [advisor.advise(name) for name in advisor.names()]
    stores.cache.write(
        generation,
        [CachedTable(status=a.status, health=a.health, recommendation=a.recommendation) for a in advice],
    )
    stores.cache.swap(generation)
    advisor.advised.clear()


def outcomes_of(found: OrchestratorPass) -> dict[str, DecisionOutcome]:
    return {item.decision.candidate.table.name: item.decision.outcome for item in found.placed}


def reason_of(found: OrchestratorPass, of: TableId) -> str:
    return next(item.decision.reason for item in found.placed if item.decision.candidate.table == of)


def test_the_tables_with_the_most_benefit_get_the_slots(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.add(LOG, small=12)
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=30)
    advisor.add(table("ok"))
    found = build().run_once()
    assert [item.decision.candidate.table for item in found.placed] == [ORDERS, ITEMS, LOG]
    assert outcomes_of(found) == {
        "orders": DecisionOutcome.CHOSEN,
        "items": DecisionOutcome.CHOSEN,
        "log": DecisionOutcome.NO_SLOT,
    }
    jobs = list_queued(stores)
    assert [(job.table, job.kind, job.requester) for job in jobs] == [
        (ORDERS, ActionKind.COMPACT, ACTOR),
        (ITEMS, ActionKind.COMPACT, ACTOR),
    ]
    assert found.jobs == 2


def test_what_was_submitted_is_in_the_audit_log(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.add(ORDERS, small=50)
    build().run_once()
    (event,) = stores.audit.entries(action=SUBMIT)
    assert (event.subject, event.actor, event.outcome) == (str(ORDERS), ACTOR, "submitted")
    assert event.details["jobs"] == [str(list_queued(stores)[0].id)]
    assert event.details["benefit_dollars"] > event.details["cost_dollars"]


def test_tables_with_jobs_are_skipped_and_take_slots(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=30)
    advisor.add(LOG, small=12)
    stores.jobs.submit(JobRequest(table=ORDERS, action=Compact(), requester="somebody"))
    found = build().run_once()
    assert outcomes_of(found) == {
        "orders": DecisionOutcome.HELD,
        "items": DecisionOutcome.CHOSEN,
        "log": DecisionOutcome.NO_SLOT,
    }
    assert "queued or running" in reason_of(found, ORDERS)
    assert found.active_tables == 1
    assert build().run_once().jobs == 0


def test_all_actions_of_a_table_are_submitted_in_order(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES))
    advisor.add(ORDERS, small=50)
    build().run_once()
    assert [job.kind for job in list_queued(stores)] == [ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES]


def test_with_a_cache_only_chosen_tables_are_inspected(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    for number in range(20):
        advisor.add(table(f"t{number:02}"), small=20 + number)
    cache_all(stores, advisor)
    found = build().run_once()
    assert found.cache_age is not None
    assert found.jobs == 2
    assert set(advisor.advised) == {table("t18"), table("t19")}


def test_without_a_cache_every_table_is_inspected_once(build: Build, advisor: FakeAdvisor) -> None:
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS)
    found = build().run_once()
    assert found.cache_age is None
    assert advisor.advised == {ORDERS: 1, ITEMS: 1}


def test_an_outdated_cache_never_leads_to_a_wrong_job(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=30)
    advisor.add(LOG, small=12)
    cache_all(stores, advisor)
    advisor.add(ORDERS)
    build(options={"concurrency": 1}).run_once()
    assert [job.table for job in list_queued(stores)] == [ITEMS]
    assert LOG not in advisor.advised


def test_an_unreadable_table_affects_no_other(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=30)
    cache_all(stores, advisor)
    advisor.broken = {ORDERS: CatalogFault("It sleeps.")}
    found = build().run_once()
    assert found.failed == ((ORDERS, "It sleeps."),)
    assert [job.table for job in list_queued(stores)] == [ITEMS]


def test_a_lost_database_ends_the_pass(build: Build, advisor: FakeAdvisor) -> None:
    advisor.add(ORDERS, small=50)
    advisor.broken = {ORDERS: EnvironmentFault("away")}
    with pytest.raises(EnvironmentFault):
        build().run_once()


def test_a_stopped_pass_submits_nothing(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.add(ORDERS, small=50)
    stop = Event()
    stop.set()
    with pytest.raises(Cancelled):
        build().run_once(stop=stop)
    cache_all(stores, advisor)
    with pytest.raises(Cancelled):
        build().run_once(stop=stop)
    assert list_queued(stores) == []


def test_a_closed_window_holds_a_table(build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock) -> None:
    advisor.add(ORDERS, small=50, properties={"icepack.windows": "22:00-06:00"})
    found = build().run_once()
    assert reason_of(found, ORDERS) == "Its window is closed until 2026-06-01 22:00 UTC."
    clock.advance(10 * HOUR)
    assert build().run_once().jobs == 1


def test_shadow_mode_only_writes_to_the_audit_log_once_a_day(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    for _ in range(3):
        found = build().run_once(shadow=True)
        assert outcomes_of(found) == {"orders": DecisionOutcome.CHOSEN}
        clock.advance(5 * MINUTE)
    assert list_queued(stores) == []
    (event,) = stores.audit.entries(actor=ACTOR)
    assert (event.action, event.subject, event.outcome) == (SHADOW, str(ORDERS), "would be submitted")
    assert event.details["actions"] == ["compact"]
    clock.advance(DAY)
    build().run_once(shadow=True)
    assert len(stores.audit.entries(action=SHADOW)) == 2


def test_a_failed_action_is_not_submitted_again_for_a_while(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    clock.now = stores.jobs.now()
    advisor.add(ORDERS, small=50)
    build().run_once()
    finish_all(stores, JobState.FAILED)
    clock.now = stores.jobs.now()
    found = build().run_once()
    assert outcomes_of(found) == {"orders": DecisionOutcome.HELD}
    assert reason_of(found, ORDERS).startswith("Its last job (compact) failed ")
    clock.advance(6 * HOUR + MINUTE)
    assert build().run_once().jobs == 1


def test_a_failed_action_does_not_hold_the_others_of_its_table(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES))
    advisor.add(ORDERS, small=50)
    stores.jobs.submit(JobRequest(table=ORDERS, action=Compact()))
    finish_all(stores, JobState.FAILED)
    clock.now = stores.jobs.now()
    build().run_once()
    assert [job.kind for job in list_queued(stores)] == [ActionKind.REMOVE_ORPHAN_FILES]


def test_after_a_success_the_same_may_be_submitted_again(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.add(ORDERS, small=50)
    assert build().run_once().jobs == 1
    finish_all(stores)
    assert build().run_once().jobs == 1


def test_two_orchestrators_at_once_submit_once(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT, ActionKind.REMOVE_ORPHAN_FILES))
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=30)
    both_have_decided = Barrier(2)

    class SlowStore:
        """Delays submissions until both orchestrators have decided, and finishes each job immediately."""

        def __init__(self) -> None:
            self._first = True

        def submit(self, request: JobRequest) -> Any:
            if self._first:
                both_have_decided.wait(10)
                self._first = False
            submission = stores.jobs.submit(request)
            finish_all(stores)
            return submission

        def __getattr__(self, name: str) -> Any:
            return getattr(stores.jobs, name)

    pair = [build(jobs=SlowStore()), build(jobs=SlowStore())]
    with ThreadPoolExecutor(2) as pool:
        passes = list(pool.map(lambda one: one.run_once(), pair))
    assert sum(found.jobs for found in passes) == 4
    assert len(stores.jobs.list_jobs().jobs) == 4


def rule(pattern: str, **values: Any) -> PolicyRule:
    return PolicyRule(TablePattern.parse(pattern), read_policy_values(values, "test"))


def test_queued_jobs_count_against_the_daily_budget(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    for name in ("a", "b", "c"):
        advisor.add(table(name), small=400)
    one = sum(c.cost_dollars for c in [build().run_once(shadow=True).placed[0].decision.candidate])
    advisor.policy = Policy(actions=(ActionKind.COMPACT,), daily_budget=one * 2.5)
    found = build(options={"concurrency": 9}).run_once()
    assert list(outcomes_of(found).values()) == [
        DecisionOutcome.CHOSEN,
        DecisionOutcome.CHOSEN,
        DecisionOutcome.OVER_BUDGET,
    ]
    again = build(options={"concurrency": 9}).run_once()
    assert list(again.spent.values()) == [pytest.approx(one * 2)]
    assert outcomes_of(again)["c"] is DecisionOutcome.OVER_BUDGET


def test_runs_of_today_count_by_their_measured_time(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    advisor.add(ORDERS, small=50)
    advisor.policy = Policy(actions=(ActionKind.COMPACT,), daily_budget=0.48001)
    for started in (NOON - 13 * HOUR, NOON - 11 * HOUR, NOON - HOUR):
        stores.history.save(
            RunRecord(
                job_id=uuid4(),
                table=LOG,
                action=Compact(),
                state=RunState.SUCCEEDED,
                started_at=started,
                realised_seconds=3600,
                estimate=CostEstimate(dollars=99),
            )
        )
    found = build().run_once()
    assert list(found.spent.values()) == [pytest.approx(2 * 3600 * 2 * 2 * 0.0000166667)]
    assert "is left (policy)" in reason_of(found, ORDERS)
    clock.advance(12 * HOUR)
    assert build().run_once().jobs == 1


def test_a_running_job_counts_once_by_its_estimate(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.policy = Policy(actions=(ActionKind.COMPACT,), daily_budget=0.5)
    stores.jobs.submit(JobRequest(table=LOG, action=Compact()))
    claim = stores.jobs.claim("w", HOUR)
    assert claim is not None
    stores.history.save(
        RunRecord(
            job_id=claim.job_id,
            table=LOG,
            action=Compact(),
            state=RunState.RUNNING,
            started_at=NOON,
            estimate=CostEstimate(dollars=0.25),
        )
    )
    assert list(build().run_once().spent.values()) == [pytest.approx(0.25, abs=0.001)]


def test_a_budget_of_some_tables_is_shared_by_those_alone(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    advisor.add(ORDERS, small=50)
    advisor.add(ITEMS, small=50)
    advisor.add(LOG, small=50)
    cost = build().run_once(shadow=True).placed[0].decision.candidate.cost_dollars
    rules = [rule("sales.*", daily_budget=cost * 1.5), rule("lake.*", daily_compute="1000h")]
    found = build(rules, options={"concurrency": 9}).run_once()
    assert outcomes_of(found) == {
        "items": DecisionOutcome.CHOSEN,
        "orders": DecisionOutcome.OVER_BUDGET,
        "log": DecisionOutcome.CHOSEN,
    }
    assert "(sales.*)" in reason_of(found, ORDERS)


def test_the_day_starts_at_midnight_in_the_time_zone() -> None:
    from zoneinfo import ZoneInfo

    assert find_midnight(NOON, ZoneInfo("Europe/Berlin")) == NOON.replace(day=31, month=5, hour=22)
