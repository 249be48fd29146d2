"""How a claim ends: the job is done, or comes back to the queue; either way its table is free again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, Connection, Dialect, Engine, Float, Text, bindparam, insert, null, select

from icepack.domain.job import JobEventKind, JobOutcome, JobState
from icepack.store.queue.events import Journal
from icepack.store.queue.table_slots import FREED, Hold, free_lane, refresh_lane
from icepack.store.queue.transitions import moved
from icepack.store.schema import QUEUED, BigNumber, constant, events, jobs, lanes
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.prepared import Prepared
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import writing

_MESSAGE = bindparam("said", type_=Text)
_DETAILS = bindparam("told", type_=JSON(none_as_null=True))
_EVENT_OF = {
    JobState.SUCCEEDED: JobEventKind.SUCCEEDED,
    JobState.FAILED: JobEventKind.FAILED,
    JobState.CANCELLED: JobEventKind.CANCELLED,
}


class Finishing:
    """A job's end, in one statement on PostgreSQL and in three on SQLite."""

    def __init__(self, clock: DatabaseClock, journal: Journal, dialect: Dialect) -> None:
        self._clock = clock
        self._journal = journal
        self._at_once = {state: Prepared(self._whole_end(state), dialect, "number") for state in _EVENT_OF}
        self._step = {state: self._ended(state) for state in _EVENT_OF}

    def finish(self, engine: Engine, hold: Hold, job_number: int, outcome: JobOutcome) -> bool:
        """False, and nothing done, when the fence is stale."""
        told = outcome.details
        values = {**hold.values, "job_number": job_number, "said": storable(outcome.message), "told": told}
        if engine.dialect.name == "postgresql":
            values["told"] = None if told is None else json.dumps(told)
            return self._at_once[outcome.state].first(engine, values) is not None
        with writing(engine) as connection:
            return self._finish_in_steps(connection, hold, outcome, values)

    def _finish_in_steps(self, connection: Connection, hold: Hold, outcome: JobOutcome, values: dict[str, Any]) -> bool:
        if not free_lane(connection, hold):
            return False
        ended = connection.execute(self._step[outcome.state], values).one()
        self._journal.of_job(connection, _EVENT_OF[outcome.state], ended._mapping, hold.owner, outcome.message)
        return True

    def _whole_end(self, state: JobState) -> Any:
        # The lane first, as everywhere: two that take locks in different orders could wait for each other.
        freed = FREED.returning(lanes.c.table_name).cte("freed")
        ended = self._ended(state).where(jobs.c.table_name == freed.c.table_name).cte("ended")
        kind = constant(_EVENT_OF[state].value)
        owner = bindparam("held_by", type_=Text)
        entry = select(ended.c.id, ended.c.table_name, self._clock.at(), kind, owner, ended.c.attempts, _MESSAGE)
        columns = ["job_id", "table_name", "at", "kind", "actor", "attempt", "message"]
        return insert(events).from_select(columns, entry).returning(events.c.number)

    def _ended(self, state: JobState) -> Any:
        ended = moved(state).where(jobs.c.number == bindparam("job_number", type_=BigNumber))
        ended = ended.values(finished_at=self._clock.at(), message=_MESSAGE, details=_DETAILS)
        return ended.returning(jobs.c.id, jobs.c.table_name, jobs.c.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Why a job comes back, and on what terms."""

    kind: JobEventKind
    message: str
    retry: bool = True
    costs_attempt: bool = True
    delay_seconds: float = 0.0


class Returning:
    """Takes a job from its holder: back to the queue, or to its end where there is no going on."""

    def __init__(self, clock: DatabaseClock, journal: Journal) -> None:
        self._journal = journal
        self._requeue = (
            moved(JobState.QUEUED)
            .where(jobs.c.number == bindparam("job_number"))
            .values(
                message=_MESSAGE,
                max_attempts=jobs.c.max_attempts + bindparam("granted"),
                rank=bindparam("new_rank"),
            )
        )
        self._later = clock.after(bindparam("delay_seconds", type_=Float))
        self._end = {
            state: moved(state)
            .where(jobs.c.number == bindparam("job_number"))
            .values(message=_MESSAGE, finished_at=clock.now())
            for state in (JobState.FAILED, JobState.CANCELLED)
        }
        self._absorb = (
            moved(JobState.CANCELLED)
            .where(QUEUED, jobs.c.table_name == bindparam("lane"), jobs.c.digest == bindparam("equal"))
            .values(message=_MESSAGE, finished_at=clock.now(), collapsed_into=bindparam("into"))
            .returning(*jobs.c)
        )

    def take_back(self, connection: Connection, job_number: int, terms: Return, actor: str) -> None:
        """The caller has locked and freed the lane."""
        job = connection.execute(select(jobs).where(jobs.c.number == job_number)).one()._mapping
        if job["cancel_requested_at"] is not None:
            self._finish(connection, job, JobState.CANCELLED, terms, actor)
        elif not terms.retry or (terms.costs_attempt and job["attempts"] >= job["max_attempts"]):
            self._finish(connection, job, JobState.FAILED, terms, actor)
        else:
            self._put_back(connection, job, terms, actor)
        refresh_lane(connection, job["table_name"])

    def _finish(
        self, connection: Connection, job: Mapping[Any, Any], state: JobState, terms: Return, actor: str
    ) -> None:
        connection.execute(self._end[state], {"job_number": job["number"], "said": terms.message})
        self._journal.of_job(connection, _EVENT_OF[state], job, actor, terms.message)

    def _put_back(self, connection: Connection, job: Mapping[Any, Any], terms: Return, actor: str) -> None:
        absorbed = self._absorb_equals(connection, job)
        values = {
            "job_number": job["number"],
            "said": terms.message,
            "granted": 0 if terms.costs_attempt else 1,
            "new_rank": min([job["rank"], *(equal["rank"] for equal in absorbed)]),
        }
        if terms.delay_seconds > 0:
            delayed = self._requeue.values(waits_until=self._later)
            connection.execute(delayed, {**values, "delay_seconds": terms.delay_seconds})
        else:
            connection.execute(self._requeue.values(waits_until=null()), values)
        self._journal.of_job(connection, terms.kind, job, actor, terms.message)

    def _absorb_equals(self, connection: Connection, job: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
        """An equal job that was submitted while this one ran would do the same work again."""
        message = f"Collapsed into job {job['id']}, which came back to the queue."
        values = {"lane": job["table_name"], "equal": job["digest"], "said": message, "into": job["id"]}
        absorbed: list[Mapping[Any, Any]] = [row._mapping for row in connection.execute(self._absorb, values)]
        for equal in absorbed:
            self._journal.of_job(connection, JobEventKind.COLLAPSED, equal, "", message)
        return absorbed
