"""The audit log in SQLite or PostgreSQL. Implements the port `AuditLog`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Row, insert, select

from icepack.domain.access import ALL_TABLES, Scopes, format_namespace
from icepack.domain.ports.audit import AuditEvent, AuditLog
from icepack.domain.table import TableId
from icepack.errors import InvalidTableName
from icepack.store.schema import audit_events
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.scopes import scope_condition
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import read_connection, single_write


class SqlAuditLog(AuditLog):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def record(self, event: AuditEvent) -> AuditEvent:
        texts = ("actor", "action", "subject", "origin", "outcome")
        values = {name: clean_text(getattr(event, name)) for name in texts}
        scope = _find_scope(event)
        statement = insert(audit_events).values(at=event.at, details=dict(event.details), **values, **scope)
        with translate_errors(self._engine.url), single_write(self._engine) as connection:
            number = connection.execute(statement.returning(audit_events.c.number)).scalar_one()
        return replace(event, number=number)

    def entries(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        before: int | None = None,
        scopes: Scopes = ALL_TABLES,
    ) -> list[AuditEvent]:
        """Entries, newest first; `before` is the number of the last entry on the previous page."""
        wanted = {audit_events.c.actor: actor, audit_events.c.action: action, audit_events.c.subject: subject}
        statement = select(audit_events).where(*(column == text for column, text in wanted.items() if text is not None))
        statement = statement.where(scope_condition(audit_events, scopes, self._engine.dialect))
        if since is not None:
            statement = statement.where(audit_events.c.at >= since)
        if before is not None:
            statement = statement.where(audit_events.c.number < before)
        newest = statement.order_by(audit_events.c.number.desc()).limit(limit)
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            return [_to_event(row) for row in connection.execute(newest)]

    def close(self) -> None:
        self._engine.dispose()


def _find_scope(event: AuditEvent) -> dict[str, str]:
    """Catalog and namespace of the event's table; an event without a table is hidden from limited scopes."""
    try:
        table = TableId.parse(str(event.details.get("table", "")))
    except InvalidTableName:
        return {}
    return {"catalog": clean_text(table.catalog), "namespace": clean_text(format_namespace(table))}


def _to_event(row: Row[Any]) -> AuditEvent:
    return AuditEvent(
        at=row.at,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        origin=row.origin,
        outcome=row.outcome,
        details=row.details,
        number=row.number,
    )
