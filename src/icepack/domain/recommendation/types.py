"""The contract of a recommendation: what is advised, what was left out, and what both were made from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from icepack.domain.actions import (
    Action,
    ActionKind,
    commits_snapshot,
)
from icepack.domain.health import (
    HealthReport,
)
from icepack.domain.plan.cost import (
    CostEstimate,
    CostModel,
)
from icepack.domain.policy import Policy
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.table import TableId

RECOMMENDATION_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEffect:
    """Estimates: what should be gone afterwards."""

    files_removed: int = 0
    delete_files_removed: int = 0
    bytes_rewritten: int = 0
    snapshots_removed: int = 0
    manifests_removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedAction:
    action: Action
    reason: str
    effect: ExpectedEffect
    cost: CostEstimate
    conflict_probability: float

    @property
    def kind(self) -> ActionKind:
        return self.action.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedAction:
    """What was considered and left out, and why."""

    kind: ActionKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """What the recommendation has to know of a run that ended well."""

    kind: ActionKind
    finished_at: datetime
    snapshot_id_after: int | None
    changed_nothing: bool
    table_uuid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    table: TableId
    snapshot_id: int | None
    made_at: datetime
    actions: tuple[RecommendedAction, ...]
    skipped: tuple[SkippedAction, ...]
    version: int = RECOMMENDATION_VERSION

    @property
    def cost(self) -> CostEstimate:
        total = CostEstimate()
        for recommended in self.actions:
            total = total.plus(recommended.cost)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything a recommendation is made from."""

    status: TableStatus
    health: HealthReport
    policy: Policy
    history: Sequence[PastRun]
    model: CostModel
    now: datetime
    matching: frozenset[Any] | None = None
    """The partitions that the policy's filter leaves; None is all of them."""

    def last(self, kind: ActionKind) -> PastRun | None:
        return max((run for run in self.history if run.kind is kind), key=lambda run: run.finished_at, default=None)


Verdict = RecommendedAction | SkippedAction
Planned = Sequence[RecommendedAction]
"""What was recommended before: each action is weighed against the table as those will leave it."""


def conflict_probability(changes_per_hour: float, duration_seconds: float) -> float:
    """The chance that a row-level change lands while the action runs, if they come at random."""
    return 1 - math.exp(-changes_per_hour / 3600 * duration_seconds)


def matching_partitions(situation: Situation) -> list[PartitionStatus]:
    partitions = situation.status.partitions
    return [p for p in partitions if situation.matching is None or p.key in situation.matching]


def commits_of(planned: Planned) -> int:
    return sum(1 for recommended in planned if commits_snapshot(recommended.kind))
