"""The claim: the next job, its table's lock and a new fence, all or nothing.

The most urgent priority first; within it the catalog whose last turn is longest ago; within that the oldest job. Only
lanes that are free and have a job that is due are looked at, in the order of one index, so neither the length of the
queue nor what is blocked in it costs anything. PostgreSQL does it all in one statement; SQLite, which lets one writer
in at a time, takes the same parts one by one.
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
from icepack.store.queue.table_slots import next_job
from icepack.store.queue.transitions import moved
from icepack.store.schema import ONE, QUEUED, READY, SLEEPING, BigNumber, constant, events, jobs, lanes
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.prepared import Prepared
from icepack.store.sql.transaction import writing

MOST_URGENT = -(2**31)
"""Before every rank."""

_ABOVE = bindparam("above", type_=Integer)
_WAKES_HEEDED = bindparam("wakes_heeded", type_=Boolean)
_WORKER = bindparam("worker", type_=Text)
_LEASE = bindparam("lease_seconds", type_=Float)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What there is for a claim that came back empty: the most urgent rank, and whether jobs are due to wake."""

    rank: int | None
    wakes: bool


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The job to start, and the one behind it: columns of the statement's own parts, or values already read."""

    table_name: ColumnElement[str]
    number: ColumnElement[int]
    job_id: ColumnElement[Any]
    attempt: ColumnElement[int]
    next_rank: ColumnElement[int]
    next_number: ColumnElement[int]


_OTHERS = jobs.c.number != lanes.c.head_number
_READ = _Chosen(
    bindparam("lane", type_=Text),
    bindparam("job_number", type_=BigNumber),
    bindparam("job", type_=Uuid),
    bindparam("attempt", type_=Integer),
    next_job(lanes, jobs.c.rank, _OTHERS),
    next_job(lanes, jobs.c.number, _OTHERS),
)
_FENCE = bindparam("fence", type_=BigNumber)

_AS_CLAIMED: dict[str, Any] = {
    "state": JobState.RUNNING.value,
    "message": "",
    "progress": {},
    **dict.fromkeys(("waits_until", "finished_at", "cancel_requested_at", "details", "collapsed_into")),
}
"""What need not be asked of a job that has just been claimed."""
_TOLD = [
    column for column in jobs.c if column.name not in {*_AS_CLAIMED, "catalog", "action", "digest", "worker", "counted"}
]


