"""Statements on table slots: one row per Iceberg table, with the holder of its lock and its next job.

Every change to a table's queue or to its holder locks the slot first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, FromClause, ScalarSelect, Text, Update, bindparam, func, null, select, update

from icepack.domain.table import TableId
from icepack.store.schema import JOB_DUE, JOB_WAITING, jobs, table_slots
from icepack.store.sql.types import LIMIT_ONE, BigNumber
from icepack.store.sql.upsert import upsert


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """The holder of a table slot; the fence shows whether it still is."""

    table_name: str
    fence: int
    owner: str

    @property
    def values(self) -> dict[str, Any]:
        return {"slot": self.table_name, "holder_fence": self.fence, "holder_name": self.owner}


def update_held_slot() -> Update:
    """An update for the holder only: with a stale fence it matches no row, and the caller must stop."""
    return update(table_slots).where(
        table_slots.c.table_name == bindparam("slot", type_=Text),
        table_slots.c.fence == bindparam("holder_fence", type_=BigNumber),
        # With a plain comparison the planner could scan all held slots through the index on their expiry.
        func.coalesce(table_slots.c.owner, "") == bindparam("holder_name", type_=Text),
    )


RELEASE_SLOT = update_held_slot().values(
    owner=null(),
    fence=null(),
    job_number=null(),
    purpose=null(),
    taken_at=null(),
    expires_at=null(),
    version=table_slots.c.version + 1,
)


def release_slot(connection: Connection, holder: SlotHolder) -> bool:
    """Lock the slot and remove its holder; returns False and changes nothing if the holder is another one."""
    return connection.execute(RELEASE_SLOT, holder.values).rowcount == 1


def lock_or_create_slot(connection: Connection, table: TableId) -> None:
    statement = upsert(table_slots, connection.dialect, lambda slot, _: {"version": slot.version + 1})
    values = {"table_name": str(table), "catalog": table.catalog, "version": 0, "last_claim": 0}
    connection.execute(statement, values)


def lock_slot(connection: Connection, table_name: str) -> None:
    connection.execute(_LOCK, {"slot": table_name})


def refresh_slot(connection: Connection, table_name: str) -> None:
    """Recompute which job is next; the caller has locked the slot."""
    connection.execute(_REFRESH, {"slot": table_name})


def next_job_column(slot: FromClause, column: Any, *conditions: Any) -> ScalarSelect[Any]:
    """A column of the first job in the slot's queue."""
    ordered = select(column).where(JOB_DUE, jobs.c.table_name == slot.c.table_name, *conditions)
    return ordered.order_by(jobs.c.rank, jobs.c.number).limit(LIMIT_ONE).correlate(slot).scalar_subquery()


def next_wake_time(slot: FromClause) -> ScalarSelect[Any]:
    """When the first waiting job of the slot becomes due."""
    waiting = select(func.min(jobs.c.waits_until)).where(JOB_WAITING, jobs.c.table_name == slot.c.table_name)
    return waiting.correlate(slot).scalar_subquery()


def refresh_statement() -> Update:
    """Recomputes the next job of the slots that the caller selects."""
    return update(table_slots).values(
        head_rank=next_job_column(table_slots, jobs.c.rank),
        head_number=next_job_column(table_slots, jobs.c.number),
        wakes_at=next_wake_time(table_slots),
        version=table_slots.c.version + 1,
    )


_SELECTED_SLOT = table_slots.c.table_name == bindparam("slot")
_LOCK = update(table_slots).where(_SELECTED_SLOT).values(version=table_slots.c.version + 1)
_REFRESH = refresh_statement().where(_SELECTED_SLOT)
