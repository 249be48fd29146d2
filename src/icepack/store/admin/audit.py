"""The audit log in SQLite or PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Row, insert, select

from icepack.domain.access import EVERYTHING, Scopes, namespace_text
from icepack.domain.ports.queue import AuditEvent, AuditLog
from icepack.domain.table import TableId
from icepack.errors import InvalidTableName
from icepack.store.schema import audit_events
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.scopes import within
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import at_once, reading


class SqlAuditLog(AuditLog):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def record(self, event: AuditEvent) -> AuditEvent:
        texts = ("actor", "action", "subject", "origin", "outcome")
        values = {name: storable(getattr(event, name)) for name in texts}
        place = _place(event)
        statement = insert(audit_events).values(at=event.at, details=dict(event.details), **values, **place)
        with plain_faults(self._engine.url), at_once(self._engine) as connection:
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
        scopes: Scopes = EVERYTHING,
    ) -> list[AuditEvent]:
        """The newest first; `before` is the number of the last one seen."""
        wanted = {audit_events.c.actor: actor, audit_events.c.action: action, audit_events.c.subject: subject}
        statement = select(audit_events).where(*(column == text for column, text in wanted.items() if text is not None))
        statement = statement.where(within(audit_events, scopes, self._engine.dialect))
        if since is not None:
            statement = statement.where(audit_events.c.at >= since)
        if before is not None:
            statement = statement.where(audit_events.c.number < before)
        newest = statement.order_by(audit_events.c.number.desc()).limit(limit)
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            return [_to_event(row) for row in connection.execute(newest)]

    def close(self) -> None:
        self._engine.dispose()


def _place(event: AuditEvent) -> dict[str, str]:
    """Where the table is that it is about; what is about none is not for those who may see only some."""
    try:
        table = TableId.parse(str(event.details.get("table", "")))
    except InvalidTableName:
        return {}
    return {"catalog": storable(table.catalog), "namespace": storable(namespace_text(table))}


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
