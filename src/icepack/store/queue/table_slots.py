"""Statements on lanes: one row per table, locked by whoever changes that table's queue or its holder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, FromClause, ScalarSelect, Text, Update, bindparam, func, null, select, update
from sqlalchemy.dialects import postgresql, sqlite

from icepack.domain.table import TableId
from icepack.store.schema import DUE, ONE, WAITING, BigNumber, jobs, lanes


@dataclass(frozen=True, slots=True)
class Hold:
    """Who holds which lane; the fence makes sure that it is still so."""

    lane: str
    fence: int
    owner: str

    @property
    def values(self) -> dict[str, Any]:
        return {"lane": self.lane, "held_fence": self.fence, "held_by": self.owner}


def held_lane() -> Update:
    """For the holder alone: a stale fence finds no row, and whoever finds none must not go on."""
    return update(lanes).where(
        lanes.c.table_name == bindparam("lane", type_=Text),
        lanes.c.fence == bindparam("held_fence", type_=BigNumber),
        # A plain comparison would let the planner walk all held lanes, by the index on their expiry.
        func.coalesce(lanes.c.owner, "") == bindparam("held_by", type_=Text),
    )


FREED = held_lane().values(
    owner=null(),
    fence=null(),
    job_number=null(),
    purpose=null(),
    taken_at=null(),
    expires_at=null(),
    version=lanes.c.version + 1,
)


def free_lane(connection: Connection, hold: Hold) -> bool:
    """Lock the lane and end the hold; False, and nothing done, when another has it."""
    return connection.execute(FREED, hold.values).rowcount == 1


def open_lane(connection: Connection, table: TableId) -> None:
    """Lock the table's lane, and make it first where there is none."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    made = insert(lanes).values(table_name=str(table), catalog=table.catalog, version=0, last_claim=0)
    connection.execute(
        made.on_conflict_do_update(index_elements=[lanes.c.table_name], set_={"version": lanes.c.version + 1})
    )


def lock_lane(connection: Connection, table_name: str) -> None:
    connection.execute(_LOCK, {"lane": table_name})


def refresh_lane(connection: Connection, table_name: str) -> None:
    """Work out anew which job is next; the caller has locked the lane."""
    connection.execute(_REFRESH, {"lane": table_name})


def next_job(lane: FromClause, column: Any, *conditions: Any) -> ScalarSelect[Any]:
    """A column of the job that is first in the lane's queue."""
    ordered = select(column).where(DUE, jobs.c.table_name == lane.c.table_name, *conditions)
    return ordered.order_by(jobs.c.rank, jobs.c.number).limit(ONE).correlate(lane).scalar_subquery()


def next_wake(lane: FromClause) -> ScalarSelect[Any]:
    waiting = select(func.min(jobs.c.waits_until)).where(WAITING, jobs.c.table_name == lane.c.table_name)
    return waiting.correlate(lane).scalar_subquery()


def refreshed() -> Update:
    return update(lanes).values(
        head_rank=next_job(lanes, jobs.c.rank),
        head_number=next_job(lanes, jobs.c.number),
        wakes_at=next_wake(lanes),
        version=lanes.c.version + 1,
    )


_LANE = lanes.c.table_name == bindparam("lane")
_LOCK = update(lanes).where(_LANE).values(version=lanes.c.version + 1)
_REFRESH = refreshed().where(_LANE)
