"""Chooses which tables of the fleet to maintain first, by benefit per cost, within budgets and concurrency limits.

The benefit of an action, in dollars per month, is what readers save on requests for removed files, plus the health
points that it recovers at a price per point, times the probability that no concurrent commit conflicts with it. The
cost is the estimate, plus the cores that are idle while the action starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from icepack.domain.actions import ActionKind
from icepack.domain.health import HealthReport, IssueCode
from icepack.domain.plan.cost import CostEstimate, CostModel, estimate_saved_dollars
from icepack.domain.policy import PROPERTY_PREFIX, Policy, PolicyRule, resolve_policy
from icepack.domain.recommendation import RecommendedAction
from icepack.domain.run import RunRecord
from icepack.domain.table import TableId, TablePattern, is_internal

# The action that recovers the points of an issue; no action reliably fixes an issue that is not listed.
FIXING_ACTIONS: Mapping[IssueCode, ActionKind] = {
    IssueCode.SMALL_FILES: ActionKind.COMPACT,
    IssueCode.DELETE_PRESSURE: ActionKind.COMPACT,
    IssueCode.STALE_COMPACTION: ActionKind.COMPACT,
    IssueCode.DANGLING_DELETES: ActionKind.REWRITE_POSITION_DELETES,
    IssueCode.FRAGMENTED_MANIFESTS: ActionKind.REWRITE_MANIFESTS,
    IssueCode.OVERSIZED_MANIFESTS: ActionKind.REWRITE_MANIFESTS,
    IssueCode.TOO_MANY_SNAPSHOTS: ActionKind.EXPIRE_SNAPSHOTS,
    IssueCode.SNAPSHOTS_PAST_RETENTION: ActionKind.EXPIRE_SNAPSHOTS,
}

# Avoids a division by zero for actions without cost.
MIN_COST_DOLLARS = 1e-9
# The layer name of a budget that is set for all tables.
EVERY_TABLE = "policy"


class Resource(StrEnum):
    """The resource that a budget limits; the value is the key of the policy setting."""

    DOLLARS = "daily_budget"
    COMPUTE = "daily_compute"


@dataclass(frozen=True, slots=True)
class Spending:
    dollars: float = 0.0
    compute_seconds: float = 0.0

    def of(self, resource: Resource) -> float:
        return self.dollars if resource is Resource.DOLLARS else self.compute_seconds

    def plus(self, other: Spending) -> Spending:
        return Spending(self.dollars + other.dollars, self.compute_seconds + other.compute_seconds)


@dataclass(frozen=True, slots=True, order=True)
class BudgetPool:
    """A daily budget, shared by all tables that get it from the same policy layer."""

    resource: Resource
    layer: str
    limit: float

    def format_amount(self, amount: float) -> str:
        return f"${amount:.4f}" if self.resource is Resource.DOLLARS else f"{amount:,.0f} core-seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A table and the actions recommended for it."""

    table: TableId
    score: int
    actions: tuple[RecommendedAction, ...]
    costs: tuple[Spending, ...]
    # Dollars per month; costs and benefits have one entry per action.
    benefits: tuple[float, ...]
    pools: tuple[BudgetPool, ...] = ()
    # Why the table cannot be maintained now; empty if it can.
    hold: str = ""

    @property
    def benefit_dollars(self) -> float:
        return sum(self.benefits)

    @property
    def cost_dollars(self) -> float:
        return sum(cost.dollars for cost in self.costs)

    def with_actions(self, actions: Sequence[RecommendedAction]) -> Candidate:
        """Returns the candidate with only these of its actions."""
        kept = [index for index, action in enumerate(self.actions) if action in actions]
        return replace(
            self,
            actions=tuple(self.actions[index] for index in kept),
            costs=tuple(self.costs[index] for index in kept),
            benefits=tuple(self.benefits[index] for index in kept),
        )

    @property
    def value(self) -> float:
        """The monthly benefit per dollar of cost."""
        return self.benefit_dollars / max(self.cost_dollars, MIN_COST_DOLLARS)


class DecisionOutcome(StrEnum):
    CHOSEN = "chosen"
    HELD = "held"
    OVER_BUDGET = "over_budget"
    NO_SLOT = "no_slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a candidate is chosen in this round, and why."""

    candidate: Candidate
    outcome: DecisionOutcome
    reason: str = ""
    # The chosen actions, in the order in which they run.
    actions: tuple[RecommendedAction, ...] = ()


def exclude_internal_tables(tables: Iterable[TableId], named: Sequence[TablePattern] = ()) -> list[TableId]:
    """Removes internal tables, unless the configuration names them."""
    return [table for table in tables if not is_internal(table) or any(name.matches(table) for name in named)]


def estimate_benefit_dollars(
    recommended: RecommendedAction,
    health: HealthReport,
    model: CostModel,
    *,
    scans_per_day: float,
    dollars_per_point: float,
) -> float:
    """Estimates the benefit of the action per month."""
    removed = recommended.effect.files_removed + recommended.effect.delete_files_removed
    points = sum(issue.penalty for issue in health.issues if FIXING_ACTIONS.get(issue.code) is recommended.kind)
    worth = estimate_saved_dollars(model, removed, scans_per_day) + points * dollars_per_point
    return worth * (1 - recommended.conflict_probability)


def estimate_spending(cost: CostEstimate, model: CostModel) -> Spending:
    """Adds the cores that are idle while the action starts to its estimated cost."""
    idle_seconds = model.startup_seconds * model.parallelism
    return Spending(cost.dollars + _compute_dollars(idle_seconds, model), cost.compute_seconds + idle_seconds)


