"""Writes the event log of jobs and locks; the number of an event serves as a fence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert

from icepack.domain.job import JobEventKind
from icepack.domain.observability.trace import Span
from icepack.domain.serialization import to_json
from icepack.store.schema import events
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.text import clean_text


class EventLog:
    """Appends events inside the caller's transaction."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._insert = insert(events).values(at=clock.now()).returning(events.c.number)

    def add_job_event(
        self, connection: Connection, kind: JobEventKind, job: Mapping[Any, Any], actor: str = "", message: str = ""
    ) -> int:
        """Add an event about a job, given as its row, and return the number of the event."""
        return self._write(connection, kind, job["table_name"], actor, message, job["id"], job["attempts"])

    def add_span(self, connection: Connection, span: Span, job: Mapping[Any, Any], actor: str) -> None:
        values = {
            "job_id": job["id"],
            "table_name": job["table_name"],
            "kind": JobEventKind.SPAN.value,
            "actor": clean_text(actor),
            "attempt": job["attempts"],
            "message": clean_text(_describe_span(span)),
            "details": _span_details(span),
        }
        connection.execute(self._insert, values)

    def add_lock_event(
        self, connection: Connection, kind: JobEventKind, table_name: str, actor: str, message: str
    ) -> int:
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
            "actor": clean_text(actor),
            "attempt": attempt,
            "message": clean_text(message),
        }
        number: int = connection.execute(self._insert, values).scalar_one()
        return number


def _describe_span(span: Span) -> str:
    failure = f": {span.failure}" if span.failure else ""
    return f"{span.name} took {span.duration.total_seconds():.3f} s{failure}"


def _span_details(span: Span) -> dict[str, Any]:
    details: dict[str, Any] = to_json(span)
    details["attributes"] = {name: _clean_value(value) for name, value in details["attributes"].items()}
    return {**details, "failure": clean_text(span.failure)}


def _clean_value(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value
