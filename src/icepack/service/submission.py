"""Submits jobs using only the table cache, so that no caller waits for a catalog or for Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from icepack.domain.action_parameters import complete_action
from icepack.domain.actions import Action, ActionKind, Compact, Strategy
from icepack.domain.job import JobRequest, Submission
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.plan.cost import CostEstimate, CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.explanation import PartitionExplanation, explain_partitions
from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.files import PartitionKey
from icepack.domain.policy import Policy
from icepack.domain.ports.queries import FleetQueries
from icepack.domain.ports.queue import JobStore
from icepack.domain.ports.table_cache import CachedTable, TableCache
from icepack.domain.recommendation import Situation, choose_strategy
from icepack.domain.table import TableId
from icepack.errors import TableNotFound
from icepack.service.advice import PolicyResolver, find_compaction
from icepack.service.runs.cost_limit import check_cost_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """A request to run an action on a table, with the parameters that were given."""

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
class AcceptedJob:
    """A submitted job and its estimated cost."""

    submission: Submission
    # None if nothing is known about what such an action costs on the table.
    estimate: CostEstimate | None


class JobSubmitter:
    """Turns requests into jobs."""

    def __init__(
        self,
        *,
        cache: TableCache,
        jobs: JobStore,
        fleet_queries: FleetQueries,
        policies: PolicyResolver,
        model: CostModel,
        max_attempts: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._cache = cache
        self._jobs = jobs
        self._fleet_queries = fleet_queries
        self._policies = policies
        self._model = model
        self._max_attempts = max_attempts
        self._clock = clock

    def get_table(self, table: TableId) -> CachedTable:
        found = self._cache.get(table)
        if found is None:
            raise TableNotFound(f"No table matches '{table}'.", "Health sync adds new tables the next time it runs.")
        return found

    def submit(self, request: ActionRequest) -> AcceptedJob:
        """Submits a job; raises CostLimitExceeded if its estimated cost is over its limit."""
        cached = self.get_table(request.table)
        return self.submit_action(cached, self.prepare(cached, request.kind, request.given), request)

    def submit_action(self, cached: CachedTable, action: Action, request: ActionRequest) -> AcceptedJob:
        """Submits an action whose parameters are already complete.

        A request that repeats an idempotency key gets the job that exists, so its cost is not checked again.
        """
        estimate = self.estimate(cached, action)
        if request.key is None or not self._fleet_queries.has_key(request.key):
            check_cost_limit(action, estimate)
        job = JobRequest(
            table=request.table,
            action=action,
            priority=request.priority,
            not_before=request.not_before,
            max_attempts=request.max_attempts or self._max_attempts,
            requester=request.requester,
            idempotency_key=request.key,
            fingerprint=request.fingerprint,
            trace_context=request.trace_context,
            estimated_seconds=None if estimate is None else estimate.duration_seconds,
        )
        return AcceptedJob(submission=self._jobs.submit(job), estimate=estimate)

    def prepare(self, cached: CachedTable, kind: ActionKind, given: Mapping[str, Any]) -> Action:
        """Builds an action from the parameters that were given, and from the policy for the others."""
        now = self._clock()
        if given.get("partition_filter"):
            parse_filter(given["partition_filter"], now)
        policy = self._policy_for(cached)
        return complete_action(kind, given, cached.status, policy, self._choose_strategy(cached, policy, now), now)

    def plan(self, cached: CachedTable, action: Compact | None = None) -> CompactionPlan:
        """Plans this compaction; without one the recommended compaction, else one with the policy's parameters."""
        chosen = action or self._choose_compaction(cached)
        grace = self._open_partition_grace(cached)
        return estimate_compaction(cached.status, chosen, self._model, self._clock(), open_grace=grace)

    def explain_partitions(
        self, cached: CachedTable, action: Compact | None = None
    ) -> Mapping[PartitionKey, PartitionExplanation]:
        """Explains for each partition why the plan includes it or not."""
        chosen, grace = action or self._choose_compaction(cached), self._open_partition_grace(cached)
        return explain_partitions(cached.status, chosen, self._model, self._clock(), open_grace=grace)

    def estimate(self, cached: CachedTable, action: Action) -> CostEstimate | None:
        """Estimates a compaction by its plan, and other actions by the recommendation of their kind."""
        if isinstance(action, Compact):
            return self.plan(cached, action).cost
        recommended = cached.recommendation.actions if cached.recommendation else ()
        return next((item.cost for item in recommended if item.kind is action.kind), None)

    def _choose_compaction(self, cached: CachedTable) -> Compact:
        chosen = find_compaction(cached.recommendation) or self.prepare(cached, ActionKind.COMPACT, {})
        assert isinstance(chosen, Compact)
        return chosen

    def _open_partition_grace(self, cached: CachedTable) -> timedelta:
        return self._policy_for(cached).open_partition_grace

    def _policy_for(self, cached: CachedTable) -> Policy:
        return self._policies.policy_for(cached.table, cached.status.properties)

    def _choose_strategy(self, cached: CachedTable, policy: Policy, now: datetime) -> Strategy:
        situation = Situation(
            status=cached.status, health=cached.health, policy=policy, history=(), model=self._model, now=now
        )
        return choose_strategy(situation)
