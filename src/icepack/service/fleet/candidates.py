"""Builds the candidates that the orchestrator chooses from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo

from icepack.domain.actions import ActionKind
from icepack.domain.fleet import Candidate, estimate_benefit_dollars, estimate_spending, find_budget_pools
from icepack.domain.health import HealthReport
from icepack.domain.job import Job, JobState
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import Policy
from icepack.domain.ports.table_cache import CachedTable
from icepack.domain.recommendation import Recommendation
from icepack.domain.scheduling.windows import find_next_opening, is_open
from icepack.domain.table import TableId
from icepack.domain.units import format_duration
from icepack.service.advice import Advice, PolicyResolver

UNSUCCESSFUL = frozenset({JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorOptions:
    """The limits of the orchestrator."""

    # How many tables may have queued or running jobs; the jobs of one table run one at a time.
    concurrency: int = 4
    # How long an action is not submitted again after its last job failed or was cancelled.
    retry_after: timedelta = timedelta(hours=6)
    dollars_per_point: float = 0.01
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class CandidateSource:
    """What a candidate is built from."""

    table: TableId
    health: HealthReport
    properties: Mapping[str, str]
    recommendation: Recommendation

    @classmethod
    def from_cache(cls, cached: CachedTable) -> CandidateSource | None:
        """Returns None if the cache has no recommendation for the table."""
        if cached.recommendation is None:
            return None
        return cls(cached.table, cached.health, cached.status.properties, cached.recommendation)

    @classmethod
    def from_advice(cls, advice: Advice) -> CandidateSource:
        return cls(advice.status.table, advice.health, advice.status.properties, advice.recommendation)


class CandidateBuilder:
    """Estimates cost and benefit of what is recommended for a table."""

    def __init__(self, policies: PolicyResolver, model: CostModel, options: OrchestratorOptions) -> None:
        self._policies = policies
        self._model = model
        self._options = options

    def check_policy(self, source: CandidateSource) -> None:
        """Raises ConfigError if the table's own properties are invalid, as when another version has cached them."""
        self._policies.policy_for(source.table, source.properties)

    def build(self, source: CandidateSource, now: datetime) -> Candidate | None:
        """Returns None if nothing is recommended."""
        actions = source.recommendation.actions
        if not actions:
            return None
        policy = self._policies.policy_for(source.table, source.properties)
        benefits = (
            estimate_benefit_dollars(
                action,
                source.health,
                self._model,
                scans_per_day=policy.scans_per_day,
                dollars_per_point=self._options.dollars_per_point,
            )
            for action in actions
        )
        return Candidate(
            table=source.table,
            score=source.health.score,
            actions=actions,
            costs=tuple(estimate_spending(action.cost, self._model) for action in actions),
            benefits=tuple(benefits),
            pools=find_budget_pools(self._policies.base, self._policies.rules, source.table, source.properties),
            hold=self._describe_closed_window(policy, now),
        )

    def _describe_closed_window(self, policy: Policy, now: datetime) -> str:
        zone = self._options.zone
        if is_open(policy.windows, zone, now):
            return ""
        opens_at = find_next_opening(policy.windows, zone, now).astimezone(zone)
        return f"Its window is closed until {opens_at:%Y-%m-%d %H:%M %Z}."

    def exclude_unsuccessful(self, candidate: Candidate, jobs: Sequence[Job], now: datetime) -> Candidate:
        """Removes the actions whose last job failed or was cancelled recently."""
        newest = _newest_by_kind(jobs)
        recent = {action.kind: newest[action.kind] for action in candidate.actions if action.kind in newest}
        excluded = {kind: job for kind, job in recent.items() if self._is_recent_failure(job, now)}
        kept = candidate.with_actions([action for action in candidate.actions if action.kind not in excluded])
        if kept.actions:
            return kept
        job = max(excluded.values(), key=lambda job: job.number)
        ago = format_duration(now - (job.finished_at or now))
        return replace(candidate, hold=f"Its last job ({job.kind}) {_describe_end(job)} {ago} ago.")

    def _is_recent_failure(self, job: Job, now: datetime) -> bool:
        if job.state not in UNSUCCESSFUL or job.finished_at is None:
            return False
        return now - job.finished_at < self._options.retry_after


def _newest_by_kind(jobs: Iterable[Job]) -> dict[ActionKind, Job]:
    return {job.kind: job for job in sorted(jobs, key=lambda job: job.number)}


def _describe_end(job: Job) -> str:
    return "failed" if job.state is JobState.FAILED else "was cancelled"
