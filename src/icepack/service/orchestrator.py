"""The orchestrator: what is recommended all over the fleet becomes jobs, the most rewarding first.

The table cache says which tables are candidates. Before one is chosen for good it is looked at again, so an old cache
costs a look and never a wrong job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event
from typing import Any, Protocol

from icepack.domain.actions import ActionKind
from icepack.domain.fleet import Candidate, Decision, Fate, Pool, choose, held
from icepack.domain.job import IdempotencyKeyReused, JobFilter, JobRequest, Submission, Submitted
from icepack.domain.ports.queue import AuditEvent, AuditLog, JobStore, TableCache
from icepack.domain.recommendation.recommend import RecommendedAction
from icepack.domain.table import TableId
from icepack.errors import Cancelled, ConfigError, EnvironmentFault, IcepackError
from icepack.service.fleet.active_jobs import ACTIVE, active_jobs
from icepack.service.fleet.candidates import Known, OrchestratorTerms, Weighing, from_advice, from_cache
from icepack.service.fleet.spending import Purse, midnight
from icepack.service.loop import spread
from icepack.service.service import Advice

log = logging.getLogger(__name__)

ACTOR = "orchestrator"
SUBMIT, SHADOW = "orchestrate.submit", "orchestrate.shadow"
RECENT_JOBS = 4 * len(ActionKind)


class Advisor(Protocol):
    def advise(self, table: TableId) -> Advice: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A decision and the jobs that came of it; none in shadow mode."""

    decision: Decision
    submissions: tuple[Submission, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRound:
    """One look at the whole fleet, and what was made of it."""

    at: datetime
    shadow: bool
    cache_age: timedelta | None
    """None where there is no cache, so that every table was looked at."""
    active_tables: int
    concurrency: int
    spent: Mapping[Pool, float]
    """By budget: what the day has cost before this round, queued and running jobs included."""
    placed: tuple[Placed, ...] = ()
    failed: tuple[tuple[TableId, str], ...] = ()

    @property
    def jobs(self) -> int:
        made = [submission for item in self.placed for submission in item.submissions]
        return sum(submission.outcome is Submitted.CREATED for submission in made)


@dataclass(slots=True)
class _Look:
    """What is known in a round, and becomes clearer as tables are looked at."""

    now: datetime
    known: dict[TableId, Known]
    sure: set[TableId]
    """Those that were looked at in this round."""
    newest_job: dict[TableId, int] = field(default_factory=dict)
    failed: dict[TableId, str] = field(default_factory=dict)


class Orchestrator:
    def __init__(
        self,
        *,
        advisor: Advisor,
        tables: Callable[[], Sequence[TableId]],
        jobs: JobStore,
        cache: TableCache,
        audit: AuditLog,
        purse: Purse,
        weighing: Weighing,
        terms: OrchestratorTerms,
        clock: Callable[[], datetime],
        threads: int = 4,
    ) -> None:
        self._advisor = advisor
        self._tables = tables
        self._jobs = jobs
        self._cache = cache
        self._audit = audit
        self._purse = purse
        self._weighing = weighing
        self._terms = terms
        self._clock = clock
        self._threads = threads

    def run_once(self, *, shadow: bool = False, stop: Event | None = None) -> FleetRound:
        """Submits what is worth it now; in shadow mode only the audit log hears of it."""
        now, age = self._clock(), self._cache.state().age
        look = self._look_at_all(now, stop) if age is None else self._look_at_cache(now)
        active = list(active_jobs(self._jobs))
        spent = self._purse.spent(active, look.known, now)
        busy = {job.table for job in active}
        decisions = self._decide(look, busy, spent, stop)
        return FleetRound(
            at=now,
            shadow=shadow,
            cache_age=age,
            active_tables=len(busy),
            concurrency=self._terms.concurrency,
            spent={**dict.fromkeys((pool for item in decisions for pool in item.candidate.pools), 0.0), **spent},
            placed=tuple(self._place(decision, look, shadow) for decision in decisions),
            failed=tuple(sorted(look.failed.items())),
        )

    def _look_at_cache(self, now: datetime) -> _Look:
        found = (from_cache(cached) for cached in self._cache.tables())
        look = _Look(now, {known.table: known for known in found if known is not None}, set())
        for known in list(look.known.values()):
            try:
                self._weighing.check(known)
            except ConfigError as exc:
                look.failed[known.table] = str(exc)
                del look.known[known.table]
        return look

    def _look_at_all(self, now: datetime, stop: Event | None) -> _Look:
        look = _Look(now, {}, set())
        spread(lambda table: self._look_at(table, look), list(self._tables()), self._threads, stop)
        return look

    def _look_at(self, table: TableId, look: _Look) -> None:
        """One table's trouble is its own; a lost database is everybody's."""
        look.sure.add(table)
        try:
            look.known[table] = from_advice(self._advisor.advise(table))
            return
        except (EnvironmentFault, Cancelled):
            raise
        except IcepackError as exc:
            look.failed[table] = str(exc)
        except Exception as exc:
            log.exception("%s could not be looked at", table)
            look.failed[table] = f"Unexpected {type(exc).__name__}: {exc}"
        look.known.pop(table, None)

    def _decide(
        self, look: _Look, busy: set[TableId], spent: Mapping[Pool, float], stop: Event | None
    ) -> list[Decision]:
        """Chosen, looked at again, chosen anew, until every table that is chosen was looked at."""
        slots = self._terms.concurrency - len(busy)
        candidates = {table: self._candidate(look, table, busy) for table in look.known}
        checked: set[TableId] = set()
        while True:
            decisions = choose((found for found in candidates.values() if found is not None), spent, slots)
            chosen = [item.candidate.table for item in decisions if item.fate is Fate.CHOSEN]
            doubtful = [table for table in chosen if table not in checked]
            if not doubtful:
                return decisions
            for table in doubtful:
                if stop is not None and stop.is_set():
                    raise Cancelled("Stopped on the way; nothing was submitted.")
                candidates[table] = self._check(look, table, busy)
                checked.add(table)

    def _candidate(self, look: _Look, table: TableId, busy: set[TableId]) -> Candidate | None:
        known = look.known.get(table)
        candidate = self._weighing.candidate(known, look.now) if known is not None else None
        if candidate is not None and table in busy:
            return held(candidate, "It has jobs queued or running.")
        return candidate

    def _check(self, look: _Look, table: TableId, busy: set[TableId]) -> Candidate | None:
        jobs = self._jobs.list_jobs(JobFilter(table=table), limit=RECENT_JOBS).jobs
        look.newest_job[table] = jobs[0].number if jobs else 0
        if table not in look.sure:
            self._look_at(table, look)
        if any(job.state in ACTIVE for job in jobs):
            busy = {*busy, table}
        candidate = self._candidate(look, table, busy)
        return candidate and self._weighing.without_fallen(candidate, jobs, look.now)

    def _place(self, decision: Decision, look: _Look, shadow: bool) -> Placed:
        if decision.fate is not Fate.CHOSEN:
            return Placed(decision=decision)
        if shadow:
            self._note_once_a_day(decision, look.now)
            return Placed(decision=decision)
        table = decision.candidate.table
        made = [self._submit(table, action, look.newest_job[table]) for action in decision.actions]
        submissions = tuple(submission for submission in made if submission is not None)
        if any(submission.outcome is Submitted.CREATED for submission in submissions):
            ids = [str(submission.job.id) for submission in submissions]
            self._audit.record(_event(SUBMIT, decision, look.now, jobs=ids))
        return Placed(decision=decision, submissions=submissions)

    def _submit(self, table: TableId, action: RecommendedAction, newest_job: int) -> Submission | None:
        """Two orchestrators that saw the same queue use the same key, so that only one submission counts."""
        key = f"orchestrate:{table}:after-{newest_job}:{action.kind.value}"
        request = JobRequest(table=table, action=action.action, requester=ACTOR, idempotency_key=key)
        try:
            return self._jobs.submit(request)
        except IdempotencyKeyReused:
            return None

    def _note_once_a_day(self, decision: Decision, now: datetime) -> None:
        """Nothing runs in shadow mode, so the same would be noted in every round."""
        subject = str(decision.candidate.table)
        event = _event(SHADOW, decision, now)
        today = midnight(now, self._terms.zone)
        last = self._audit.entries(actor=ACTOR, action=SHADOW, subject=subject, since=today, limit=1)
        if not last or last[0].details.get("actions") != event.details["actions"]:
            self._audit.record(event)


def _event(action: str, decision: Decision, now: datetime, **more: Any) -> AuditEvent:
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
