"""The scheduler: ticks become jobs, once each, however many schedulers there are.

It remembers nothing but what the database does: how far all schedulers are stands in the audit log, and a job that
another submitted for the same tick answers to the same idempotency key.
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
from icepack.domain.job import IdempotencyKeyReused, JobFilter, JobRequest, JobState, Submission, Submitted
from icepack.domain.ports.queue import JobStore
from icepack.domain.scheduling.schedule import (
    Occurrence,
    Timetable,
    judge_missed,
    occurrences,
    submission_key,
    tick_key,
)
from icepack.domain.scheduling.windows import Window, is_open, next_opening
from icepack.domain.table import TableId
from icepack.domain.units import format_duration
from icepack.errors import Cancelled, EnvironmentFault, IcepackError
from icepack.service.fleet.schedule_log import ACTOR, Mark, Pending, ScheduleLog, Skipped
from icepack.service.fleet.upcoming import Forecast, Outlook, forecast
from icepack.service.loop import spread
from icepack.service.service import Advice

log = logging.getLogger(__name__)

ACTIVE = frozenset({JobState.QUEUED, JobState.RUNNING})
TRY_AGAIN_AFTER = timedelta(minutes=1)
LONGEST_LOOK_BACK = timedelta(days=7)
"""Ticks that were missed before are not even counted."""


class Advisor(Protocol):
    def advise(self, table: TableId) -> Advice: ...

    def prepare(self, table: TableId, kind: ActionKind, given: Mapping[str, Any]) -> Action: ...


class End(StrEnum):
    """What became of a tick."""

    SUBMITTED = "submitted"
    REPEATED = "repeated"
    """Another scheduler, or this one before it was killed, had submitted all of it."""
    NOTHING = "nothing"
    """Nothing is recommended."""
    BUSY = "busy"
    """Jobs of an earlier tick are not done yet."""
    WAITING = "waiting"
    """The table's own window is closed."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A table whose turn has come."""

    table: TableId
    occurrence: Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a call."""

    call: Call
    end: End
    submissions: tuple[Submission, ...] = ()
    message: str = ""
    again_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One look at the clock."""

    at: datetime
    answers: tuple[Answer, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    pending: Mapping[TableId, Pending] = field(default_factory=dict)


class Scheduler:
    def __init__(
        self,
        *,
        timetable: Timetable,
        advisor: Advisor,
        tables: Callable[[], Sequence[TableId]],
        windows: Callable[[TableId], tuple[Window, ...]],
        jobs: JobStore,
        memory: ScheduleLog,
        clock: Callable[[], datetime],
        threads: int = 4,
    ) -> None:
        self._timetable = timetable
        self._advisor = advisor
        self._tables = tables
        self._jobs = jobs
        self._memory = memory
        self._clock = clock
        self._threads = threads
        self._rhythm = cache(lambda table: timetable.rhythm(table, windows(table)))

    def run_once(self, stop: Event | None = None) -> Round:
        """Sees to everything that has come due since the last time; the first time, nothing has."""
        now = self._clock()
        mark = self._memory.read()
        if mark is None:
            self._write(Round(at=now), now)
            return Round(at=now)
        if now <= mark.until:
            return Round(at=now, pending=mark.pending)
        calls, skipped, waiting = self._due(mark, now)
        answers = spread(lambda call: self._answer(call, now), calls, self._threads, stop)
        busy = [_skipped(answer.call, answer.message) for answer in answers if answer.end is End.BUSY]
        found = Round(
            at=now,
            answers=tuple(answers),
            skipped=(*skipped, *busy),
            pending={**waiting, **_still_pending(answers)},
        )
        if found.answers or found.skipped or found.pending != mark.pending:
            self._write(found, now)
        return found

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
        """What comes due between the two moments, in order, by the windows that the tables have themselves."""
        outlook = Outlook(
            timetable=self._timetable, rhythm=self._rhythm, own_windows=own_windows, after=after, until=until
        )
        return forecast(outlook, tables, limit)

    def windows(self, table: TableId) -> tuple[Window, ...]:
        """Of a table whose own properties name none."""
        return self._rhythm(table).windows

    def _occurrences(self, table: TableId, after: datetime, until: datetime) -> list[Occurrence]:
        return occurrences(self._rhythm(table), table, self._timetable.jitter, after, until)

    def _due(self, mark: Mark, now: datetime) -> tuple[list[Call], list[Skipped], dict[TableId, Pending]]:
        calls: list[Call] = []
        skipped: list[Skipped] = []
        waiting: dict[TableId, Pending] = {}
        catch_up = self._timetable.patience
        since = max(mark.until, now - max(LONGEST_LOOK_BACK, catch_up))
        for table in self._tables():
            due = self._occurrences(table, since, now)
            pending = mark.pending.get(table)
            if pending is not None and not due and pending.again_at > now:
                waiting[table] = pending
                continue
            missed = judge_missed([*([pending.occurrence] if pending else []), *due], now, catch_up)
            if missed.skipped:
                skipped.append(_missed(table, missed.skipped, now))
            if missed.run is not None:
                calls.append(Call(table=table, occurrence=missed.run))
        return sorted(calls, key=lambda call: (call.occurrence, call.table)), skipped, waiting

    def _answer(self, call: Call, now: datetime) -> Answer:
        """One table's trouble is its own; a lost database is everybody's."""
        try:
            return self._see_to(call, now)
        except (EnvironmentFault, Cancelled):
            raise
        except IcepackError as exc:
            message = str(exc)
        except Exception as exc:
            log.exception("the schedule of %s could not be seen to", call.table)
            message = f"Unexpected {type(exc).__name__}: {exc}"
        return Answer(call=call, end=End.FAILED, message=message, again_at=now + TRY_AGAIN_AFTER)

    def _see_to(self, call: Call, now: datetime) -> Answer:
        advice = self._advisor.advise(call.table)
        windows, zone = advice.policy.windows, self._timetable.zone
        if not is_open(windows, zone, now):
            return Answer(call=call, end=End.WAITING, again_at=next_opening(windows, zone, now))
        if not advice.policy.enabled:
            return Answer(call=call, end=End.NOTHING)
        unfinished = self._unfinished(call)
        if unfinished:
            return Answer(call=call, end=End.BUSY, message=f"{unfinished} jobs of an earlier tick are not done yet.")
        return self._submit_all(call, self._actions(call.table, advice))

    def _actions(self, table: TableId, advice: Advice) -> list[Action]:
        """What the schedule asks for word for word, else what is recommended, in the order in which it runs."""
        given = self._timetable.entry_for(table).compaction
        if given is not None:
            return [self._advisor.prepare(table, ActionKind.COMPACT, given)]
        return [recommended.action for recommended in advice.recommendation.actions]

    def _unfinished(self, call: Call) -> int:
        """Jobs that an earlier tick left behind; those of this very tick are a scheduler's that was cut off."""
        wanted = JobFilter(table=call.table, states=ACTIVE, requester=ACTOR)
        own = tick_key(call.table, call.occurrence.tick)
        found = self._jobs.list_jobs(wanted, limit=len(ActionKind) + 1).jobs
        return sum(1 for job in found if not (job.idempotency_key or "").startswith(own))

    def _submit_all(self, call: Call, actions: Sequence[Action]) -> Answer:
        if not actions:
            return Answer(call=call, end=End.NOTHING)
        found = [self._submit(call, action) for action in actions]
        made = tuple(submission for submission in found if submission is not None)
        is_new = any(submission.outcome is not Submitted.REPEATED for submission in made)
        return Answer(call=call, end=End.SUBMITTED if is_new else End.REPEATED, submissions=made)

    def _submit(self, call: Call, action: Action) -> Submission | None:
        key = submission_key(call.table, call.occurrence.tick, action.kind)
        request = JobRequest(table=call.table, action=action, requester=ACTOR, idempotency_key=key)
        try:
            return self._jobs.submit(request)
        except IdempotencyKeyReused:
            # Another scheduler looked at the table a moment earlier, and saw it a little differently.
            return None

    def _write(self, found: Round, now: datetime) -> None:
        ends = Counter(answer.end.value for answer in found.answers)
        jobs = sum(
            submission.outcome is Submitted.CREATED for answer in found.answers for submission in answer.submissions
        )
        counts = {
            "jobs": jobs,
            **{end.value: ends[end.value] for end in End},
            "missed": sum(item.count for item in found.skipped),
        }
        mark = Mark(until=now, pending=found.pending)
        self._memory.write(mark, counts=counts, skipped=found.skipped, at=now)


def _still_pending(answers: Sequence[Answer]) -> dict[TableId, Pending]:
    return {answer.call.table: _pending(answer, answer.again_at) for answer in answers if answer.again_at is not None}


def _pending(answer: Answer, again_at: datetime) -> Pending:
    occurrence = answer.call.occurrence
    if answer.end is End.WAITING:
        occurrence = replace(occurrence, due_at=again_at, opens_at=again_at)
    return Pending(occurrence=occurrence, again_at=again_at)


def _skipped(call: Call, reason: str) -> Skipped:
    return Skipped(table=call.table, tick=call.occurrence.tick, reason=reason)


def _missed(table: TableId, found: Sequence[Occurrence], now: datetime) -> Skipped:
    latest = max(found)
    reason = f"It had come due {format_duration(now - latest.due_at)} before a scheduler could see to it."
    return Skipped(table=table, tick=latest.tick, reason=reason, count=len(found))
