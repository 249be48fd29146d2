"""The job queue in SQLite or PostgreSQL. Implements the port `JobStore`.

Every change to a table's queue first locks that table's slot, so that what the change reads stays true until it commits
(see queue/table_slots.py). Only claim and finish, which must be fast, do everything in one statement.
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
from icepack.store.queries.job_filters import filter_conditions, filter_values
from icepack.store.queue.cancel import JobCanceller
from icepack.store.queue.claim import JobClaimer
from icepack.store.queue.events import EventLog
from icepack.store.queue.finish import JobFinisher
from icepack.store.queue.reclaim import TableReclaimer
from icepack.store.queue.requeue import JobRequeuer, RequeueTerms
from icepack.store.queue.rows import read_job, select_events, select_jobs, to_event, to_job
from icepack.store.queue.submit import JobInserter
from icepack.store.queue.table_slots import SlotHolder, lock_slot, release_slot, update_held_slot
from icepack.store.schema import events, jobs, table_slots
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.query import PreparedQuery
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import read_connection, single_write, write_transaction
from icepack.store.sql.types import text_literal
from icepack.tracing import Tracer


class SqlJobStore(JobStore):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None, tracer: Tracer | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._tracer = tracer or Tracer()
        self._event_log = event_log = EventLog(self._clock)
        self._claimer = JobClaimer(engine, self._clock)
        self._inserter = JobInserter(self._clock, event_log)
        self._finisher = JobFinisher(self._clock, event_log, engine.dialect)
        self._requeuer = JobRequeuer(self._clock, event_log)
        self._reclaimer = TableReclaimer(self._clock, event_log)
        self._canceller = JobCanceller(self._clock, event_log)
        self._renew_lease = _renew_lease(self._clock)
        job_id = bindparam("job_id", type_=jobs.c.id.type)
        self._select_job = PreparedQuery(engine, select_jobs().where(jobs.c.id == job_id))
        self._select_events = PreparedQuery(engine, select_events().where(events.c.job_id == job_id))

    def submit(self, request: JobRequest) -> Submission:
        """Submit a job; its spans belong to the caller's trace, or to a new trace that starts here."""
        parent = TraceContext.parse(request.trace_context)
        with self._tracer.span("submit", parent, icepack__table=str(request.table)) as span:
            traced = replace(request, trace_context=str(parent or span.context))
            with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
                submission = self._inserter.submit(connection, traced)
            span.set_attributes(icepack__job_id=str(submission.job.id), icepack__outcome=submission.outcome.value)
        return submission

    def claim(self, worker: str, lease: timedelta) -> Claim | None:
        values = {"worker": worker, "lease_seconds": lease.total_seconds()}
        with translate_errors(self._engine.url):
            row = self._claimer.claim(values)
        if row is None:
            return None
        job = to_job(row)
        return Claim(job=job, fence=row["fence"], worker=worker, lease=lease, lease_ends_at=row["lease_ends_at"])

    def heartbeat(self, claim: Claim) -> bool:
        values = {**_holder(claim).values, "lease_seconds": claim.lease.total_seconds()}
        with translate_errors(self._engine.url), single_write(self._engine) as connection:
            renewed = connection.execute(self._renew_lease, values).one_or_none()
        if renewed is None:
            raise ClaimLost(claim)
        return renewed.cancel_requested_at is not None

    def progress(self, claim: Claim, progress: JobProgress) -> None:
        values = {**_claim_values(claim), "new_progress": to_json(progress)}
        with translate_errors(self._engine.url), single_write(self._engine) as connection:
            written = connection.execute(_UPDATE_PROGRESS, values).rowcount
        if not written:
            raise ClaimLost(claim)

    def trace(self, claim: Claim, spans: Sequence[Span]) -> None:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            lock_slot(connection, str(claim.table))
            job = connection.execute(_SELECT_CLAIMED_JOB, _claim_values(claim)).one_or_none()
            if job is None:
                raise ClaimLost(claim)
            for span in spans:
                self._event_log.add_span(connection, span, job._mapping, claim.worker)

    def finish(self, claim: Claim, outcome: JobOutcome) -> None:
        with translate_errors(self._engine.url):
            if self._finisher.finish(self._engine, _holder(claim), claim.job.number, outcome):
                return
            with read_connection(self._engine) as connection:
                is_repeated = _has_recorded(connection, claim, JobEventKind(outcome.state))
        if not is_repeated:
            raise ClaimLost(claim)

    def fail(self, claim: Claim, message: str, *, retry: bool = True, delay: timedelta = timedelta(0)) -> Job:
        terms = RequeueTerms(
            kind=JobEventKind.RETRIED, message=clean_text(message), retry=retry, delay_seconds=delay.total_seconds()
        )
        return self._return_job(claim, terms)

    def hand_back(self, claim: Claim, message: str = "") -> Job:
        terms = RequeueTerms(kind=JobEventKind.HANDED_BACK, message=clean_text(message), costs_attempt=False)
        return self._return_job(claim, terms)

    def cancel(self, job_id: UUID, *, by: str = "") -> Job:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            lock_slot(connection, str(read_job(connection, job_id).table))
            self._canceller.cancel(connection, read_job(connection, job_id), by)
            return read_job(connection, job_id)

    def retry(self, job_id: UUID, *, requester: str = "") -> Submission:
        job = self.get(job_id)
        if not job.state.is_final:
            raise JobStateConflict(job, "retried before it has finished")
        extra_attempts = sum(event.kind is JobEventKind.HANDED_BACK for event in self.events(job_id))
        request = JobRequest(
            table=job.table,
            action=job.action,
            priority=job.priority,
            max_attempts=job.max_attempts - extra_attempts,
            requester=requester or job.requester,
            trace_context=job.trace_context,
            retry_of=job.id,
        )
        return self.submit(request)

    def get(self, job_id: UUID) -> Job:
        row = self._select_job.fetch_one(job_id=job_id)
        if row is None:
            raise JobNotFound(job_id)
        return to_job(row)

    def list_jobs(self, wanted: JobFilter | None = None, *, limit: int = 50, before: int | None = None) -> JobPage:
        values = filter_values(wanted or JobFilter(), before)
        statement = select_jobs().where(*filter_conditions(values)).order_by(jobs.c.number.desc()).limit(limit + 1)
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            rows = connection.execute(statement, values).all()
        found = tuple(to_job(row._mapping) for row in rows[:limit])
        return JobPage(jobs=found, next_before=found[-1].number if len(rows) > limit else None)

    def events(self, job_id: UUID) -> list[JobEvent]:
        return [to_event(row) for row in self._select_events.fetch_all(job_id=job_id)]

    def counts(self) -> Mapping[JobState, int]:
        statement = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            counts = {JobState(state): count for state, count in connection.execute(statement)}
        return {state: counts.get(state, 0) for state in JobState}

    def reap(self, *, limit: int = 1000) -> list[Job]:
        reaped: list[Job] = []
        for _ in range(limit):
            with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
                slot = self._reclaimer.reclaim_expired(connection)
                if slot is None:
                    break
                if slot.job_number is not None:
                    row = connection.execute(select_jobs().where(jobs.c.number == slot.job_number)).one()
                    reaped.append(to_job(row._mapping))
        return reaped

    def now(self) -> datetime:
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            return connection.execute(select(self._clock.now())).scalar_one()

    def close(self) -> None:
        self._engine.dispose()

    def _return_job(self, claim: Claim, terms: RequeueTerms) -> Job:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            if release_slot(connection, _holder(claim)):
                self._requeuer.requeue_or_end(connection, claim.job.number, terms, claim.worker)
            elif not _has_recorded(connection, claim, terms.kind, JobEventKind.FAILED, JobEventKind.CANCELLED):
                raise ClaimLost(claim)
            return read_job(connection, claim.job_id)


