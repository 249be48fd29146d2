"""Adds a job to the queue, once per idempotency key and once per equal queued work."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, case, insert, null, select, update

from icepack.domain.job import IdempotencyKeyReused, Job, JobEventKind, JobRequest, Submission, SubmissionOutcome
from icepack.store.queue.events import EventLog
from icepack.store.queue.rows import new_job_row, read_job
from icepack.store.queue.table_slots import lock_or_create_slot, refresh_slot
from icepack.store.schema import JOB_QUEUED, job_keys, jobs
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.types import UtcDateTime
from icepack.store.sql.upsert import insert_if_absent

_EARLIEST = bindparam("earliest", type_=UtcDateTime)


class JobInserter:
    def __init__(self, clock: DatabaseClock, event_log: EventLog) -> None:
        self._event_log = event_log
        waits_until = case((clock.now() < _EARLIEST, _EARLIEST), else_=null())
        self._insert = insert(jobs).values(submitted_at=clock.now(), waits_until=waits_until)
        # The delay of a retry is kept: otherwise repeated submissions would cancel it.
        earlier_wait = case(
            (jobs.c.attempts > 0, jobs.c.waits_until),
            (jobs.c.waits_until > _EARLIEST, _EARLIEST),
            (_EARLIEST.is_(None), null()),
            else_=jobs.c.waits_until,
        )
        requested_rank: Any = bindparam("requested_rank")
        self._raise_urgency = (
            update(jobs)
            .where(jobs.c.number == bindparam("job_number"))
            .values(
                rank=case((jobs.c.rank > requested_rank, requested_rank), else_=jobs.c.rank), waits_until=earlier_wait
            )
        )

    def submit(self, connection: Connection, request: JobRequest) -> Submission:
        """Submit the job; the slot's lock serializes equal submissions, the key's row those with the same key."""
        lock_or_create_slot(connection, request.table)
        row = new_job_row(request)
        return (
            self._find_by_key(connection, request, row)
            or self._collapse_into_equal(connection, request, row)
            or self._create(connection, request, row)
        )

    def _find_by_key(self, connection: Connection, request: JobRequest, row: dict[str, Any]) -> Submission | None:
        """The job that was submitted with the same key before; a new key is stored."""
        key, fingerprint = request.idempotency_key, request.fingerprint or row["digest"]
        if key is None or _store_key(connection, row, fingerprint):
            return None
        stored = connection.execute(select(job_keys).where(job_keys.c.key == row["idempotency_key"])).one()
        job = _follow_collapsed(connection, stored.job_id)
        if (stored.table_name, stored.digest) != (row["table_name"], fingerprint):
            raise IdempotencyKeyReused(key, job)
        return Submission(job=job, outcome=SubmissionOutcome.REPEATED)

    def _collapse_into_equal(
        self, connection: Connection, request: JobRequest, row: dict[str, Any]
    ) -> Submission | None:
        same_work = (jobs.c.table_name == row["table_name"]) & (jobs.c.digest == row["digest"])
        equal = connection.execute(select(jobs).where(JOB_QUEUED, same_work)).one_or_none()
        if equal is None:
            return None
        values = {"job_number": equal.number, "requested_rank": row["rank"], "earliest": row["not_before"]}
        connection.execute(self._raise_urgency, values)
        _point_key_to(connection, row["idempotency_key"], equal.id)
        self._event_log.add_job_event(connection, JobEventKind.COLLAPSED, equal._mapping, request.requester)
        refresh_slot(connection, row["table_name"])
        return Submission(job=read_job(connection, equal.id), outcome=SubmissionOutcome.COLLAPSED)

    def _create(self, connection: Connection, request: JobRequest, row: dict[str, Any]) -> Submission:
        connection.execute(self._insert, {**row, "earliest": row["not_before"]})
        self._event_log.add_job_event(connection, JobEventKind.SUBMITTED, row, request.requester)
        refresh_slot(connection, row["table_name"])
        return Submission(job=read_job(connection, row["id"]), outcome=SubmissionOutcome.CREATED)


def _store_key(connection: Connection, row: dict[str, Any], fingerprint: str) -> bool:
    """Returns False if the key is stored already."""
    values = {
        "key": row["idempotency_key"],
        "job_id": row["id"],
        "table_name": row["table_name"],
        "digest": fingerprint,
    }
    statement = insert_if_absent(job_keys, connection.dialect).returning(job_keys.c.key)
    return connection.scalar(statement, values) is not None


def _point_key_to(connection: Connection, key: str | None, job_id: UUID) -> None:
    if key is not None:
        connection.execute(update(job_keys).where(job_keys.c.key == key).values(job_id=job_id))


def _follow_collapsed(connection: Connection, job_id: UUID) -> Job:
    """The job itself, or the job into which it was collapsed."""
    job = read_job(connection, job_id)
    return job if job.collapsed_into is None else _follow_collapsed(connection, job.collapsed_into)
