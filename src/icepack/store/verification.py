"""Results of value checks of the native rewrite, and the tables where it is disabled, in SQLite or PostgreSQL.

Implements the port `VerificationStore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Row, case, delete, func, select

from icepack.domain.serialization import from_json, to_json
from icepack.domain.table import TableId
from icepack.domain.verification import FileClass, Mismatch, NativeDisabled, VerificationStore
from icepack.store.schema import native_disabled, trusted_classes
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import read_connection, single_write, write_transaction
from icepack.store.sql.upsert import upsert


class SqlVerificationStore(VerificationStore):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def trusted_classes(self, table: TableId, table_uuid: str, kernel_version: str) -> frozenset[str]:
        statement = select(trusted_classes.c.class_id).where(
            *_of_table(table, table_uuid), trusted_classes.c.kernel_version == kernel_version
        )
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            return frozenset(connection.scalars(statement))

    def last_checked_at(self, table: TableId, table_uuid: str) -> datetime | None:
        newest = select(func.max(trusted_classes.c.last_checked_at)).where(*_of_table(table, table_uuid))
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            found: datetime | None = connection.scalar(newest)
        return found

    def record_check(
        self,
        table: TableId,
        table_uuid: str,
        classes: Sequence[FileClass],
        *,
        kernel_version: str,
        rows: int,
        checked_at: datetime,
    ) -> None:
        """Add a check to the results of its classes; earlier results are kept."""
        rows_by_class = [
            {
                "table_name": str(table),
                "table_uuid": table_uuid,
                "class_id": file_class.id,
                "kernel_version": kernel_version,
                "description": dict(file_class.description),
                "first_checked_at": checked_at,
                "last_checked_at": checked_at,
                "checks": 1,
                "rows_compared": rows,
            }
            # Sorted, so that two concurrent writers cannot deadlock.
            for file_class in sorted({item.id: item for item in classes}.values(), key=lambda item: item.id)
        ]
        if not rows_by_class:
            return
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            connection.execute(upsert(trusted_classes, self._engine.dialect, _add_check), rows_by_class)

    def disable_native(self, entry: NativeDisabled) -> None:
        """Disable the native rewrite for a table; an earlier entry is replaced."""
        values = {
            "table_name": str(entry.table),
            "table_uuid": entry.table_uuid,
            "disabled_at": entry.disabled_at,
            "reason": clean_text(entry.reason),
            "job_id": entry.job_id,
            "mismatch": None if entry.mismatch is None else to_json(entry.mismatch),
        }
        with translate_errors(self._engine.url), single_write(self._engine) as connection:
            connection.execute(upsert(native_disabled, self._engine.dialect), values)

    def enable_native(self, table: TableId) -> bool:
        statement = delete(native_disabled).where(native_disabled.c.table_name == str(table))
        with translate_errors(self._engine.url), single_write(self._engine) as connection:
            return connection.execute(statement).rowcount > 0

    def native_disabled(self, table: TableId) -> NativeDisabled | None:
        statement = select(native_disabled).where(native_disabled.c.table_name == str(table))
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
        return None if row is None else _to_entry(row)

    def all_native_disabled(self) -> list[NativeDisabled]:
        """All entries, sorted by table."""
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            rows = connection.execute(select(native_disabled)).all()
        return sorted((_to_entry(row) for row in rows), key=lambda entry: str(entry.table))


def _of_table(table: TableId, table_uuid: str) -> tuple[Any, ...]:
    return trusted_classes.c.table_name == str(table), trusted_classes.c.table_uuid == table_uuid


def _add_check(stored: Any, new: Any) -> dict[str, Any]:
    is_newer = stored.last_checked_at < new.last_checked_at
    return {
        "last_checked_at": case((is_newer, new.last_checked_at), else_=stored.last_checked_at),
        "checks": stored.checks + new.checks,
        "rows_compared": stored.rows_compared + new.rows_compared,
    }


def _to_entry(row: Row[Any]) -> NativeDisabled:
    return NativeDisabled(
        table=TableId.parse(row.table_name),
        table_uuid=row.table_uuid,
        disabled_at=row.disabled_at,
        reason=row.reason,
        job_id=row.job_id,
        mismatch=None if row.mismatch is None else from_json(Mismatch, row.mismatch),
    )
