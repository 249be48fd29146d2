"""Ranking a fleet by benefit over cost, within budgets and slots."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import NOW, TABLE, small_files, status
from icepack.domain.actions import ActionKind, Compact, ExpireSnapshots, RemoveOrphanFiles, RewriteManifests
from icepack.domain.fleet import (
    EVERY_TABLE,
    BudgetPool,
    Candidate,
    DecisionOutcome,
    Resource,
    Spending,
    choose_candidates,
    compute_realised_spending,
    estimate_benefit_dollars,
    estimate_spending,
    exclude_internal_tables,
    find_budget_pools,
    hold_candidate,
    rank_candidates,
)
from icepack.domain.health import assess_health
from icepack.domain.plan.cost import CostEstimate, CostModel, estimate_saved_dollars
from icepack.domain.policy import Policy, PolicyRule, read_policy_values
from icepack.domain.recommendation import ExpectedEffect, RecommendedAction
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId, TablePattern

MODEL = CostModel()
ACTIONS = {
    ActionKind.COMPACT: Compact(),
    ActionKind.REWRITE_MANIFESTS: RewriteManifests(),
    ActionKind.EXPIRE_SNAPSHOTS: ExpireSnapshots(),
    ActionKind.REMOVE_ORPHAN_FILES: RemoveOrphanFiles(),
}
BUDGET = BudgetPool(Resource.DOLLARS, EVERY_TABLE, 1.0)
CORES = BudgetPool(Resource.COMPUTE, "sales.*", 100.0)


def action(kind: ActionKind = ActionKind.COMPACT, dollars: float = 0.1, **facts: object) -> RecommendedAction:
    defaults = {"reason": "", "effect": ExpectedEffect(), "conflict_probability": 0.0}
    cost = CostEstimate(dollars=dollars)
    return RecommendedAction(action=ACTIONS[kind], cost=cost, **{**defaults, **facts})  # type: ignore[arg-type]


def candidate(name: str, *costs: float, benefit: float = 1.0, **facts: object) -> Candidate:
    spent = costs or (0.1,)
    kinds = list(ACTIONS)[: len(spent)]
    defaults = {"score": 50, "pools": (BUDGET,)}
    return Candidate(
        table=TableId("lake", ("sales",), name),
        actions=tuple(action(kind, dollars) for kind, dollars in zip(kinds, spent, strict=True)),
        costs=tuple(Spending(dollars, dollars * 1000) for dollars in spent),
        benefits=(benefit, *[0.0] * (len(spent) - 1)),
        **{**defaults, **facts},  # type: ignore[arg-type]
    )


amounts = st.floats(0.001, 2.0)
candidates = st.lists(
    st.builds(
        lambda name, costs, benefit, score, pools, hold: candidate(
            f"t{name}", *costs, benefit=benefit, score=score, pools=pools, hold=hold
        ),
        st.integers(0, 10_000),
        st.lists(amounts, min_size=1, max_size=4),
        st.floats(0, 5),
        st.integers(0, 100),
        st.sampled_from([(), (BUDGET,), (CORES,), (BUDGET, CORES)]),
        st.sampled_from(["", "", "", "Its window is closed."]),
    ),
    max_size=12,
    unique_by=lambda item: item.table,
)
spent_before = st.fixed_dictionaries({}, optional={BUDGET: st.floats(0, 1.5), CORES: st.floats(0, 150)})


@given(candidates, spent_before, st.integers(0, 6))
def test_no_choice_goes_over_a_budget_or_the_slots(
    fleet: list[Candidate], spent: dict[BudgetPool, float], slots: int
) -> None:
    decisions = choose_candidates(fleet, spent, slots)
    chosen = [decision for decision in decisions if decision.outcome is DecisionOutcome.CHOSEN]
    assert len(chosen) <= slots
    assert all(decision.actions and not decision.candidate.hold for decision in chosen)
    for pool in (BUDGET, CORES):
        drawn = sum(
            cost.of(pool.resource)
            for decision in chosen
            if pool in decision.candidate.pools
            for action_, cost in zip(decision.candidate.actions, decision.candidate.costs, strict=True)
            if action_ in decision.actions
        )
        assert drawn <= max(pool.limit - spent.get(pool, 0.0), 0.0) + 1e-9


@given(candidates, spent_before, st.integers(0, 6), st.randoms())
def test_the_order_in_which_tables_come_decides_nothing(
    fleet: list[Candidate], spent: dict[BudgetPool, float], slots: int, random: object
) -> None:
    shuffled = list(fleet)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose_candidates(shuffled, spent, slots) == choose_candidates(fleet, spent, slots)


@given(candidates, spent_before, st.integers(0, 6))
def test_every_candidate_gets_one_decision_in_the_order_of_rank(
    fleet: list[Candidate], spent: dict[BudgetPool, float], slots: int
) -> None:
    decisions = choose_candidates(fleet, spent, slots)
    assert [decision.candidate for decision in decisions] == rank_candidates(fleet)
    assert all(decision.reason for decision in decisions if decision.outcome is not DecisionOutcome.CHOSEN)
    values = [decision.candidate.value for decision in decisions]
    assert values == sorted(values, reverse=True)


@given(candidates, st.integers(1, 6))
def test_without_budgets_the_best_take_the_slots(fleet: list[Candidate], slots: int) -> None:
    free = [candidate(item.table.name, benefit=item.benefit_dollars, pools=()) for item in fleet]
    chosen = [
        decision.candidate
        for decision in choose_candidates(free, {}, slots)
        if decision.outcome is DecisionOutcome.CHOSEN
    ]
    assert chosen == rank_candidates(free)[:slots]


def test_an_expensive_table_does_not_block_a_cheap_one() -> None:
    decisions = choose_candidates(
        [candidate("expensive", 2.0, benefit=100.0), candidate("cheap", 0.5, benefit=1.0)], {}, 4
    )
    assert [(item.candidate.table.name, item.outcome) for item in decisions] == [
        ("expensive", DecisionOutcome.OVER_BUDGET),
        ("cheap", DecisionOutcome.CHOSEN),
    ]
    assert decisions[0].reason == (
        "compact needs $2.0000, but only $1.0000 of today's budget of $1.0000 is left (policy)."
    )


def test_an_expensive_compaction_does_not_block_cheaper_actions_of_its_table() -> None:
    (decision,) = choose_candidates([candidate("orders", 2.0, 0.1, 0.1)], {}, 4)
    assert decision.outcome is DecisionOutcome.CHOSEN
    assert [item.kind for item in decision.actions] == [ActionKind.REWRITE_MANIFESTS, ActionKind.EXPIRE_SNAPSHOTS]
    assert "compact needs" in decision.reason


def test_a_table_on_hold_takes_no_slot() -> None:
    fleet = [
        hold_candidate(candidate("a", benefit=9.0), "Its window is closed."),
        candidate("b"),
        candidate("c", benefit=0.5),
    ]
    assert [item.outcome for item in choose_candidates(fleet, {}, 1)] == [
        DecisionOutcome.HELD,
        DecisionOutcome.CHOSEN,
        DecisionOutcome.NO_SLOT,
    ]


def test_what_was_spent_today_counts() -> None:
    (decision,) = choose_candidates([candidate("a", 0.2)], {BUDGET: 0.9}, 4)
    assert decision.outcome is DecisionOutcome.OVER_BUDGET


def test_the_benefit_is_what_readers_save_and_what_health_wins() -> None:
    table = status(small_files(count=200))
    health = assess_health(table, NOW)
    points = sum(issue.penalty for issue in health.issues)
    found = estimate_benefit_dollars(
        action(effect=ExpectedEffect(files_removed=150, delete_files_removed=10), conflict_probability=0.25),
        health,
        MODEL,
        scans_per_day=24,
        dollars_per_point=0.02,
    )
    assert points > 40
    assert found == pytest.approx((estimate_saved_dollars(MODEL, 160, 24) + points * 0.02) * 0.75)


def test_only_the_action_that_fixes_an_issue_wins_its_points() -> None:
    health = assess_health(status(small_files(count=200)), NOW)
    orphans = action(ActionKind.REMOVE_ORPHAN_FILES)
    assert estimate_benefit_dollars(orphans, health, MODEL, scans_per_day=24, dollars_per_point=1.0) == 0.0


def test_a_start_costs_what_the_waiting_cores_cost() -> None:
    spent = estimate_spending(CostEstimate(dollars=0.5, compute_seconds=10), MODEL)
    assert spent.compute_seconds == 10 + MODEL.startup_seconds * MODEL.parallelism
    assert 0.5 < spent.dollars < 0.501


def test_a_run_that_ended_cost_what_it_took() -> None:
    run = RunRecord(
        job_id=uuid4(),
        table=TABLE,
        action=Compact(),
        state=RunState.SUCCEEDED,
        started_at=NOW,
        realised_seconds=100,
        estimate=CostEstimate(get_requests=1000, put_requests=1000, dollars=99.0),
    )
    spent = compute_realised_spending(run, MODEL)
    assert spent.compute_seconds == 200
    assert spent.dollars == pytest.approx(0.0004 + 0.005 + 200 * 2 * 0.0000166667)


def test_a_table_uses_the_budget_of_the_strongest_layer_that_sets_one() -> None:
    def rule(pattern: str, **values: object) -> PolicyRule:
        return PolicyRule(TablePattern.parse(pattern), read_policy_values(values, "test"))

    base = Policy(daily_budget=10.0, daily_compute=timedelta(hours=1))
    rules = (rule("sales.*", daily_budget=2), rule("sales.audit", daily_budget="none"), rule("ops.*", layout="sort"))
    cores = BudgetPool(Resource.COMPUTE, EVERY_TABLE, 3600.0)

    def pools(name: str, **properties: str) -> tuple[BudgetPool, ...]:
        return find_budget_pools(base, rules, TableId.parse(name), properties)

    assert pools("lake.sales.orders") == (BudgetPool(Resource.DOLLARS, "sales.*", 2.0), cores)
    assert pools("lake.sales.audit") == (cores,)
    assert pools("lake.ops.log") == (BudgetPool(Resource.DOLLARS, EVERY_TABLE, 10.0), cores)
    own = pools("lake.sales.orders", **{"icepack.daily-budget": "0.5"})
    assert own == (BudgetPool(Resource.DOLLARS, "lake.sales.orders", 0.5), cores)


def test_internal_tables_are_excluded_unless_they_are_named() -> None:
    log, orders = TableId("lake", ("ops",), "_log"), TableId("lake", ("ops",), "orders")
    assert exclude_internal_tables([log, orders]) == [orders]
    assert exclude_internal_tables([log, orders], [TablePattern.parse("ops._log")]) == [log, orders]
