"""Jobs whose time has come join their table's queue."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, select, update

from icepack.store.queue.table_slots import refreshed
from icepack.store.schema import SLEEPING, WAITING, jobs, lanes
from icepack.store.sql.clock import DatabaseClock


class Waking:
    def __init__(self, clock: DatabaseClock) -> None:
        names: BindParameter[Any] = bindparam("names", expanding=True)
        asleep = select(lanes.c.table_name).where(SLEEPING, lanes.c.wakes_at <= clock.now())
        self._asleep = asleep.order_by(lanes.c.wakes_at).with_for_update(skip_locked=True)
        self._rouse = (
            update(jobs)
            .where(WAITING, jobs.c.table_name.in_(names), jobs.c.waits_until <= clock.now())
            .values(waits_until=None)
        )
        self._refresh = refreshed().where(lanes.c.table_name.in_(names))

    def wake(self, connection: Connection, limit: int) -> bool:
        """Whether there was a lane to wake that nobody else has locked."""
        names = connection.scalars(self._asleep.limit(limit)).all()
        if names:
            connection.execute(self._rouse, {"names": names})
            connection.execute(self._refresh, {"names": names})
        return bool(names)
