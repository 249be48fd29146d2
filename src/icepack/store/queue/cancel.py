"""Cancels jobs: queued jobs at once, running jobs through their worker."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, update

from icepack.domain.job import Job, JobEventKind, JobState, JobStateConflict
from icepack.store.queue.events import EventLog
from icepack.store.queue.table_slots import refresh_slot
from icepack.store.queue.transitions import transition_to
from icepack.store.schema import jobs
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.text import clean_text

_SELECTED_JOB = jobs.c.number == bindparam("job_number")


class JobCanceller:
    def __init__(self, clock: DatabaseClock, event_log: EventLog) -> None:
        self._event_log = event_log
        cancelled = transition_to(JobState.CANCELLED).where(_SELECTED_JOB)
        self._end = cancelled.values(finished_at=clock.now(), message=bindparam("new_message"))
        self._request = update(jobs).where(_SELECTED_JOB).values(cancel_requested_at=clock.now())

    def cancel(self, connection: Connection, job: Job, by: str) -> None:
        """Cancel the job; the caller has locked the table slot. Cancelling twice changes nothing."""
        if job.state is JobState.QUEUED:
            self._cancel_queued(connection, job, by)
        elif job.state is JobState.RUNNING:
            self._request_cancel(connection, job, by)
        elif job.state is not JobState.CANCELLED:
            raise JobStateConflict(job, "cancelled")

    def _cancel_queued(self, connection: Connection, job: Job, by: str) -> None:
        message = f"Cancelled by {by}." if by else "Cancelled."
        connection.execute(self._end, {"job_number": job.number, "new_message": clean_text(message)})
        self._add_event(connection, JobEventKind.CANCELLED, job, by)
        refresh_slot(connection, str(job.table))

    def _request_cancel(self, connection: Connection, job: Job, by: str) -> None:
        if job.cancel_requested_at is None:
            connection.execute(self._request, {"job_number": job.number})
            self._add_event(connection, JobEventKind.CANCEL_REQUESTED, job, by)

    def _add_event(self, connection: Connection, kind: JobEventKind, job: Job, by: str) -> None:
        row = {"id": job.id, "table_name": str(job.table), "attempts": job.attempts}
        self._event_log.add_job_event(connection, kind, row, by)