def compute_realised_spending(run: RunRecord, model: CostModel) -> Spending:
    """Computes the cost of a run from its measured duration on all cores and its estimated requests."""
    return compute_spending(run.realised_seconds, run.estimate, model)


def compute_spending(seconds: float, estimate: CostEstimate | None, model: CostModel) -> Spending:
    compute_seconds = seconds * model.parallelism
    return Spending(_request_dollars(estimate, model) + _compute_dollars(compute_seconds, model), compute_seconds)


def _compute_dollars(core_seconds: float, model: CostModel) -> float:
    return core_seconds * model.memory_gb * model.compute_dollars_per_gb_second


def _request_dollars(estimate: CostEstimate | None, model: CostModel) -> float:
    if estimate is None:
        return 0.0
    gets = estimate.get_requests * model.get_dollars_per_1000
    return (gets + estimate.put_requests * model.put_dollars_per_1000) / 1000


def find_budget_pools(
    base: Policy, rules: Sequence[PolicyRule], table: TableId, properties: Mapping[str, str]
) -> tuple[BudgetPool, ...]:
    """Finds the table's budgets: for each resource, the one from the strongest layer that sets it."""
    policy = resolve_policy(base, rules, table, properties)
    limits = {resource: _to_amount(getattr(policy, resource.value)) for resource in Resource}
    return tuple(
        BudgetPool(resource, _find_layer(resource, rules, table, properties), limit)
        for resource, limit in limits.items()
        if limit is not None
    )


def _to_amount(value: Any) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _find_layer(resource: Resource, rules: Sequence[PolicyRule], table: TableId, properties: Mapping[str, str]) -> str:
    own = (key.removeprefix(PROPERTY_PREFIX) for key in properties if key.startswith(PROPERTY_PREFIX))
    if any(key.replace("-", "_").replace(".", "_") == resource.value for key in own):
        return str(table)
    setting = [rule for rule in rules if resource.value in rule.values and rule.pattern.matches(table)]
    return max(setting, key=lambda rule: rule.specificity(table)).pattern.text if setting else EVERY_TABLE


def rank_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sorts by benefit per dollar, highest first; among equals, the lowest health score comes first."""
    return sorted(candidates, key=lambda candidate: (-candidate.value, candidate.score, candidate.table))


def choose_candidates(candidates: Iterable[Candidate], spent: Mapping[BudgetPool, float], slots: int) -> list[Decision]:
    """Decides on every candidate, in order of rank; each chosen one takes a slot and part of its budgets."""
    spent = dict(spent)
    decisions: list[Decision] = []
    for candidate in rank_candidates(candidates):
        decision = _decide(candidate, spent, slots)
        if decision.outcome is DecisionOutcome.CHOSEN:
            slots -= 1
            _spend(decision, spent)
        decisions.append(decision)
    return decisions


def _decide(candidate: Candidate, spent: Mapping[BudgetPool, float], slots: int) -> Decision:
    if candidate.hold:
        return Decision(candidate=candidate, outcome=DecisionOutcome.HELD, reason=candidate.hold)
    if slots <= 0:
        return Decision(
            candidate=candidate,
            outcome=DecisionOutcome.NO_SLOT,
            reason="The limit of tables with active jobs is reached.",
        )
    affordable, reason = _select_affordable(candidate, spent)
    if not affordable:
        return Decision(candidate=candidate, outcome=DecisionOutcome.OVER_BUDGET, reason=reason)
    return Decision(candidate=candidate, outcome=DecisionOutcome.CHOSEN, reason=reason, actions=affordable)


def _select_affordable(
    candidate: Candidate, spent: Mapping[BudgetPool, float]
) -> tuple[tuple[RecommendedAction, ...], str]:
    """Returns the actions that fit the budgets; one that is too expensive does not block cheaper ones after it."""
    total, chosen, reason = Spending(), [], ""
    for action, cost in zip(candidate.actions, candidate.costs, strict=True):
        extended = total.plus(cost)
        full = next((pool for pool in candidate.pools if _remaining(pool, spent) < extended.of(pool.resource)), None)
        if full is None:
            chosen.append(action)
            total = extended
        else:
            reason = reason or _explain_over_budget(action, cost, full, spent)
    return tuple(chosen), reason


def _remaining(pool: BudgetPool, spent: Mapping[BudgetPool, float]) -> float:
    return pool.limit - spent.get(pool, 0.0)


def _explain_over_budget(
    action: RecommendedAction, cost: Spending, pool: BudgetPool, spent: Mapping[BudgetPool, float]
) -> str:
    needed = pool.format_amount(cost.of(pool.resource))
    left = pool.format_amount(max(_remaining(pool, spent), 0.0))
    return (
        f"{action.kind} needs {needed}, but only {left} of today's budget of {pool.format_amount(pool.limit)} is left "
        f"({pool.layer})."
    )


def _spend(decision: Decision, spent: dict[BudgetPool, float]) -> None:
    candidate = decision.candidate
    for action, cost in zip(candidate.actions, candidate.costs, strict=True):
        if action in decision.actions:
            for pool in candidate.pools:
                spent[pool] = spent.get(pool, 0.0) + cost.of(pool.resource)


def hold_candidate(candidate: Candidate, reason: str) -> Candidate:
    return replace(candidate, hold=reason)
