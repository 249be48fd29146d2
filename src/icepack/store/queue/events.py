"""The journal of jobs and locks, whose numbers serve as fences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert

from icepack.domain.job import JobEventKind
from icepack.domain.observability.trace import Span
from icepack.domain.serialization import to_json
from icepack.store.schema import events
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.text import storable


class Journal:
    def __init__(self, clock: DatabaseClock) -> None:
        self._insert = insert(events).values(at=clock.now()).returning(events.c.number)

    def of_job(
        self, connection: Connection, kind: JobEventKind, job: Mapping[Any, Any], actor: str = "", message: str = ""
    ) -> int:
        """An entry about a job, given as its row."""
        return self._write(connection, kind, job["table_name"], actor, message, job["id"], job["attempts"])

    def of_span(self, connection: Connection, span: Span, job: Mapping[Any, Any], actor: str) -> None:
        told = {"job_id": job["id"], "attempt": job["attempts"], "message": storable(_sentence(span))}
        values = {"table_name": job["table_name"], "kind": JobEventKind.SPAN.value, "actor": storable(actor)}
        connection.execute(self._insert, {**values, **told, "details": _details(span)})

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


def _sentence(span: Span) -> str:
    said = f": {span.failure}" if span.failure else ""
    return f"{span.name} took {span.duration.total_seconds():.3f} s{said}"


def _details(span: Span) -> dict[str, Any]:
    found: dict[str, Any] = to_json(span)
    found["attributes"] = {name: _storable(value) for name, value in found["attributes"].items()}
    return {**found, "failure": storable(span.failure)}


def _storable(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value
