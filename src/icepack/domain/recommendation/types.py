"""The types of a recommendation: its input, the recommended actions and the skipped ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from icepack.domain.actions import Action, ActionKind, commits_snapshot
from icepack.domain.health import HealthReport
from icepack.domain.plan.cost import CostEstimate, CostModel
from icepack.domain.plan.lambda_advice import LambdaAdvice, advise_lambda
from icepack.domain.policy import Policy
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.table import TableId

RECOMMENDATION_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEffect:
    """What an action is estimated to remove and rewrite."""

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

    def lambda_advice(self, runs_every: timedelta | None) -> LambdaAdvice | None:
        """Advises whether a compaction fits in AWS Lambda; None for the other actions."""
        if self.kind is not ActionKind.COMPACT:
            return None
        duration = timedelta(seconds=self.cost.duration_seconds)
        return advise_lambda(self.effect.bytes_rewritten, duration, runs_every)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedAction:
    """An action that was considered and not recommended, and why."""

    kind: ActionKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """What a recommendation needs to know about an earlier successful run."""

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
    """The input of a recommendation."""

    status: TableStatus
    health: HealthReport
    policy: Policy
    history: Sequence[PastRun]
    model: CostModel
    now: datetime
    # The keys of the partitions that match the policy's filter; None means all partitions.
    matching: frozenset[Any] | None = None

    def last_run(self, kind: ActionKind) -> PastRun | None:
        return max((run for run in self.history if run.kind is kind), key=lambda run: run.finished_at, default=None)


ActionDecision = RecommendedAction | SkippedAction
# The actions recommended so far: each later action is decided for the table as these will leave it.
PlannedActions = Sequence[RecommendedAction]


def estimate_conflict_probability(changes_per_hour: float, duration_seconds: float) -> float:
    """Estimates the probability that a row-level change commits while the action runs, assuming a Poisson process."""
    return 1 - math.exp(-changes_per_hour / 3600 * duration_seconds)


def select_partitions(situation: Situation) -> list[PartitionStatus]:
    """Returns the partitions that match the policy's filter."""
    partitions = situation.status.partitions
    return [p for p in partitions if situation.matching is None or p.key in situation.matching]


def count_commits(planned: PlannedActions) -> int:
    return sum(1 for recommended in planned if commits_snapshot(recommended.kind))
