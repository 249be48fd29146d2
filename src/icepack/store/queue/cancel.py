"""Cancelling: at once while a job is queued, by way of its worker while it runs."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, update

from icepack.domain.job import Job, JobEventKind, JobState, JobStateConflict
from icepack.store.queue.events import Journal
from icepack.store.queue.table_slots import refresh_lane
from icepack.store.queue.transitions import moved
from icepack.store.schema import jobs
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.text import storable

_JOB = jobs.c.number == bindparam("job_number")


class Cancelling:
    def __init__(self, clock: DatabaseClock, journal: Journal) -> None:
        self._journal = journal
        ended = moved(JobState.CANCELLED).where(_JOB)
        self._end = ended.values(finished_at=clock.now(), message=bindparam("said"))
        self._ask = update(jobs).where(_JOB).values(cancel_requested_at=clock.now())

    def cancel(self, connection: Connection, job: Job, by: str) -> None:
        """The caller has locked the lane; to cancel twice does no harm."""
        if job.state is JobState.QUEUED:
            self._cancel_queued(connection, job, by)
        elif job.state is JobState.RUNNING:
            self._ask_worker(connection, job, by)
        elif job.state is not JobState.CANCELLED:
            raise JobStateConflict(job, "cancelled")

    def _cancel_queued(self, connection: Connection, job: Job, by: str) -> None:
        said = f"Cancelled by {by}." if by else "Cancelled."
        connection.execute(self._end, {"job_number": job.number, "said": storable(said)})
        self._note(connection, JobEventKind.CANCELLED, job, by)
        refresh_lane(connection, str(job.table))

    def _ask_worker(self, connection: Connection, job: Job, by: str) -> None:
        if job.cancel_requested_at is None:
            connection.execute(self._ask, {"job_number": job.number})
            self._note(connection, JobEventKind.CANCEL_REQUESTED, job, by)

    def _note(self, connection: Connection, kind: JobEventKind, job: Job, by: str) -> None:
        row = {"id": job.id, "table_name": str(job.table), "attempts": job.attempts}
        self._journal.of_job(connection, kind, row, by)
