"""Returns a claimed job to the queue, or ends it if it must not run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Float, bindparam, null, select

from icepack.domain.job import JobEventKind, JobState
from icepack.store.queue.events import EventLog
from icepack.store.queue.finish import END_EVENTS, NEW_MESSAGE
from icepack.store.queue.table_slots import refresh_slot
from icepack.store.queue.transitions import transition_to
from icepack.store.schema import JOB_QUEUED, jobs
from icepack.store.sql.clock import DatabaseClock

_SELECTED_JOB = jobs.c.number == bindparam("job_number")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueTerms:
    """Why a job leaves its worker, and whether and when it may run again."""

    kind: JobEventKind
    message: str
    retry: bool = True
    costs_attempt: bool = True
    delay_seconds: float = 0.0


class JobRequeuer:
    def __init__(self, clock: DatabaseClock, event_log: EventLog) -> None:
        self._event_log = event_log
        self._requeue = (
            transition_to(JobState.QUEUED)
            .where(_SELECTED_JOB)
            .values(
                message=NEW_MESSAGE,
                max_attempts=jobs.c.max_attempts + bindparam("extra_attempts"),
                rank=bindparam("new_rank"),
            )
        )
        self._delayed_until = clock.after(bindparam("delay_seconds", type_=Float))
        self._end = {
            state: transition_to(state).where(_SELECTED_JOB).values(message=NEW_MESSAGE, finished_at=clock.now())
            for state in (JobState.FAILED, JobState.CANCELLED)
        }
        self._collapse = (
            transition_to(JobState.CANCELLED)
            .where(JOB_QUEUED, jobs.c.table_name == bindparam("slot"), jobs.c.digest == bindparam("equal_digest"))
            .values(message=NEW_MESSAGE, finished_at=clock.now(), collapsed_into=bindparam("target_job"))
            .returning(*jobs.c)
        )

    def requeue_or_end(self, connection: Connection, job_number: int, terms: RequeueTerms, actor: str) -> None:
        """Return the job to the queue, or end it; the caller has locked and released the table slot."""
        job = connection.execute(select(jobs).where(jobs.c.number == job_number)).one()._mapping
        if job["cancel_requested_at"] is not None:
            self._end_job(connection, job, JobState.CANCELLED, terms, actor)
        elif not terms.retry or (terms.costs_attempt and job["attempts"] >= job["max_attempts"]):
            self._end_job(connection, job, JobState.FAILED, terms, actor)
        else:
            self._requeue_job(connection, job, terms, actor)
        refresh_slot(connection, job["table_name"])

    def _end_job(
        self, connection: Connection, job: Mapping[Any, Any], state: JobState, terms: RequeueTerms, actor: str
    ) -> None:
        connection.execute(self._end[state], {"job_number": job["number"], "new_message": terms.message})
        self._event_log.add_job_event(connection, END_EVENTS[state], job, actor, terms.message)

    def _requeue_job(self, connection: Connection, job: Mapping[Any, Any], terms: RequeueTerms, actor: str) -> None:
        collapsed = self._collapse_equal_jobs(connection, job)
        values = {
            "job_number": job["number"],
            "new_message": terms.message,
            "extra_attempts": 0 if terms.costs_attempt else 1,
            "new_rank": min([job["rank"], *(equal["rank"] for equal in collapsed)]),
        }
        if terms.delay_seconds > 0:
            delayed = self._requeue.values(waits_until=self._delayed_until)
            connection.execute(delayed, {**values, "delay_seconds": terms.delay_seconds})
        else:
            connection.execute(self._requeue.values(waits_until=null()), values)
        self._event_log.add_job_event(connection, terms.kind, job, actor, terms.message)

    def _collapse_equal_jobs(self, connection: Connection, job: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
        """Cancel equal jobs that were submitted while this one ran: they would do the same work again."""
        message = f"Collapsed into job {job['id']}, which returned to the queue."
        values = {
            "slot": job["table_name"],
            "equal_digest": job["digest"],
            "new_message": message,
            "target_job": job["id"],
        }
        collapsed: list[Mapping[Any, Any]] = [row._mapping for row in connection.execute(self._collapse, values)]
        for equal in collapsed:
            self._event_log.add_job_event(connection, JobEventKind.COLLAPSED, equal, "", message)
        return collapsed