def _has_recorded(connection: Connection, claim: Claim, *kinds: JobEventKind) -> bool:
    """Whether this claim has already recorded one of these events, so that only the reply to it was lost."""
    job_events = select(events).where(events.c.job_id == claim.job_id, events.c.kind != JobEventKind.SPAN.value)
    last = connection.execute(job_events.order_by(events.c.number.desc()).limit(1)).first()
    return last is not None and (
        last.actor == claim.worker and last.attempt == claim.job.attempts and last.kind in kinds
    )


def _holder(claim: Claim) -> SlotHolder:
    return SlotHolder(table_name=str(claim.table), fence=claim.fence, owner=claim.worker)


def _renew_lease(clock: DatabaseClock) -> Any:
    held_job = jobs.c.number == table_slots.c.job_number
    cancel_requested_at = select(jobs.c.cancel_requested_at).where(held_job).scalar_subquery()
    renewed = update_held_slot().values(expires_at=clock.after(bindparam("lease_seconds", type_=Float)))
    return renewed.returning(cancel_requested_at.label("cancel_requested_at"))


_IS_CLAIMED = (
    jobs.c.id == bindparam("claimed_job"),
    jobs.c.fence == bindparam("holder_fence"),
    jobs.c.worker == bindparam("holder_name"),
    jobs.c.state == text_literal(JobState.RUNNING.value),
)
_UPDATE_PROGRESS = update(jobs).where(*_IS_CLAIMED).values(progress=bindparam("new_progress", type_=JSON))
_SELECT_CLAIMED_JOB = select(jobs.c.id, jobs.c.table_name, jobs.c.attempts).where(*_IS_CLAIMED)


def _claim_values(claim: Claim) -> dict[str, Any]:
    return {"claimed_job": claim.job_id, "holder_fence": claim.fence, "holder_name": claim.worker}
