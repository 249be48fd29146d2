"""Orders for work, taken on the strength of the table cache alone: nobody waits for a catalog or for Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from icepack.domain.action_parameters import complete
from icepack.domain.actions import Action, ActionKind, Compact, Strategy
from icepack.domain.job import JobRequest, Submission
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.plan.cost import CostEstimate, CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.files import PartitionKey
from icepack.domain.plan.why import PartitionVerdict, partition_verdicts
from icepack.domain.policy import Policy
from icepack.domain.ports.access import Board
from icepack.domain.ports.queue import CachedTable, JobStore, TableCache
from icepack.domain.recommendation.recommend import Situation, choose_strategy
from icepack.domain.table import TableId
from icepack.errors import Refused, TableNotFound
from icepack.service.service import PolicyBook


class CostLimitExceeded(Refused):
    def __init__(self, estimate: CostEstimate, limit: float) -> None:
        super().__init__(
            f"The estimate is ${estimate.dollars:.4f}, over the limit of ${limit:.4f}.",
            "Raise max_cost or narrow the work with partition_filter.",
        )
        self.estimate = estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What somebody asks for: an action on a table, with the parameters that were given."""

    table: TableId
    kind: ActionKind
    given: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    not_before: datetime | None = None
    max_attempts: int | None = None
    requester: str = ""
    key: str | None = None
    fingerprint: str = ""
    trace_context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    submission: Submission
    estimate: CostEstimate | None
    """None where nothing is known of what such an action costs on the table."""


class Intake:
    def __init__(
        self,
        *,
        cache: TableCache,
        jobs: JobStore,
        board: Board,
        policies: PolicyBook,
        model: CostModel,
        max_attempts: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._cache = cache
        self._jobs = jobs
        self._board = board
        self._policies = policies
        self._model = model
        self._max_attempts = max_attempts
        self._clock = clock

    def known(self, table: TableId) -> CachedTable:
        found = self._cache.get(table)
        if found is None:
            raise TableNotFound(f"No table matches '{table}'.", "Health sync finds new tables at its next round.")
        return found

    def submit(self, order: Order) -> Accepted:
        """Queues it, or raises CostLimitExceeded; the worker looks at the cost again before it writes."""
        cached = self.known(order.table)
        return self.place(cached, self.prepare(cached, order.kind, order.given), order)

    def place(self, cached: CachedTable, action: Action, order: Order) -> Accepted:
        estimate = self.estimate(cached, action)
        if order.key is None or not self._board.has_key(order.key):
            _check_cost(action, estimate)
        request = JobRequest(
            table=order.table,
            action=action,
            priority=order.priority,
            not_before=order.not_before,
            max_attempts=order.max_attempts or self._max_attempts,
            requester=order.requester,
            idempotency_key=order.key,
            fingerprint=order.fingerprint,
            trace_context=order.trace_context,
            estimated_seconds=None if estimate is None else estimate.duration_seconds,
        )
        return Accepted(submission=self._jobs.submit(request), estimate=estimate)

    def prepare(self, cached: CachedTable, kind: ActionKind, given: Mapping[str, Any]) -> Action:
        """The action with its exact parameters: what was given, and the policy for the rest."""
        now = self._clock()
        if given.get("partition_filter"):
            parse_filter(given["partition_filter"], now)
        policy = self._policy(cached)
        return complete(kind, given, cached.status, policy, self._strategy(cached, policy, now), now)

    def plan(self, cached: CachedTable, action: Compact | None = None) -> CompactionPlan:
        """The dry run: of this compaction, else of the one that is recommended, else of the policy's."""
        wanted = action or self._compaction(cached)
        return estimate_compaction(cached.status, wanted, self._model, self._clock(), open_grace=self._grace(cached))

    def why(self, cached: CachedTable, action: Compact | None = None) -> Mapping[PartitionKey, PartitionVerdict]:
        """Which partitions that plan takes, and why not the others."""
        wanted, grace = action or self._compaction(cached), self._grace(cached)
        return partition_verdicts(cached.status, wanted, self._model, self._clock(), open_grace=grace)

    def _compaction(self, cached: CachedTable) -> Compact:
        wanted = _recommended(cached) or self.prepare(cached, ActionKind.COMPACT, {})
        assert isinstance(wanted, Compact)
        return wanted

    def _grace(self, cached: CachedTable) -> timedelta:
        return self._policy(cached).open_partition_grace

    def estimate(self, cached: CachedTable, action: Action) -> CostEstimate | None:
        """By the plan for a compaction; else by what the recommendation says of such an action."""
        if isinstance(action, Compact):
            return self.plan(cached, action).cost
        advised = cached.recommendation.actions if cached.recommendation else ()
        return next((item.cost for item in advised if item.kind is action.kind), None)

    def _policy(self, cached: CachedTable) -> Policy:
        return self._policies.policy_for(cached.table, cached.status.properties)

    def _strategy(self, cached: CachedTable, policy: Policy, now: datetime) -> Strategy:
        situation = Situation(
            status=cached.status, health=cached.health, policy=policy, history=(), model=self._model, now=now
        )
        return choose_strategy(situation)


def _recommended(cached: CachedTable) -> Compact | None:
    advised = cached.recommendation.actions if cached.recommendation else ()
    return next((item.action for item in advised if isinstance(item.action, Compact)), None)


def _check_cost(action: Action, estimate: CostEstimate | None) -> None:
    limit = action.max_cost_dollars if isinstance(action, Compact) else None
    if limit is not None and estimate is not None and estimate.dollars > limit:
        raise CostLimitExceeded(estimate, limit)
