"""Which workers are there, be they at work or not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import Engine, Float, bindparam, delete
from sqlalchemy.dialects import postgresql, sqlite

from icepack.domain.ports.queue import Attendance
from icepack.store.schema import workers
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import at_once, writing


class SqlAttendance(Attendance):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._ends = self._clock.after(bindparam("seconds", type_=Float))

    def attend(self, worker: str, lease: timedelta) -> None:
        made: Any = (postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert)(workers)
        here = made.values(name=storable(worker), expires_at=self._ends)
        again = here.on_conflict_do_update(index_elements=["name"], set_={"expires_at": here.excluded.expires_at})
        with plain_faults(self._engine.url), at_once(self._engine) as connection:
            connection.execute(again, {"seconds": lease.total_seconds()})

    def leave(self, worker: str) -> None:
        """Whoever has not been heard of goes with the same stroke."""
        gone = (workers.c.name == storable(worker)) | (workers.c.expires_at < self._clock.now())
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            connection.execute(delete(workers).where(gone))