class Claiming:
    """The statements, put together once: that costs more than running them."""

    def __init__(self, clock: DatabaseClock, dialect: Dialect) -> None:
        self._clock = clock
        # The earliest, and not whether one exists: for that the planner may read the whole table in vain.
        earliest = select(lanes.c.wakes_at).where(SLEEPING).order_by(lanes.c.wakes_at).limit(ONE).scalar_subquery()
        self._wakes = func.coalesce(earliest <= clock.now(), false())
        top_rank = _ready_turns().with_only_columns(lanes.c.head_rank).scalar_subquery()
        self._peek = select(top_rank.label("rank"), self._wakes.label("wakes"))
        self._at_once = Prepared(self._whole_claim(), dialect, *(column.name for column in _TOLD), "lease_ends_at")
        self._choose = self._choice_alone()
        self._log = self._logged(_READ)
        self._hold = self._held(_READ, _FENCE).returning(lanes.c.expires_at)
        self._start = self._started(_READ, _FENCE).returning(*_TOLD)

    def peek(self, connection: Connection, above: int) -> Outlook:
        row = connection.execute(self._peek, {"above": above}).one()
        return Outlook(row.rank, bool(row.wakes))

    def claim(self, engine: Engine, values: dict[str, Any]) -> dict[str, Any] | None:
        """The job's row as it stands now, with the end of its lease."""
        if engine.dialect.name == "postgresql":
            row = self._at_once.first(engine, values)
        else:
            with writing(engine) as connection:
                row = self._claim_in_steps(connection, values)
        return None if row is None else {**_AS_CLAIMED, "worker": values["worker"], **row}

    def _claim_in_steps(self, connection: Connection, values: dict[str, Any]) -> dict[str, Any] | None:
        found = connection.execute(self._choose, values).one_or_none()
        if found is None:
            return None
        values = {**values, **found._mapping}
        values["fence"] = connection.scalar(self._log, values)
        lease_ends_at = connection.scalar(self._hold, values)
        started: Row[Any] = connection.execute(self._start, values).one()
        return {**started._mapping, "lease_ends_at": lease_ends_at}

    def _whole_claim(self) -> Update:
        job, logged = self._chosen_at_once()
        fence, of_job = logged.c.number, logged.c.job_id == job.job_id
        holding = self._held(job, fence).where(of_job)
        held = holding.returning(lanes.c.expires_at.label("lease_ends_at"), lanes.c.table_name).cte("held")
        started = self._started(job, fence).where(of_job, held.c.table_name == jobs.c.table_name)
        return started.returning(*_TOLD, held.c.lease_ends_at)

    def _chosen_at_once(self) -> tuple[_Chosen, CTE]:
        """One statement reads from one moment: that the lane has not changed since is seen by its version."""
        picked = self._lane_of_next_turn().cte("picked")
        seen = lanes.alias("seen")
        unchanged = (seen.c.table_name == picked.c.table_name) & (seen.c.version == picked.c.version)
        behind = _job_behind(picked)
        found = picked.join(seen, unchanged).join(jobs, jobs.c.number == picked.c.head_number)
        chosen = (
            select(
                picked.c.table_name,
                jobs.c.number,
                jobs.c.id,
                (jobs.c.attempts + 1).label("attempt"),
                behind.c.rank.label("next_rank"),
                behind.c.number.label("next_number"),
            )
            .select_from(found.outerjoin(behind, true()))
            .where(QUEUED)
            .cte("chosen")
        )
        job = _Chosen(*chosen.c)
        return job, self._logged(job).cte("logged")

    def _choice_alone(self) -> Select[Any]:
        """With nobody else at work, the catalog whose turn it is has a lane that can be taken."""
        turns = self._turns()
        turn = select(turns).order_by(turns.c.last_turn, turns.c.catalog).limit(ONE).subquery("turn")
        rank, catalog = (select(column).scalar_subquery() for column in (turn.c.head_rank, turn.c.catalog))
        lane = _ready_lanes(rank, catalog).subquery("lane")
        return select(
            lane.c.table_name.label("lane"),
            jobs.c.number.label("job_number"),
            jobs.c.id.label("job"),
            (jobs.c.attempts + 1).label("attempt"),
        ).join_from(lane, jobs, jobs.c.number == lane.c.head_number)

    def _lane_of_next_turn(self) -> Select[Any]:
        """The first lane that no other claim has locked; a catalog all of whose lanes are locked is passed over."""
        turns = self._turns()
        lane = _ready_lanes(turns.c.head_rank, turns.c.catalog).with_for_update(skip_locked=True).lateral("lane")
        ordered = select(*lane.c).select_from(turns.join(lane, true()))
        return ordered.order_by(turns.c.last_turn, turns.c.catalog).limit(ONE)

    def _turns(self) -> FromClause:
        """The catalogs that have the most urgent rank, and when each had its last turn."""
        first = _ready_turns(or_(not_(_WAKES_HEEDED), not_(self._wakes))).subquery("first")
        catalogs = select(first.c.head_rank, first.c.catalog).cte("catalogs", recursive=True)
        following = _next_catalog(catalogs)
        catalogs = catalogs.union_all(select(catalogs.c.head_rank, following).where(catalogs.c.catalog.is_not(None)))
        last = select(lanes.c.last_claim).where(lanes.c.catalog == catalogs.c.catalog)
        last_turn = last.order_by(lanes.c.last_claim.desc()).limit(ONE).correlate(catalogs).scalar_subquery()
        turns = select(catalogs, last_turn.label("last_turn")).where(catalogs.c.catalog.is_not(None))
        return turns.order_by("last_turn", "catalog").cte("turns")

    def _logged(self, job: _Chosen) -> Any:
        kind = constant(JobEventKind.CLAIMED.value)
        entry: Select[Any] = select(
            job.job_id, job.table_name, self._clock.at(), kind, _WORKER, job.attempt, constant("")
        )
        columns = ["job_id", "table_name", "at", "kind", "actor", "attempt", "message"]
        logged: Insert = insert(events).from_select(columns, entry)
        return logged.returning(events.c.number, events.c.job_id)

    def _held(self, job: _Chosen, fence: ColumnElement[int]) -> Update:
        return (
            update(lanes)
            .where(lanes.c.table_name == job.table_name)
            .values(
                owner=_WORKER,
                fence=fence,
                last_claim=fence,
                job_number=job.number,
                purpose=constant("a job"),
                taken_at=self._clock.at(),
                expires_at=self._clock.after(_LEASE),
                head_rank=job.next_rank,
                head_number=job.next_number,
                version=lanes.c.version + 1,
            )
        )

    def _started(self, job: _Chosen, fence: ColumnElement[int]) -> Update:
        """Attempts are counted here and not at the end: a worker that dies must still use one up."""
        return (
            moved(JobState.RUNNING)
            .where(jobs.c.number == job.number)
            .values(
                attempts=job.attempt,
                worker=_WORKER,
                fence=fence,
                started_at=self._clock.at(),
                progress=constant("{}"),
                message=constant(""),
            )
        )


def _ready_turns(*conditions: Any) -> Select[Any]:
    """The most urgent rank of all, and the first catalog that has it."""
    ready = select(lanes.c.head_rank, lanes.c.catalog).where(READY, lanes.c.head_rank > _ABOVE, *conditions)
    return ready.order_by(lanes.c.head_rank, lanes.c.catalog).limit(ONE)


def _next_catalog(catalogs: FromClause) -> ScalarSelect[str]:
    """One step from catalog to catalog along the index, however many lanes lie between."""
    beyond = select(lanes.c.catalog).where(
        READY, lanes.c.head_rank == catalogs.c.head_rank, lanes.c.catalog > catalogs.c.catalog
    )
    return beyond.order_by(lanes.c.catalog).limit(ONE).correlate(catalogs).scalar_subquery()


def _ready_lanes(rank: ColumnElement[int] | ScalarSelect[int], catalog: Any) -> Select[Any]:
    of_turn = select(lanes.c.table_name, lanes.c.head_number, lanes.c.version)
    of_turn = of_turn.where(READY, lanes.c.head_rank == rank, lanes.c.catalog == catalog)
    return of_turn.order_by(lanes.c.head_number).limit(ONE)


def _job_behind(picked: FromClause) -> Any:
    queue = jobs.alias("queue")
    due = (queue.c.state == constant(JobState.QUEUED.value)) & queue.c.waits_until.is_(None)
    behind = select(queue.c.rank, queue.c.number).where(
        due, queue.c.table_name == picked.c.table_name, queue.c.number != picked.c.head_number
    )
    return behind.order_by(queue.c.rank, queue.c.number).limit(ONE).lateral("behind")
