"""The scheduler: turns each tick of a schedule into jobs exactly once, no matter how many schedulers run.

It keeps no state of its own. How far the schedulers have come is stored in the audit log, and all schedulers use the
same idempotency key for the same tick, so that only one submission creates a job.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from functools import cache
from threading import Event
from typing import Any, Protocol

from icepack.domain.actions import Action, ActionKind
from icepack.domain.job import IdempotencyKeyReused, JobFilter, JobRequest, Submission, SubmissionOutcome
from icepack.domain.ports.queue import JobStore
from icepack.domain.scheduling.schedule import (
    Occurrence,
    Timetable,
    build_submission_key,
    build_tick_key,
    find_occurrences,
    resolve_missed,
)
from icepack.domain.scheduling.windows import Window, find_next_opening, is_open
from icepack.domain.table import TableId
from icepack.domain.units import format_duration
from icepack.errors import Cancelled, EnvironmentFault, IcepackError
from icepack.service.advice import Advice, TableAdvisor
from icepack.service.fleet.active_jobs import ACTIVE
from icepack.service.fleet.schedule_log import ACTOR, PendingTick, ScheduleCheckpoint, ScheduleLog, SkippedTicks
from icepack.service.fleet.upcoming import Forecast, ForecastQuery, forecast_runs
from icepack.service.loop import map_in_threads

log = logging.getLogger(__name__)

RETRY_AFTER = timedelta(minutes=1)
# Ticks that were missed longer ago than this are not even counted.
MAX_LOOK_BACK = timedelta(days=7)


class ScheduleAdvisor(TableAdvisor, Protocol):
    """Also builds the actions that a schedule asks for."""

    def prepare(self, table: TableId, kind: ActionKind, given: Mapping[str, Any]) -> Action: ...


class TickOutcome(StrEnum):
    """What came of a tick."""

    SUBMITTED = "submitted"
    # Another scheduler, or this one before it was killed, had already submitted all jobs.
    REPEATED = "repeated"
    # Nothing is recommended.
    NOTHING = "nothing"
    # Jobs of an earlier tick have not ended.
    BUSY = "busy"
    # The table's own maintenance window is closed.
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTick:
    """A table whose schedule is due."""

    table: TableId
    occurrence: Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """The outcome of a tick, and when it is retried."""

    tick: DueTick
    outcome: TickOutcome
    submissions: tuple[Submission, ...] = ()
    message: str = ""
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPass:
    """The result of one pass of the scheduler."""

    at: datetime
    results: tuple[TickResult, ...] = ()
    skipped: tuple[SkippedTicks, ...] = ()
    pending: Mapping[TableId, PendingTick] = field(default_factory=dict)


class Scheduler:
    """Submits the jobs of all ticks that are due."""

    def __init__(
        self,
        *,
        timetable: Timetable,
        advisor: ScheduleAdvisor,
        tables: Callable[[], Sequence[TableId]],
        windows: Callable[[TableId], tuple[Window, ...]],
        jobs: JobStore,
        schedule_log: ScheduleLog,
        clock: Callable[[], datetime],
        threads: int = 4,
    ) -> None:
        self._timetable = timetable
        self._advisor = advisor
        self._tables = tables
        self._jobs = jobs
        self._schedule_log = schedule_log
        self._clock = clock
        self._threads = threads
        self._cron_schedule = cache(lambda table: timetable.cron_schedule(table, windows(table)))

    def run_once(self, stop: Event | None = None) -> SchedulerPass:
        """Processes every tick since the last pass; the first pass of all has nothing to process."""
        now = self._clock()
        checkpoint = self._schedule_log.read()
        if checkpoint is None:
            self._write_checkpoint(SchedulerPass(at=now), now)
            return SchedulerPass(at=now)
        if now <= checkpoint.until:
            return SchedulerPass(at=now, pending=checkpoint.pending)
        ticks, skipped, waiting = self._find_due(checkpoint, now)
        results = map_in_threads(lambda tick: self._process(tick, now), ticks, self._threads, stop)
        busy = [_skip(result.tick, result.message) for result in results if result.outcome is TickOutcome.BUSY]
        done = SchedulerPass(
            at=now,
            results=tuple(results),
            skipped=(*skipped, *busy),
            pending={**waiting, **_collect_pending(results)},
        )
        if done.results or done.skipped or done.pending != checkpoint.pending:
            self._write_checkpoint(done, now)
        return done

    @property
    def zone(self) -> tzinfo:
        return self._timetable.zone

    def now(self) -> datetime:
        return self._clock()

    def upcoming(
        self,
        tables: Sequence[TableId],
        own_windows: Callable[[TableId], tuple[Window, ...]],
        after: datetime,
        until: datetime,
        limit: int | None = None,
    ) -> Forecast:
        """Returns the runs that are due in the time range, in order; `own_windows` are the windows of each table."""
        query = ForecastQuery(
            timetable=self._timetable,
            cron_schedule=self._cron_schedule,
            own_windows=own_windows,
            after=after,
            until=until,
        )
        return forecast_runs(query, tables, limit)

    def windows(self, table: TableId) -> tuple[Window, ...]:
        """Returns the windows of a table whose own properties set none."""
        return self._cron_schedule(table).windows

    def _occurrences(self, table: TableId, after: datetime, until: datetime) -> list[Occurrence]:
        return find_occurrences(self._cron_schedule(table), table, self._timetable.jitter, after, until)

    def _find_due(
        self, checkpoint: ScheduleCheckpoint, now: datetime
    ) -> tuple[list[DueTick], list[SkippedTicks], dict[TableId, PendingTick]]:
        ticks: list[DueTick] = []
        skipped: list[SkippedTicks] = []
        waiting: dict[TableId, PendingTick] = {}
        max_delay = self._timetable.max_delay
        since = max(checkpoint.until, now - max(MAX_LOOK_BACK, max_delay))
        for table in self._tables():
            due = self._occurrences(table, since, now)
            pending = checkpoint.pending.get(table)
            if pending is not None and not due and pending.retry_at > now:
                waiting[table] = pending
                continue
            missed = resolve_missed([*([pending.occurrence] if pending else []), *due], now, max_delay)
            if missed.skipped:
                skipped.append(_skip_missed(table, missed.skipped, now))
            if missed.run is not None:
                ticks.append(DueTick(table=table, occurrence=missed.run))
        return sorted(ticks, key=lambda tick: (tick.occurrence, tick.table)), skipped, waiting

    def _process(self, tick: DueTick, now: datetime) -> TickResult:
        """An error affects only this table, except for a lost database, which ends the pass."""
        try:
            return self._submit_due(tick, now)
        except (EnvironmentFault, Cancelled):
            raise
        except IcepackError as exc:
            message = str(exc)
        except Exception as exc:
            log.exception("schedule of %s could not be processed", tick.table)
            message = f"Unexpected {type(exc).__name__}: {exc}"
        return TickResult(tick=tick, outcome=TickOutcome.FAILED, message=message, retry_at=now + RETRY_AFTER)

    def _submit_due(self, tick: DueTick, now: datetime) -> TickResult:
        advice = self._advisor.advise(tick.table)
        windows, zone = advice.policy.windows, self._timetable.zone
        if not is_open(windows, zone, now):
            opens_at = find_next_opening(windows, zone, now)
            return TickResult(tick=tick, outcome=TickOutcome.WAITING, retry_at=opens_at)
        if not advice.policy.enabled:
            return TickResult(tick=tick, outcome=TickOutcome.NOTHING)
        unfinished = self._count_unfinished(tick)
        if unfinished:
            message = f"{unfinished} jobs of an earlier tick have not ended."
            return TickResult(tick=tick, outcome=TickOutcome.BUSY, message=message)
        return self._submit_all(tick, self._choose_actions(tick.table, advice))

    def _choose_actions(self, table: TableId, advice: Advice) -> list[Action]:
        """Returns the compaction that the schedule asks for, else the recommended actions in order."""
        given = self._timetable.entry_for(table).compaction
        if given is not None:
            return [self._advisor.prepare(table, ActionKind.COMPACT, given)]
        return [recommended.action for recommended in advice.recommendation.actions]

    def _count_unfinished(self, tick: DueTick) -> int:
        """Counts active jobs of earlier ticks; jobs of this tick are those of a scheduler that was interrupted."""
        wanted = JobFilter(table=tick.table, states=ACTIVE, requester=ACTOR)
        own_key = build_tick_key(tick.table, tick.occurrence.tick)
        found = self._jobs.list_jobs(wanted, limit=len(ActionKind) + 1).jobs
        return sum(1 for job in found if not (job.idempotency_key or "").startswith(own_key))

    def _submit_all(self, tick: DueTick, actions: Sequence[Action]) -> TickResult:
        if not actions:
            return TickResult(tick=tick, outcome=TickOutcome.NOTHING)
        found = [self._submit(tick, action) for action in actions]
        submissions = tuple(submission for submission in found if submission is not None)
        is_new = any(submission.outcome is not SubmissionOutcome.REPEATED for submission in submissions)
        outcome = TickOutcome.SUBMITTED if is_new else TickOutcome.REPEATED
        return TickResult(tick=tick, outcome=outcome, submissions=submissions)

    def _submit(self, tick: DueTick, action: Action) -> Submission | None:
        key = build_submission_key(tick.table, tick.occurrence.tick, action.kind)
        request = JobRequest(table=tick.table, action=action, requester=ACTOR, idempotency_key=key)
        try:
            return self._jobs.submit(request)
        except IdempotencyKeyReused:
            # Another scheduler inspected the table a moment earlier and got slightly different parameters.
            return None

    def _write_checkpoint(self, done: SchedulerPass, now: datetime) -> None:
        outcomes = Counter(result.outcome.value for result in done.results)
        submissions = [submission for result in done.results for submission in result.submissions]
        counts = {
            "jobs": sum(submission.outcome is SubmissionOutcome.CREATED for submission in submissions),
            **{outcome.value: outcomes[outcome.value] for outcome in TickOutcome},
            "missed": sum(item.count for item in done.skipped),
        }
        checkpoint = ScheduleCheckpoint(until=now, pending=done.pending)
        self._schedule_log.write(checkpoint, counts=counts, skipped=done.skipped, at=now)


def _collect_pending(results: Sequence[TickResult]) -> dict[TableId, PendingTick]:
    return {
        result.tick.table: _build_pending(result, result.retry_at) for result in results if result.retry_at is not None
    }


def _build_pending(result: TickResult, retry_at: datetime) -> PendingTick:
    occurrence = result.tick.occurrence
    if result.outcome is TickOutcome.WAITING:
        occurrence = replace(occurrence, due_at=retry_at, opens_at=retry_at)
    return PendingTick(occurrence=occurrence, retry_at=retry_at)


def _skip(tick: DueTick, reason: str) -> SkippedTicks:
    return SkippedTicks(table=tick.table, tick=tick.occurrence.tick, reason=reason)


def _skip_missed(table: TableId, found: Sequence[Occurrence], now: datetime) -> SkippedTicks:
    latest = max(found)
    reason = f"It was due {format_duration(now - latest.due_at)} before a scheduler could process it."
    return SkippedTicks(table=table, tick=latest.tick, reason=reason, count=len(found))
