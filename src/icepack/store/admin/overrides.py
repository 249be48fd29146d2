"""Settings changed through the API, in SQLite or PostgreSQL. Implements the port `OverrideStore`.

There is one versioned document for each kind of setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Row, insert, select, update

from icepack.domain.ports.overrides import Overrides, OverrideStore, VersionConflict
from icepack.store.schema import overrides
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import read_connection, write_transaction


class SqlOverrideStore(OverrideStore):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()

    def read(self, kind: str) -> Overrides:
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            return _to_overrides(_read_row(connection, kind))

    def replace(self, kind: str, entries: Sequence[Mapping[str, Any]], *, expected: int | None, by: str) -> Overrides:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            before = _to_overrides(_read_row(connection, kind, lock=True))
            if expected is not None and expected != before.version:
                raise VersionConflict(before.version)
            values = {
                "entries": [dict(entry) for entry in entries],
                "version": before.version + 1,
                "changed_at": self._clock.now(),
                "changed_by": clean_text(by),
            }
            if before.version:
                connection.execute(update(overrides).where(overrides.c.kind == kind).values(values))
            else:
                connection.execute(insert(overrides).values(kind=kind, **values))
            return _to_overrides(_read_row(connection, kind))


def _read_row(connection: Connection, kind: str, *, lock: bool = False) -> Row[Any] | None:
    statement = select(overrides).where(overrides.c.kind == kind)
    return connection.execute(statement.with_for_update() if lock else statement).one_or_none()


def _to_overrides(row: Row[Any] | None) -> Overrides:
    if row is None:
        return Overrides()
    return Overrides(
        entries=tuple(row.entries), version=row.version, changed_at=row.changed_at, changed_by=row.changed_by
    )
