"""The orchestrator: submits the recommended actions of the whole fleet as jobs, those with the most benefit first.

The table cache determines which tables are candidates. A candidate that is chosen is inspected again before its jobs
are submitted, so an outdated cache costs an inspection but never leads to a wrong job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event
from typing import Any

from icepack.domain.actions import ActionKind
from icepack.domain.fleet import BudgetPool, Candidate, Decision, DecisionOutcome, choose_candidates, hold_candidate
from icepack.domain.job import IdempotencyKeyReused, JobFilter, JobRequest, Submission, SubmissionOutcome
from icepack.domain.ports.audit import AuditEvent, AuditLog
from icepack.domain.ports.queue import JobStore
from icepack.domain.ports.table_cache import TableCache
from icepack.domain.recommendation import RecommendedAction
from icepack.domain.table import TableId
from icepack.errors import Cancelled, ConfigError, EnvironmentFault, IcepackError
from icepack.service.advice import TableAdvisor
from icepack.service.fleet.active_jobs import ACTIVE, list_active_jobs
from icepack.service.fleet.candidates import CandidateBuilder, CandidateSource, OrchestratorOptions
from icepack.service.fleet.spending import DailySpending, find_midnight
from icepack.service.loop import map_in_threads

log = logging.getLogger(__name__)

ACTOR = "orchestrator"
# The actions of the audit events, with and without submission.
SUBMIT, SHADOW = "orchestrate.submit", "orchestrate.shadow"
RECENT_JOBS = 4 * len(ActionKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedDecision:
    """A decision and the jobs that were submitted for it; none in shadow mode."""

    decision: Decision
    submissions: tuple[Submission, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorPass:
    """The result of one pass over the whole fleet."""

    at: datetime
    shadow: bool
    # None if there is no cache, so that every table was inspected.
    cache_age: timedelta | None
    active_tables: int
    concurrency: int
    # What was spent from each budget today before this pass, including queued and running jobs.
    spent: Mapping[BudgetPool, float]
    placed: tuple[PlacedDecision, ...] = ()
    failed: tuple[tuple[TableId, str], ...] = ()

    @property
    def jobs(self) -> int:
        submissions = [submission for item in self.placed for submission in item.submissions]
        return sum(submission.outcome is SubmissionOutcome.CREATED for submission in submissions)


@dataclass(slots=True)
class _FleetState:
    """What is known about the tables during a pass; inspections update it."""

    now: datetime
    sources: dict[TableId, CandidateSource]
    # The tables that were inspected in this pass.
    inspected: set[TableId]
    newest_job: dict[TableId, int] = field(default_factory=dict)
    failed: dict[TableId, str] = field(default_factory=dict)


class Orchestrator:
    """Chooses tables by cost and benefit within the budgets, and submits their jobs."""

    def __init__(
        self,
        *,
        advisor: TableAdvisor,
        tables: Callable[[], Sequence[TableId]],
        jobs: JobStore,
        cache: TableCache,
        audit: AuditLog,
        spending: DailySpending,
        candidates: CandidateBuilder,
        options: OrchestratorOptions,
        clock: Callable[[], datetime],
        threads: int = 4,
    ) -> None:
        self._advisor = advisor
        self._tables = tables
        self._jobs = jobs
        self._cache = cache
        self._audit = audit
        self._spending = spending
        self._candidates = candidates
        self._options = options
        self._clock = clock
        self._threads = threads

    def run_once(self, *, shadow: bool = False, stop: Event | None = None) -> OrchestratorPass:
        """Submits the jobs that are worth it now; in shadow mode only writes the decisions to the audit log."""
        now, age = self._clock(), self._cache.state().age
        fleet = self._inspect_all(now, stop) if age is None else self._read_cache(now)
        active = list(list_active_jobs(self._jobs))
        spent = self._spending.compute(active, fleet.sources, now)
        busy = {job.table for job in active}
        decisions = self._decide(fleet, busy, spent, stop)
        pools = (pool for decision in decisions for pool in decision.candidate.pools)
        return OrchestratorPass(
            at=now,
            shadow=shadow,
            cache_age=age,
            active_tables=len(busy),
            concurrency=self._options.concurrency,
            spent={**dict.fromkeys(pools, 0.0), **spent},
            placed=tuple(self._place(decision, fleet, shadow) for decision in decisions),
            failed=tuple(sorted(fleet.failed.items())),
        )

    def _read_cache(self, now: datetime) -> _FleetState:
        found = (CandidateSource.from_cache(cached) for cached in self._cache.tables())
        fleet = _FleetState(now, {source.table: source for source in found if source is not None}, set())
        for source in list(fleet.sources.values()):
            try:
                self._candidates.check_policy(source)
            except ConfigError as exc:
                fleet.failed[source.table] = str(exc)
                del fleet.sources[source.table]
        return fleet

    def _inspect_all(self, now: datetime, stop: Event | None) -> _FleetState:
        fleet = _FleetState(now, {}, set())
        map_in_threads(lambda table: self._inspect(table, fleet), list(self._tables()), self._threads, stop)
        return fleet

    def _inspect(self, table: TableId, fleet: _FleetState) -> None:
        """An error affects only this table, except for a lost database, which ends the pass."""
        fleet.inspected.add(table)
        try:
            fleet.sources[table] = CandidateSource.from_advice(self._advisor.advise(table))
            return
        except (EnvironmentFault, Cancelled):
            raise
        except IcepackError as exc:
            fleet.failed[table] = str(exc)
        except Exception as exc:
            log.exception("%s could not be inspected", table)
            fleet.failed[table] = f"Unexpected {type(exc).__name__}: {exc}"
        fleet.sources.pop(table, None)

    def _decide(
        self, fleet: _FleetState, busy: set[TableId], spent: Mapping[BudgetPool, float], stop: Event | None
    ) -> list[Decision]:
        """Chooses candidates, inspects the chosen ones and chooses again, until every chosen one was inspected."""
        slots = self._options.concurrency - len(busy)
        candidates = {table: self._build_candidate(fleet, table, busy) for table in fleet.sources}
        checked: set[TableId] = set()
        while True:
            found = (candidate for candidate in candidates.values() if candidate is not None)
            decisions = choose_candidates(found, spent, slots)
            chosen = [item.candidate.table for item in decisions if item.outcome is DecisionOutcome.CHOSEN]
            unchecked = [table for table in chosen if table not in checked]
            if not unchecked:
                return decisions
            for table in unchecked:
                if stop is not None and stop.is_set():
                    raise Cancelled("Stopped before any job was submitted.")
                candidates[table] = self._check_candidate(fleet, table, busy)
                checked.add(table)

    def _build_candidate(self, fleet: _FleetState, table: TableId, busy: set[TableId]) -> Candidate | None:
        source = fleet.sources.get(table)
        candidate = self._candidates.build(source, fleet.now) if source is not None else None
        if candidate is not None and table in busy:
            return hold_candidate(candidate, "It has queued or running jobs.")
        return candidate

    def _check_candidate(self, fleet: _FleetState, table: TableId, busy: set[TableId]) -> Candidate | None:
        jobs = self._jobs.list_jobs(JobFilter(table=table), limit=RECENT_JOBS).jobs
        fleet.newest_job[table] = jobs[0].number if jobs else 0
        if table not in fleet.inspected:
            self._inspect(table, fleet)
        if any(job.state in ACTIVE for job in jobs):
            busy = {*busy, table}
        candidate = self._build_candidate(fleet, table, busy)
        return candidate and self._candidates.exclude_unsuccessful(candidate, jobs, fleet.now)

    def _place(self, decision: Decision, fleet: _FleetState, shadow: bool) -> PlacedDecision:
        if decision.outcome is not DecisionOutcome.CHOSEN:
            return PlacedDecision(decision=decision)
        if shadow:
            self._record_shadow_decision(decision, fleet.now)
            return PlacedDecision(decision=decision)
        table = decision.candidate.table
        found = [self._submit(table, action, fleet.newest_job[table]) for action in decision.actions]
        submissions = tuple(submission for submission in found if submission is not None)
        if any(submission.outcome is SubmissionOutcome.CREATED for submission in submissions):
            ids = [str(submission.job.id) for submission in submissions]
            self._audit.record(_build_event(SUBMIT, decision, fleet.now, jobs=ids))
        return PlacedDecision(decision=decision, submissions=submissions)

    def _submit(self, table: TableId, action: RecommendedAction, newest_job: int) -> Submission | None:
        """Uses a key that is the same for orchestrators that saw the same queue, so that only one creates the job."""
        key = f"orchestrate:{table}:after-{newest_job}:{action.kind.value}"
        request = JobRequest(table=table, action=action.action, requester=ACTOR, idempotency_key=key)
        try:
            return self._jobs.submit(request)
        except IdempotencyKeyReused:
            return None

    def _record_shadow_decision(self, decision: Decision, now: datetime) -> None:
        """Records a decision once a day: in shadow mode nothing changes, so every pass would record the same."""
        subject = str(decision.candidate.table)
        event = _build_event(SHADOW, decision, now)
        today = find_midnight(now, self._options.zone)
        last = self._audit.entries(actor=ACTOR, action=SHADOW, subject=subject, since=today, limit=1)
        if not last or last[0].details.get("actions") != event.details["actions"]:
            self._audit.record(event)


def _build_event(action: str, decision: Decision, now: datetime, **more: Any) -> AuditEvent:
    candidate = decision.candidate
    return AuditEvent(
        at=now,
        actor=ACTOR,
        action=action,
        subject=str(candidate.table),
        outcome="submitted" if action == SUBMIT else "would be submitted",
        details={
            "actions": [action.kind.value for action in decision.actions],
            "reasons": [action.reason for action in decision.actions],
            "score": candidate.score,
            "benefit_dollars": candidate.benefit_dollars,
            "cost_dollars": candidate.cost_dollars,
            **more,
        },
    )
