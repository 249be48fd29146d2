"""Which tables come first: by what they gain for what they cost, within budgets and concurrency.

Benefit, in dollars a month, of one action: what readers no longer pay for files that are gone, plus the health points
that the action wins back at a price per point, times the chance that no writer gets in its way. Cost: the estimate,
plus the cores that wait while the action starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from icepack.domain.actions import ActionKind
from icepack.domain.health import HealthReport, IssueCode
from icepack.domain.plan.cost import CostEstimate, CostModel, saved_dollars
from icepack.domain.policy import PROPERTY_PREFIX, Policy, PolicyRule, resolve_policy
from icepack.domain.recommendation.recommend import RecommendedAction
from icepack.domain.run import RunRecord
from icepack.domain.table import TableId, TablePattern, is_internal

CURES: Mapping[IssueCode, ActionKind] = {
    IssueCode.SMALL_FILES: ActionKind.COMPACT,
    IssueCode.DELETE_PRESSURE: ActionKind.COMPACT,
    IssueCode.STALE_COMPACTION: ActionKind.COMPACT,
    IssueCode.DANGLING_DELETES: ActionKind.REWRITE_POSITION_DELETES,
    IssueCode.FRAGMENTED_MANIFESTS: ActionKind.REWRITE_MANIFESTS,
    IssueCode.OVERSIZED_MANIFESTS: ActionKind.REWRITE_MANIFESTS,
    IssueCode.TOO_MANY_SNAPSHOTS: ActionKind.EXPIRE_SNAPSHOTS,
    IssueCode.SNAPSHOTS_PAST_RETENTION: ActionKind.EXPIRE_SNAPSHOTS,
}
"""Which action wins back an issue's points; what is not here, no action does for sure."""

LEAST_COST = 1e-9
EVERY_TABLE = "policy"


class Resource(StrEnum):
    """What a budget is in; the value is the policy's key for it."""

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
class Pool:
    """A day's budget, shared by all tables that have it from the same layer."""

    resource: Resource
    layer: str
    limit: float

    def shown(self, amount: float) -> str:
        return f"${amount:.4f}" if self.resource is Resource.DOLLARS else f"{amount:,.0f} core-seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A table and what is recommended for it."""

    table: TableId
    score: int
    actions: tuple[RecommendedAction, ...]
    costs: tuple[Spending, ...]
    benefits: tuple[float, ...]
    """Dollars a month; both have one entry per action."""
    pools: tuple[Pool, ...] = ()
    hold: str = ""
    """Why it cannot be now; empty if nothing speaks against it."""

    @property
    def benefit_dollars(self) -> float:
        return sum(self.benefits)

    @property
    def cost_dollars(self) -> float:
        return sum(cost.dollars for cost in self.costs)

    def only(self, actions: Sequence[RecommendedAction]) -> Candidate:
        """With these of its actions alone."""
        kept = [index for index, action in enumerate(self.actions) if action in actions]
        return replace(
            self,
            actions=tuple(self.actions[index] for index in kept),
            costs=tuple(self.costs[index] for index in kept),
            benefits=tuple(self.benefits[index] for index in kept),
        )

    @property
    def value(self) -> float:
        """What a dollar spent on it brings in a month."""
        return self.benefit_dollars / max(self.cost_dollars, LEAST_COST)


class Fate(StrEnum):
    CHOSEN = "chosen"
    HELD = "held"
    OVER_BUDGET = "over_budget"
    NO_SLOT = "no_slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a candidate in this round, and why."""

    candidate: Candidate
    fate: Fate
    reason: str = ""
    actions: tuple[RecommendedAction, ...] = ()
    """Those that are chosen, in the order in which they run."""


def watched(tables: Iterable[TableId], named: Sequence[TablePattern] = ()) -> list[TableId]:
    """All but the internal ones, unless the configuration names them."""
    return [table for table in tables if not is_internal(table) or any(name.matches(table) for name in named)]


def benefit_dollars(
    recommended: RecommendedAction,
    health: HealthReport,
    model: CostModel,
    *,
    scans_per_day: float,
    dollars_per_point: float,
) -> float:
    """An estimate of what the action is worth in a month."""
    gone = recommended.effect.files_removed + recommended.effect.delete_files_removed
    points = sum(issue.penalty for issue in health.issues if CURES.get(issue.code) is recommended.kind)
    worth = saved_dollars(model, gone, scans_per_day) + points * dollars_per_point
    return worth * (1 - recommended.conflict_probability)


def expected_spending(cost: CostEstimate, model: CostModel) -> Spending:
    """The estimate, and the cores that wait while the action starts."""
    waiting = model.startup_seconds * model.parallelism
    return Spending(cost.dollars + _compute_dollars(waiting, model), cost.compute_seconds + waiting)


