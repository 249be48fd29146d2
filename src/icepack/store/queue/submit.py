"""How a job enters the queue: once per idempotency key, once per equal work."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, case, insert, null, select, update
from sqlalchemy.dialects import postgresql, sqlite

from icepack.domain.job import (
    IdempotencyKeyReused,
    Job,
    JobEventKind,
    JobNotFound,
    JobRequest,
    Submission,
    Submitted,
)
from icepack.store.queue.events import Journal
from icepack.store.queue.rows import new_row, read_job
from icepack.store.queue.table_slots import open_lane, refresh_lane
from icepack.store.schema import QUEUED, UtcDateTime, job_keys, jobs
from icepack.store.sql.clock import DatabaseClock

_NOT_BEFORE = bindparam("earliest", type_=UtcDateTime)


class Submitting:
    def __init__(self, clock: DatabaseClock, journal: Journal) -> None:
        self._journal = journal
        waits_until = case((clock.now() < _NOT_BEFORE, _NOT_BEFORE), else_=null())
        self._insert = insert(jobs).values(submitted_at=clock.now(), waits_until=waits_until)
        # A retry's delay stays as it is: else whoever submits again and again would undo it.
        sooner = case(
            (jobs.c.attempts > 0, jobs.c.waits_until),
            (jobs.c.waits_until > _NOT_BEFORE, _NOT_BEFORE),
            (_NOT_BEFORE.is_(None), null()),
            else_=jobs.c.waits_until,
        )
        self._raise = (
            update(jobs)
            .where(jobs.c.number == bindparam("job_number"))
            .values(
                rank=case((jobs.c.rank > bindparam("asked_rank"), bindparam("asked_rank")), else_=jobs.c.rank),
                waits_until=sooner,
            )
        )

    def submit(self, connection: Connection, request: JobRequest) -> Submission:
        """The lane's lock makes equal submissions wait for one another, the key's row those with one key."""
        open_lane(connection, request.table)
        row = new_row(request)
        return (
            self._repeat(connection, request, row)
            or self._collapse(connection, request, row)
            or self._create(connection, request, row)
        )

    def _repeat(self, connection: Connection, request: JobRequest, row: dict[str, Any]) -> Submission | None:
        """The job that answered to the key before; a new key is taken."""
        key, asked = request.idempotency_key, request.fingerprint or row["digest"]
        if key is None or _take_key(connection, row, asked):
            return None
        taken = connection.execute(select(job_keys).where(job_keys.c.key == row["idempotency_key"])).one()
        job = _follow(connection, taken.job_id)
        if (taken.table_name, taken.digest) != (row["table_name"], asked):
            raise IdempotencyKeyReused(key, job)
        return Submission(job=job, outcome=Submitted.REPEATED)

    def _collapse(self, connection: Connection, request: JobRequest, row: dict[str, Any]) -> Submission | None:
        same = (jobs.c.table_name == row["table_name"]) & (jobs.c.digest == row["digest"])
        equal = connection.execute(select(jobs).where(QUEUED, same)).one_or_none()
        if equal is None:
            return None
        asked = {"job_number": equal.number, "asked_rank": row["rank"], "earliest": row["not_before"]}
        connection.execute(self._raise, asked)
        _point_key(connection, row["idempotency_key"], equal.id)
        self._journal.of_job(connection, JobEventKind.COLLAPSED, equal._mapping, request.requester)
        refresh_lane(connection, row["table_name"])
        return Submission(job=_read(connection, equal.id), outcome=Submitted.COLLAPSED)

    def _create(self, connection: Connection, request: JobRequest, row: dict[str, Any]) -> Submission:
        connection.execute(self._insert, {**row, "earliest": row["not_before"]})
        self._journal.of_job(connection, JobEventKind.SUBMITTED, row, request.requester)
        refresh_lane(connection, row["table_name"])
        return Submission(job=_read(connection, row["id"]), outcome=Submitted.CREATED)


def _take_key(connection: Connection, row: dict[str, Any], asked: str) -> bool:
    made = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    taken = made(job_keys).values(
        key=row["idempotency_key"], job_id=row["id"], table_name=row["table_name"], digest=asked
    )
    return connection.scalar(taken.on_conflict_do_nothing().returning(job_keys.c.key)) is not None


def _point_key(connection: Connection, key: str | None, job_id: UUID) -> None:
    if key is not None:
        connection.execute(update(job_keys).where(job_keys.c.key == key).values(job_id=job_id))


def _follow(connection: Connection, job_id: UUID) -> Job:
    job = _read(connection, job_id)
    return job if job.collapsed_into is None else _follow(connection, job.collapsed_into)


def _read(connection: Connection, job_id: UUID) -> Job:
    job = read_job(connection, jobs.c.id == job_id)
    if job is None:
        raise JobNotFound(job_id)
    return job
