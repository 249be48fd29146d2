"""Remembers trust in the native rewrite by class of files, and the tables where it is switched off."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Row, case, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from icepack.domain.serialization import from_json, to_json
from icepack.domain.table import TableId
from icepack.domain.verification import FileClass, Mismatch, NativeDisabled, VerificationStore
from icepack.store.schema import native_disabled, trusted_classes
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import at_once, reading, writing


class SqlVerificationStore(VerificationStore):
    """Verification results in SQLite or PostgreSQL."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def trusted_classes(self, table: TableId, table_uuid: str, kernel_version: str) -> frozenset[str]:
        statement = select(trusted_classes.c.class_id).where(
            *_of_table(table, table_uuid), trusted_classes.c.kernel_version == kernel_version
        )
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            return frozenset(connection.scalars(statement))

    def last_checked_at(self, table: TableId, table_uuid: str) -> datetime | None:
        newest = select(func.max(trusted_classes.c.last_checked_at)).where(*_of_table(table, table_uuid))
        with plain_faults(self._engine.url), reading(self._engine) as connection:
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
        """A check adds to what is known of its classes; it replaces nothing."""
        found = [
            {
                "table_name": str(table),
                "table_uuid": table_uuid,
                "class_id": each.id,
                "kernel_version": kernel_version,
                "description": dict(each.description),
                "first_checked_at": checked_at,
                "last_checked_at": checked_at,
                "checks": 1,
                "rows_compared": rows,
            }
            # In one order for all, so that two that write at once do not wait for each other.
            for each in sorted({each.id: each for each in classes}.values(), key=lambda each: each.id)
        ]
        if not found:
            return
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            connection.execute(_add_check(self._engine.dialect.name), found)

    def disable_native(self, entry: NativeDisabled) -> None:
        """A later entry replaces an earlier one."""
        values = {
            "table_name": str(entry.table),
            "table_uuid": entry.table_uuid,
            "disabled_at": entry.disabled_at,
            "reason": storable(entry.reason),
            "job_id": entry.job_id,
            "mismatch": None if entry.mismatch is None else to_json(entry.mismatch),
        }
        changed = {name: value for name, value in values.items() if name != "table_name"}
        statement = _insert(self._engine.dialect.name)(native_disabled).values(values)
        with plain_faults(self._engine.url), at_once(self._engine) as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=["table_name"], set_=changed))

    def enable_native(self, table: TableId) -> bool:
        statement = delete(native_disabled).where(native_disabled.c.table_name == str(table))
        with plain_faults(self._engine.url), at_once(self._engine) as connection:
            return connection.execute(statement).rowcount > 0

    def native_disabled(self, table: TableId) -> NativeDisabled | None:
        statement = select(native_disabled).where(native_disabled.c.table_name == str(table))
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
        return None if row is None else _to_entry(row)

    def all_native_disabled(self) -> list[NativeDisabled]:
        """By table."""
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            rows = connection.execute(select(native_disabled)).all()
        return sorted((_to_entry(row) for row in rows), key=lambda entry: str(entry.table))


def _of_table(table: TableId, table_uuid: str) -> tuple[Any, ...]:
    return trusted_classes.c.table_name == str(table), trusted_classes.c.table_uuid == table_uuid


def _insert(dialect: str) -> Any:
    return postgresql.insert if dialect == "postgresql" else sqlite.insert


def _add_check(dialect: str) -> Any:
    new = _insert(dialect)(trusted_classes)
    kept, said = trusted_classes.c, new.excluded
    newest = case((kept.last_checked_at < said.last_checked_at, said.last_checked_at), else_=kept.last_checked_at)
    return new.on_conflict_do_update(
        index_elements=list(trusted_classes.primary_key),
        set_={
            "last_checked_at": newest,
            "checks": kept.checks + said.checks,
            "rows_compared": kept.rows_compared + said.rows_compared,
        },
    )


def _to_entry(row: Row[Any]) -> NativeDisabled:
    return NativeDisabled(
        table=TableId.parse(row.table_name),
        table_uuid=row.table_uuid,
        disabled_at=row.disabled_at,
        reason=row.reason,
        job_id=row.job_id,
        mismatch=None if row.mismatch is None else from_json(Mismatch, row.mismatch),
    )
