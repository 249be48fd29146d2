"""The statements that claim a job: the next job, its table's lock and a new fence, all or nothing.

The most urgent priority is first; within a priority, the catalog whose last claim is oldest; within a catalog, the
oldest job. A claim reads only slots that are free and have a due job, in the order of one index, so its cost does not
depend on the length of the queue or on blocked jobs. PostgreSQL does everything in one statement. SQLite, which allows
one writer at a time, runs the same parts one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    Boolean,
    ColumnElement,
    Connection,
    Dialect,
    Engine,
    Float,
    FromClause,
    Insert,
    Integer,
    Row,
    ScalarSelect,
    Select,
    Text,
    Update,
    Uuid,
    bindparam,
    false,
    func,
    insert,
    not_,
    or_,
    select,
    true,
    update,
)

from icepack.domain.job import JobEventKind, JobState
from icepack.store.queue.rows import JOB_COLUMNS
from icepack.store.queue.table_slots import next_job_column
from icepack.store.queue.transitions import transition_to
from icepack.store.schema import JOB_QUEUED, SLOT_READY, SLOT_WAITING, events, jobs, table_slots
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.prepared import PreparedStatement
from icepack.store.sql.transaction import write_transaction
from icepack.store.sql.types import LIMIT_ONE, BigNumber, text_literal

# Smaller than every rank.
BEFORE_ALL_RANKS = -(2**31)

_AFTER_RANK = bindparam("after_rank", type_=Integer)
_WAKE_FIRST = bindparam("wake_first", type_=Boolean)
_WORKER = bindparam("worker", type_=Text)
_LEASE_SECONDS = bindparam("lease_seconds", type_=Float)


@dataclass(frozen=True, slots=True)
class RemainingJobs:
    """What is in the queue after a claim found nothing: the most urgent rank, and whether waiting jobs are due."""

    top_rank: int | None
    needs_wake: bool


@dataclass(frozen=True, slots=True)
class _NextJob:
    """The job to start and the job behind it, as columns of the same statement or as bound values."""

    table_name: ColumnElement[str]
    number: ColumnElement[int]
    job_id: ColumnElement[Any]
    attempt: ColumnElement[int]
    following_rank: ColumnElement[int]
    following_number: ColumnElement[int]


_NOT_FIRST = jobs.c.number != table_slots.c.head_number
# The next job as values that an earlier statement has read, for SQLite.
_BOUND_JOB = _NextJob(
    bindparam("slot", type_=Text),
    bindparam("job_number", type_=BigNumber),
    bindparam("claimed_job", type_=Uuid),
    bindparam("claimed_attempt", type_=Integer),
    next_job_column(table_slots, jobs.c.rank, _NOT_FIRST),
    next_job_column(table_slots, jobs.c.number, _NOT_FIRST),
)
_BOUND_FENCE = bindparam("new_fence", type_=BigNumber)

# Columns whose values are known after a claim, so they need not be read.
_CLAIMED_VALUES: dict[str, Any] = {
    "state": JobState.RUNNING.value,
    "message": "",
    "progress": {},
    **dict.fromkeys(("waits_until", "finished_at", "cancel_requested_at", "details", "collapsed_into")),
}
_RETURNED_COLUMNS = [column for column in JOB_COLUMNS.values() if column.name not in {*_CLAIMED_VALUES, "worker"}]


class ClaimStatements:
    """The statements of a claim, built once because building them takes longer than running them."""

    def __init__(self, clock: DatabaseClock, dialect: Dialect) -> None:
        self._clock = clock
        # The earliest time, not whether there is one: to find out that, the planner may read the whole table.
        earliest = select(table_slots.c.wakes_at).where(SLOT_WAITING).order_by(table_slots.c.wakes_at).limit(LIMIT_ONE)
        self._needs_wake = func.coalesce(earliest.scalar_subquery() <= clock.now(), false())
        top_rank = _first_ready_catalog().with_only_columns(table_slots.c.head_rank).scalar_subquery()
        self._peek = select(top_rank.label("rank"), self._needs_wake.label("needs_wake"))
        names = (str(column.name) for column in _RETURNED_COLUMNS)
        self.claim_statement = PreparedStatement(self._claim_at_once(), dialect, *names, "lease_ends_at")
        self._choose = self._choose_alone()
        self._log = self._log_claim(_BOUND_JOB)
        self._hold = self._hold_slot(_BOUND_JOB, _BOUND_FENCE).returning(table_slots.c.expires_at)
        self._start = self._start_job(_BOUND_JOB, _BOUND_FENCE).returning(*_RETURNED_COLUMNS)

    def peek(self, connection: Connection, after_rank: int) -> RemainingJobs:
        row = connection.execute(self._peek, {"after_rank": after_rank}).one()
        return RemainingJobs(row.rank, bool(row.needs_wake))

    def claim(self, engine: Engine, values: dict[str, Any]) -> dict[str, Any] | None:
        """The row of the claimed job as it is now, with the end of its lease."""
        if engine.dialect.name == "postgresql":
            row = self.claim_statement.fetch_one(engine, values)
        else:
            with write_transaction(engine) as connection:
                row = self._claim_in_steps(connection, values)
        return None if row is None else {**_CLAIMED_VALUES, "worker": values["worker"], **row}

    def _claim_in_steps(self, connection: Connection, values: dict[str, Any]) -> dict[str, Any] | None:
        found = connection.execute(self._choose, values).one_or_none()
        if found is None:
            return None
        values = {**values, **found._mapping}
        values["new_fence"] = connection.scalar(self._log, values)
        lease_ends_at = connection.scalar(self._hold, values)
        started: Row[Any] = connection.execute(self._start, values).one()
        return {**started._mapping, "lease_ends_at": lease_ends_at}

    def _claim_at_once(self) -> Update:
        job, logged = self._choose_at_once()
        fence, is_logged = logged.c.number, logged.c.job_id == job.job_id
        returned = (table_slots.c.expires_at.label("lease_ends_at"), table_slots.c.table_name)
        held = self._hold_slot(job, fence).where(is_logged).returning(*returned).cte("held")
        started = self._start_job(job, fence).where(is_logged, held.c.table_name == jobs.c.table_name)
        return started.returning(*_RETURNED_COLUMNS, held.c.lease_ends_at)

    def _choose_at_once(self) -> tuple[_NextJob, CTE]:
        """The next job and its claim event.

        A single statement reads one snapshot; the slot's version shows whether the slot changed after that.
        """
        picked = self._pick_unlocked_slot().cte("picked")
        seen = table_slots.alias("seen")
        unchanged = (seen.c.table_name == picked.c.table_name) & (seen.c.version == picked.c.version)
        behind = _job_behind(picked)
        found = picked.join(seen, unchanged).join(jobs, jobs.c.number == picked.c.head_number)
        chosen = (
            select(
                picked.c.table_name,
                jobs.c.number,
                jobs.c.id,
                (jobs.c.attempts + 1).label("attempt"),
                behind.c.rank.label("following_rank"),
                behind.c.number.label("following_number"),
            )
            .select_from(found.outerjoin(behind, true()))
            .where(JOB_QUEUED)
            .cte("chosen")
        )
        job = _NextJob(*chosen.c)
        return job, self._log_claim(job).cte("logged")

    def _choose_alone(self) -> Select[Any]:
        """The next job for a single writer: nobody else holds locks, so the first catalog in turn has a free slot."""
        turns = self._turns()
        turn = select(turns).order_by(turns.c.last_turn, turns.c.catalog).limit(LIMIT_ONE).subquery("turn")
        rank, catalog = (select(column).scalar_subquery() for column in (turn.c.head_rank, turn.c.catalog))
        slot = _first_ready_slot(rank, catalog).subquery("slot")
        return select(
            slot.c.table_name.label("slot"),
            jobs.c.number.label("job_number"),
            jobs.c.id.label("claimed_job"),
            (jobs.c.attempts + 1).label("claimed_attempt"),
        ).join_from(slot, jobs, jobs.c.number == slot.c.head_number)

    def _pick_unlocked_slot(self) -> Select[Any]:
        """The first slot that no other claim has locked; skips catalogs whose slots are all locked."""
        turns = self._turns()
        ready = _first_ready_slot(turns.c.head_rank, turns.c.catalog)
        slot = ready.with_for_update(skip_locked=True).lateral("slot")
        ordered = select(*slot.c).select_from(turns.join(slot, true()))
        return ordered.order_by(turns.c.last_turn, turns.c.catalog).limit(LIMIT_ONE)

    def _turns(self) -> FromClause:
        """The catalogs that have a job of the most urgent rank, each with the fence of its last claim."""
        first = _first_ready_catalog(or_(not_(_WAKE_FIRST), not_(self._needs_wake))).subquery("first")
        catalogs = select(first.c.head_rank, first.c.catalog).cte("catalogs", recursive=True)
        following = _next_catalog(catalogs)
        catalogs = catalogs.union_all(select(catalogs.c.head_rank, following).where(catalogs.c.catalog.is_not(None)))
        claims = select(table_slots.c.last_claim).where(table_slots.c.catalog == catalogs.c.catalog)
        last_claim = claims.order_by(table_slots.c.last_claim.desc()).limit(LIMIT_ONE)
        last_turn = last_claim.correlate(catalogs).scalar_subquery().label("last_turn")
        turns = select(catalogs, last_turn).where(catalogs.c.catalog.is_not(None))
        return turns.order_by("last_turn", "catalog").cte("turns")

    def _log_claim(self, job: _NextJob) -> Any:
        kind = text_literal(JobEventKind.CLAIMED.value)
        event: Select[Any] = select(
            job.job_id, job.table_name, self._clock.timestamp(), kind, _WORKER, job.attempt, text_literal("")
        )
        columns = ["job_id", "table_name", "at", "kind", "actor", "attempt", "message"]
        logged: Insert = insert(events).from_select(columns, event)
        return logged.returning(events.c.number, events.c.job_id)

    def _hold_slot(self, job: _NextJob, fence: ColumnElement[int]) -> Update:
        return (
            update(table_slots)
            .where(table_slots.c.table_name == job.table_name)
            .values(
                owner=_WORKER,
                fence=fence,
                last_claim=fence,
                job_number=job.number,
                purpose=text_literal("a job"),
                taken_at=self._clock.timestamp(),
                expires_at=self._clock.after(_LEASE_SECONDS),
                head_rank=job.following_rank,
                head_number=job.following_number,
                version=table_slots.c.version + 1,
            )
        )

    def _start_job(self, job: _NextJob, fence: ColumnElement[int]) -> Update:
        """Counts the attempt now and not at the end: a worker that dies must still use one up."""
        return (
            transition_to(JobState.RUNNING)
            .where(jobs.c.number == job.number)
            .values(
                attempts=job.attempt,
                worker=_WORKER,
                fence=fence,
                started_at=self._clock.timestamp(),
                progress=text_literal("{}"),
                message=text_literal(""),
            )
        )


def _first_ready_catalog(*conditions: Any) -> Select[Any]:
    """The most urgent rank, and the first catalog that has it."""
    ready = select(table_slots.c.head_rank, table_slots.c.catalog)
    ready = ready.where(SLOT_READY, table_slots.c.head_rank > _AFTER_RANK, *conditions)
    return ready.order_by(table_slots.c.head_rank, table_slots.c.catalog).limit(LIMIT_ONE)


def _next_catalog(catalogs: FromClause) -> ScalarSelect[str]:
    """The next catalog in the index, found in one step however many slots lie between."""
    beyond = select(table_slots.c.catalog).where(
        SLOT_READY, table_slots.c.head_rank == catalogs.c.head_rank, table_slots.c.catalog > catalogs.c.catalog
    )
    return beyond.order_by(table_slots.c.catalog).limit(LIMIT_ONE).correlate(catalogs).scalar_subquery()


def _first_ready_slot(rank: ColumnElement[int] | ScalarSelect[int], catalog: Any) -> Select[Any]:
    ready = select(table_slots.c.table_name, table_slots.c.head_number, table_slots.c.version)
    ready = ready.where(SLOT_READY, table_slots.c.head_rank == rank, table_slots.c.catalog == catalog)
    return ready.order_by(table_slots.c.head_number).limit(LIMIT_ONE)


def _job_behind(picked: FromClause) -> Any:
    """The job that is next after the one to start."""
    queue = jobs.alias("queue")
    due = (queue.c.state == text_literal(JobState.QUEUED.value)) & queue.c.waits_until.is_(None)
    behind = select(queue.c.rank, queue.c.number).where(
        due, queue.c.table_name == picked.c.table_name, queue.c.number != picked.c.head_number
    )
    return behind.order_by(queue.c.rank, queue.c.number).limit(LIMIT_ONE).lateral("behind")
