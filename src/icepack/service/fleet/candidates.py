"""What could be done about each table, as the orchestrator weighs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo

from icepack.domain.actions import ActionKind
from icepack.domain.fleet import Candidate, benefit_dollars, expected_spending, pools_of
from icepack.domain.health import HealthReport
from icepack.domain.job import Job, JobState
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import Policy
from icepack.domain.ports.queue import CachedTable
from icepack.domain.recommendation.recommend import Recommendation
from icepack.domain.scheduling.windows import is_open, next_opening
from icepack.domain.table import TableId
from icepack.domain.units import format_duration
from icepack.service.service import Advice, PolicyBook

FALLEN = frozenset({JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorTerms:
    """Within what the orchestrator keeps."""

    concurrency: int = 4
    """How many tables may have jobs queued or running; the jobs of one table run one at a time."""
    retry_after: timedelta = timedelta(hours=6)
    """How long an action whose last job failed or was cancelled is left alone."""
    dollars_per_point: float = 0.01
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class Known:
    """What a candidate is made from."""

    table: TableId
    health: HealthReport
    properties: Mapping[str, str]
    recommendation: Recommendation


def from_cache(cached: CachedTable) -> Known | None:
    if cached.recommendation is None:
        return None
    return Known(cached.table, cached.health, cached.status.properties, cached.recommendation)


def from_advice(advice: Advice) -> Known:
    return Known(advice.status.table, advice.health, advice.status.properties, advice.recommendation)


class Weighing:
    """Puts a price on everything."""

    def __init__(self, policies: PolicyBook, model: CostModel, terms: OrchestratorTerms) -> None:
        self._policies = policies
        self._model = model
        self._terms = terms

    def check(self, known: Known) -> None:
        """Raises ConfigError where the table's own properties, kept since another version, say nothing sensible."""
        self._policies.policy_for(known.table, known.properties)

    def candidate(self, known: Known, now: datetime) -> Candidate | None:
        """None when there is nothing to do."""
        actions = known.recommendation.actions
        if not actions:
            return None
        policy = self._policies.policy_for(known.table, known.properties)
        return Candidate(
            table=known.table,
            score=known.health.score,
            actions=actions,
            costs=tuple(expected_spending(action.cost, self._model) for action in actions),
            benefits=tuple(
                benefit_dollars(
                    action,
                    known.health,
                    self._model,
                    scans_per_day=policy.scans_per_day,
                    dollars_per_point=self._terms.dollars_per_point,
                )
                for action in actions
            ),
            pools=pools_of(self._policies.base, self._policies.rules, known.table, known.properties),
            hold=self._closed(policy, now),
        )

    def _closed(self, policy: Policy, now: datetime) -> str:
        zone = self._terms.zone
        if is_open(policy.windows, zone, now):
            return ""
        opens_at = next_opening(policy.windows, zone, now).astimezone(zone)
        return f"Its window is closed until {opens_at:%Y-%m-%d %H:%M %Z}."

    def without_fallen(self, candidate: Candidate, jobs: Sequence[Job], now: datetime) -> Candidate:
        """Without the actions whose last job came to grief a short while ago."""
        newest = _newest(jobs)
        recent = {action.kind: newest[action.kind] for action in candidate.actions if action.kind in newest}
        fallen = {kind: job for kind, job in recent.items() if self._fell_lately(job, now)}
        kept = candidate.only([action for action in candidate.actions if action.kind not in fallen])
        if kept.actions:
            return kept
        job = max(fallen.values(), key=lambda job: job.number)
        ago = format_duration(now - (job.finished_at or now))
        return replace(candidate, hold=f"Its last job ({job.kind}) {_ended(job)} {ago} ago.")

    def _fell_lately(self, job: Job, now: datetime) -> bool:
        ended = job.state in FALLEN and job.finished_at is not None
        return ended and now - (job.finished_at or now) < self._terms.retry_after


def _newest(jobs: Iterable[Job]) -> dict[ActionKind, Job]:
    return {job.kind: job for job in sorted(jobs, key=lambda job: job.number)}


def _ended(job: Job) -> str:
    return "failed" if job.state is JobState.FAILED else "was cancelled"
