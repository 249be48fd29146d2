"""What is known about a table: its status, health and policy, and the recommendation that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from icepack.domain.actions import ActionKind, Compact
from icepack.domain.health import HealthReport
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.policy import Policy, PolicyRule, resolve_policy
from icepack.domain.ports.catalog import ExpiryPreview
from icepack.domain.recommendation import Recommendation, RecommendedAction
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResolver:
    """Determines the policy of each table."""

    base: Policy
    rules: Sequence[PolicyRule]

    def policy_for(self, table: TableId, properties: Mapping[str, str]) -> Policy:
        return resolve_policy(self.base, self.rules, table, properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A table's status and health."""

    status: TableStatus
    health: HealthReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A table's status, health and policy, and the recommendation that follows from them."""

    status: TableStatus
    health: HealthReport
    policy: Policy
    recommendation: Recommendation

    def find(self, kind: ActionKind) -> RecommendedAction | None:
        """Returns the recommended action of this kind, if there is one."""
        return next((item for item in self.recommendation.actions if item.kind is kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """A dry run: what a compaction would do, and, if it is asked for, what an expiry would remove."""

    advice: Advice
    compaction: CompactionPlan
    expiry: ExpiryPreview | None = None


class TableAdvisor(Protocol):
    """Inspects a table and recommends actions."""

    def advise(self, table: TableId) -> Advice: ...


def find_compaction(recommendation: Recommendation | None) -> Compact | None:
    """Returns the compaction that is recommended, if there is one."""
    actions = recommendation.actions if recommendation else ()
    return next((item.action for item in actions if isinstance(item.action, Compact)), None)
