"""The journal of jobs and locks, whose numbers serve as fences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert

from icepack.domain.job import JobEventKind
from icepack.store.clock import DatabaseClock
from icepack.store.schema import events
from icepack.store.text import storable


class Journal:
    def __init__(self, clock: DatabaseClock) -> None:
        self._insert = insert(events).values(at=clock.now()).returning(events.c.number)

    def of_job(
        self, connection: Connection, kind: JobEventKind, job: Mapping[Any, Any], actor: str = "", message: str = ""
    ) -> int:
        """An entry about a job, given as its row."""
        return self._write(connection, kind, job["table_name"], actor, message, job["id"], job["attempts"])

    def of_lock(self, connection: Connection, kind: JobEventKind, table_name: str, actor: str, message: str) -> int:
        return self._write(connection, kind, table_name, actor, message, None, 0)

    def _write(
        self,
        connection: Connection,
        kind: JobEventKind,
        table_name: str,
        actor: str,
        message: str,
        job_id: Any,
        attempt: int,
    ) -> int:
        values = {
            "job_id": job_id,
            "table_name": table_name,
            "kind": kind.value,
            "actor": storable(actor),
            "attempt": attempt,
            "message": storable(message),
        }
        number: int = connection.execute(self._insert, values).scalar_one()
        return number