def realised_spending(run: RunRecord, model: CostModel) -> Spending:
    """The seconds are measured and count for every core; the requests are those of the estimate."""
    return realised_spending_of(run.realised_seconds, run.estimate, model)


def realised_spending_of(seconds: float, estimate: CostEstimate | None, model: CostModel) -> Spending:
    compute_seconds = seconds * model.parallelism
    return Spending(_request_dollars(estimate, model) + _compute_dollars(compute_seconds, model), compute_seconds)


def _compute_dollars(core_seconds: float, model: CostModel) -> float:
    return core_seconds * model.memory_gb * model.compute_dollars_per_gb_second


def _request_dollars(estimate: CostEstimate | None, model: CostModel) -> float:
    if estimate is None:
        return 0.0
    gets = estimate.get_requests * model.get_dollars_per_1000
    return (gets + estimate.put_requests * model.put_dollars_per_1000) / 1000


def pools_of(
    base: Policy, rules: Sequence[PolicyRule], table: TableId, properties: Mapping[str, str]
) -> tuple[Pool, ...]:
    """The budgets that the table draws on: of each kind, that of the last layer which sets one."""
    policy = resolve_policy(base, rules, table, properties)
    limits = {resource: _amount(getattr(policy, resource.value)) for resource in Resource}
    return tuple(
        Pool(resource, _layer(resource, rules, table, properties), limit)
        for resource, limit in limits.items()
        if limit is not None
    )


def _amount(value: Any) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _layer(resource: Resource, rules: Sequence[PolicyRule], table: TableId, properties: Mapping[str, str]) -> str:
    own = (key.removeprefix(PROPERTY_PREFIX) for key in properties if key.startswith(PROPERTY_PREFIX))
    if any(key.replace("-", "_").replace(".", "_") == resource.value for key in own):
        return str(table)
    setting = [rule for rule in rules if resource.value in rule.values and rule.pattern.matches(table)]
    return max(setting, key=lambda rule: rule.rank(table)).pattern.text if setting else EVERY_TABLE


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """What brings most for a dollar first; among equals the sickest."""
    return sorted(candidates, key=lambda candidate: (-candidate.value, candidate.score, candidate.table))


def choose(candidates: Iterable[Candidate], spent: Mapping[Pool, float], slots: int) -> list[Decision]:
    """One decision per candidate, in their order of rank; each that is chosen takes a slot and part of its budgets."""
    spent = dict(spent)
    decisions: list[Decision] = []
    for candidate in rank(candidates):
        decision = _decide(candidate, spent, slots)
        if decision.fate is Fate.CHOSEN:
            slots -= 1
            _draw(decision, spent)
        decisions.append(decision)
    return decisions


def _decide(candidate: Candidate, spent: Mapping[Pool, float], slots: int) -> Decision:
    if candidate.hold:
        return Decision(candidate=candidate, fate=Fate.HELD, reason=candidate.hold)
    if slots <= 0:
        return Decision(candidate=candidate, fate=Fate.NO_SLOT, reason="As many tables as allowed have jobs already.")
    affordable, reason = _affordable(candidate, spent)
    if not affordable:
        return Decision(candidate=candidate, fate=Fate.OVER_BUDGET, reason=reason)
    return Decision(candidate=candidate, fate=Fate.CHOSEN, reason=reason, actions=affordable)


def _affordable(candidate: Candidate, spent: Mapping[Pool, float]) -> tuple[tuple[RecommendedAction, ...], str]:
    """The actions that fit, in order: a compaction that is too dear does not keep the cheap ones from running."""
    total, chosen, reason = Spending(), [], ""
    for action, cost in zip(candidate.actions, candidate.costs, strict=True):
        with_it = total.plus(cost)
        full = next((pool for pool in candidate.pools if _left(pool, spent) < with_it.of(pool.resource)), None)
        if full is None:
            chosen.append(action)
            total = with_it
        else:
            reason = reason or _over(action, cost, full, spent)
    return tuple(chosen), reason


def _left(pool: Pool, spent: Mapping[Pool, float]) -> float:
    return pool.limit - spent.get(pool, 0.0)


def _over(action: RecommendedAction, cost: Spending, pool: Pool, spent: Mapping[Pool, float]) -> str:
    needed = pool.shown(cost.of(pool.resource))
    left = pool.shown(max(_left(pool, spent), 0.0))
    return f"{action.kind} needs {needed}; {left} of {pool.shown(pool.limit)} is left today ({pool.layer})."


def _draw(decision: Decision, spent: dict[Pool, float]) -> None:
    candidate = decision.candidate
    for action, cost in zip(candidate.actions, candidate.costs, strict=True):
        if action in decision.actions:
            for pool in candidate.pools:
                spent[pool] = spent.get(pool, 0.0) + cost.of(pool.resource)


def held(candidate: Candidate, reason: str) -> Candidate:
    return replace(candidate, hold=reason)
