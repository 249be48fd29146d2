"""The queue in SQLite or PostgreSQL.

Every change of a table's queue begins by locking that table's lane, so that what it then reads stays true until it
commits; see lanes.py. Only the claim and the finish, which must be fast, do it all in one statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, Connection, Engine, Float, bindparam, func, select, update

from icepack.domain.job import (
    Claim,
    ClaimLost,
    Job,
    JobEvent,
    JobEventKind,
    JobFilter,
    JobNotFound,
    JobOutcome,
    JobPage,
    JobProgress,
    JobRequest,
    JobState,
    JobStateConflict,
    Submission,
)
from icepack.domain.observability.trace import Span, TraceContext
from icepack.domain.ports.queue import JobStore
from icepack.domain.serialization import to_json
from icepack.store.queue.cancel import Cancelling
from icepack.store.queue.claim_search import Searching
from icepack.store.queue.events import Journal
from icepack.store.queue.finish import Finishing, Return, Returning
from icepack.store.queue.reclaim import Reclaiming
from icepack.store.queue.rows import conditions, read_job, select_events, select_jobs, to_event, to_job
from icepack.store.queue.submit import Submitting
from icepack.store.queue.table_slots import Hold, free_lane, held_lane, lock_lane
from icepack.store.schema import constant, events, jobs, lanes
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.query import Query
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import at_once, reading, writing
from icepack.tracing import Tracer


class SqlJobStore(JobStore):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None, tracer: Tracer | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._tracer = tracer or Tracer()
        self._journal = journal = Journal(self._clock)
        self._searching = Searching(engine, self._clock)
        self._submitting = Submitting(self._clock, journal)
        self._finishing = Finishing(self._clock, journal, engine.dialect)
        self._returning = Returning(self._clock, journal)
        self._reclaiming = Reclaiming(self._clock, journal)
        self._beat = _renewal(self._clock)
        self._cancelling = Cancelling(self._clock, journal)
        wanted = bindparam("job_id", type_=jobs.c.id.type)
        self._one = Query(engine, select_jobs().where(jobs.c.id == wanted))
        self._story = Query(engine, select_events().where(events.c.job_id == wanted))

    def submit(self, request: JobRequest) -> Submission:
        """The job's spans are part of the caller's, or else of the one that is made here."""
        parent = TraceContext.parse(request.trace_context)
        with self._tracer.span("submit", parent, icepack__table=str(request.table)) as span:
            traced = replace(request, trace_context=str(parent or span.context))
            with plain_faults(self._engine.url), writing(self._engine) as connection:
                submission = self._submitting.submit(connection, traced)
            span.note(icepack__job_id=str(submission.job.id), icepack__outcome=submission.outcome.value)
        return submission

    def claim(self, worker: str, lease: timedelta) -> Claim | None:
        values = {"worker": worker, "lease_seconds": lease.total_seconds()}
        with plain_faults(self._engine.url):
            row = self._searching.claim(values)
        if row is None:
            return None
        job = to_job(row)
        return Claim(job=job, fence=row["fence"], worker=worker, lease=lease, lease_ends_at=row["lease_ends_at"])

    def heartbeat(self, claim: Claim) -> bool:
        values = {**_hold(claim).values, "lease_seconds": claim.lease.total_seconds()}
        with plain_faults(self._engine.url), at_once(self._engine) as connection:
            found = connection.execute(self._beat, values).one_or_none()
        if found is None:
            raise ClaimLost(claim)
        return found.cancel_requested_at is not None

    def progress(self, claim: Claim, progress: JobProgress) -> None:
        values = {**_claimed(claim), "done": to_json(progress)}
        with plain_faults(self._engine.url), at_once(self._engine) as connection:
            written = connection.execute(_PROGRESS, values).rowcount
        if not written:
            raise ClaimLost(claim)

    def trace(self, claim: Claim, spans: Sequence[Span]) -> None:
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            lock_lane(connection, str(claim.table))
            mine = connection.execute(_CLAIMED, _claimed(claim)).one_or_none()
            if mine is None:
                raise ClaimLost(claim)
            for span in spans:
                self._journal.of_span(connection, span, mine._mapping, claim.worker)

    def finish(self, claim: Claim, outcome: JobOutcome) -> None:
        with plain_faults(self._engine.url):
            if self._finishing.finish(self._engine, _hold(claim), claim.job.number, outcome):
                return
            with reading(self._engine) as connection:
                was_told = _was_told(connection, claim, JobEventKind(outcome.state))
        if not was_told:
            raise ClaimLost(claim)

    def fail(self, claim: Claim, message: str, *, retry: bool = True, delay: timedelta = timedelta(0)) -> Job:
        terms = Return(
            kind=JobEventKind.RETRIED, message=storable(message), retry=retry, delay_seconds=delay.total_seconds()
        )
        return self._give_up(claim, terms)

    def hand_back(self, claim: Claim, message: str = "") -> Job:
        said = storable(message)
        return self._give_up(claim, Return(kind=JobEventKind.HANDED_BACK, message=said, costs_attempt=False))

    def cancel(self, job_id: UUID, *, by: str = "") -> Job:
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            lock_lane(connection, str(_read(connection, job_id).table))
            self._cancelling.cancel(connection, _read(connection, job_id), by)
            return _read(connection, job_id)

    def retry(self, job_id: UUID, *, requester: str = "") -> Submission:
        job = self.get(job_id)
        if not job.state.is_final:
            raise JobStateConflict(job, "tried again before it has ended")
        granted = sum(event.kind is JobEventKind.HANDED_BACK for event in self.events(job_id))
        request = JobRequest(
            table=job.table,
            action=job.action,
            priority=job.priority,
            max_attempts=job.max_attempts - granted,
            requester=requester or job.requester,
            trace_context=job.trace_context,
            retry_of=job.id,
        )
        return self.submit(request)

    def get(self, job_id: UUID) -> Job:
        found = self._one.first(job_id=job_id)
        if found is None:
            raise JobNotFound(job_id)
        return to_job(found)

    def list_jobs(self, wanted: JobFilter | None = None, *, limit: int = 50, before: int | None = None) -> JobPage:
        statement = select_jobs().where(*conditions(wanted or JobFilter(), before))
        statement = statement.order_by(jobs.c.number.desc()).limit(limit + 1)
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            rows = connection.execute(statement).all()
        found = tuple(to_job(row._mapping) for row in rows[:limit])
        return JobPage(jobs=found, next_before=found[-1].number if len(rows) > limit else None)

    def events(self, job_id: UUID) -> list[JobEvent]:
        return [to_event(row) for row in self._story.all(job_id=job_id)]

    def counts(self) -> Mapping[JobState, int]:
        statement = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            found = {JobState(state): count for state, count in connection.execute(statement)}
        return {state: found.get(state, 0) for state in JobState}

    def reap(self, *, limit: int = 1000) -> list[Job]:
        reaped: list[Job] = []
        for _ in range(limit):
            with plain_faults(self._engine.url), writing(self._engine) as connection:
                taken = self._reclaiming.take_expired(connection)
                if taken is None:
                    break
                job = read_job(connection, jobs.c.number == taken.job_number)
            if job is not None:
                reaped.append(job)
        return reaped

    def now(self) -> datetime:
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            return connection.execute(select(self._clock.now())).scalar_one()

    def close(self) -> None:
        self._engine.dispose()

    def _give_up(self, claim: Claim, terms: Return) -> Job:
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            if free_lane(connection, _hold(claim)):
                self._returning.take_back(connection, claim.job.number, terms, claim.worker)
            elif not _was_told(connection, claim, terms.kind, JobEventKind.FAILED, JobEventKind.CANCELLED):
                raise ClaimLost(claim)
            return _read(connection, claim.job_id)


def _was_told(connection: Connection, claim: Claim, *kinds: JobEventKind) -> bool:
    """Whether this very claim has said so before, and only the answer to it was lost."""
    of_job = select(events).where(events.c.job_id == claim.job_id, events.c.kind != JobEventKind.SPAN.value)
    last = connection.execute(of_job.order_by(events.c.number.desc()).limit(1)).first()
    return last is not None and (
        last.actor == claim.worker and last.attempt == claim.job.attempts and last.kind in kinds
    )


def _hold(claim: Claim) -> Hold:
    return Hold(lane=str(claim.table), fence=claim.fence, owner=claim.worker)


def _renewal(clock: DatabaseClock) -> Any:
    asked = select(jobs.c.cancel_requested_at).where(jobs.c.number == lanes.c.job_number).scalar_subquery()
    renewed = held_lane().values(expires_at=clock.after(bindparam("lease_seconds", type_=Float)))
    return renewed.returning(asked.label("cancel_requested_at"))


_MINE = (
    jobs.c.id == bindparam("job"),
    jobs.c.fence == bindparam("held_fence"),
    jobs.c.worker == bindparam("held_by"),
    jobs.c.state == constant(JobState.RUNNING.value),
)
_PROGRESS = update(jobs).where(*_MINE).values(progress=bindparam("done", type_=JSON))
_CLAIMED = select(jobs.c.id, jobs.c.table_name, jobs.c.attempts).where(*_MINE)


def _claimed(claim: Claim) -> dict[str, Any]:
    return {"job": claim.job_id, "held_fence": claim.fence, "held_by": claim.worker}


def _read(connection: Connection, job_id: UUID) -> Job:
    job = read_job(connection, jobs.c.id == job_id)
    if job is None:
        raise JobNotFound(job_id)
    return job
