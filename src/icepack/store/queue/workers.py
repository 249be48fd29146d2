"""The worker registry in SQLite or PostgreSQL: which workers are alive, busy or idle.

Implements the port `WorkerRegistry`.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Engine, Float, bindparam, delete

from icepack.domain.ports.queue import WorkerRegistry
from icepack.store.schema import workers
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import single_write, write_transaction
from icepack.store.sql.upsert import upsert


class SqlWorkerRegistry(WorkerRegistry):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._lease_end = self._clock.after(bindparam("seconds", type_=Float))

    def register(self, worker: str, lease: timedelta) -> None:
        statement = upsert(workers, self._engine.dialect).values(name=clean_text(worker), expires_at=self._lease_end)
        with translate_errors(self._engine.url), single_write(self._engine) as connection:
            connection.execute(statement, {"seconds": lease.total_seconds()})

    def unregister(self, worker: str) -> None:
        """Also deletes expired registrations."""
        is_removed = (workers.c.name == clean_text(worker)) | (workers.c.expires_at < self._clock.now())
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            connection.execute(delete(workers).where(is_removed))
