"""Makes waiting jobs claimable once they are due."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, select, update

from icepack.store.queue.table_slots import refresh_statement
from icepack.store.schema import JOB_WAITING, SLOT_WAITING, jobs, table_slots
from icepack.store.sql.clock import DatabaseClock


class JobWaker:
    """Clears `waits_until` of jobs that have become due and recomputes the next job of their table slots."""

    def __init__(self, clock: DatabaseClock) -> None:
        names: BindParameter[Any] = bindparam("names", expanding=True)
        due = select(table_slots.c.table_name).where(SLOT_WAITING, table_slots.c.wakes_at <= clock.now())
        self._select_due_slots = due.order_by(table_slots.c.wakes_at).with_for_update(skip_locked=True)
        self._wake_jobs = (
            update(jobs)
            .where(JOB_WAITING, jobs.c.table_name.in_(names), jobs.c.waits_until <= clock.now())
            .values(waits_until=None)
        )
        self._refresh_slots = refresh_statement().where(table_slots.c.table_name.in_(names))

    def wake(self, connection: Connection, limit: int) -> bool:
        """Wake the jobs of up to `limit` slots; returns False if no slot is due or others have locked all of them."""
        names = connection.scalars(self._select_due_slots.limit(limit)).all()
        if names:
            connection.execute(self._wake_jobs, {"names": names})
            connection.execute(self._refresh_slots, {"names": names})
        return bool(names)
