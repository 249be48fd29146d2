"""A verification store that runs can rely on while the state database is unavailable."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from icepack.clock import utc_now
from icepack.domain.table import TableId
from icepack.domain.verification import FileClass, NativeDisabled, VerificationStore
from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)

# The reason that a table's native rewrite is off for while the database cannot be read.
DATABASE_UNAVAILABLE = "The state database could not be read, so it is unknown whether the native rewrite may be used."


class BufferedVerificationStore(VerificationStore):
    """Lets runs continue while the database is unavailable.

    If the database cannot be read, no file class is trusted and the native rewrite counts as disabled.
    """

    def __init__(self, store: VerificationStore) -> None:
        self._store = store
        self._unwritten: dict[TableId, NativeDisabled] = {}

    def trusted_classes(self, table: TableId, table_uuid: str, kernel_version: str) -> frozenset[str]:
        try:
            return self._store.trusted_classes(table, table_uuid, kernel_version)
        except EnvironmentFault as exc:
            log.warning("trusted classes of %s could not be read: %s", table, exc)
            return frozenset()

    def last_checked_at(self, table: TableId, table_uuid: str) -> datetime | None:
        try:
            return self._store.last_checked_at(table, table_uuid)
        except EnvironmentFault as exc:
            log.warning("last value check of %s could not be read: %s", table, exc)
            return None

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
        try:
            self._store.record_check(
                table, table_uuid, classes, kernel_version=kernel_version, rows=rows, checked_at=checked_at
            )
        except EnvironmentFault as exc:
            log.warning("value check of %s could not be recorded and will be repeated: %s", table, exc)

    def disable_native(self, entry: NativeDisabled) -> None:
        self._unwritten[entry.table] = entry
        self._flush()

    def enable_native(self, table: TableId) -> bool:
        was_unwritten = self._unwritten.pop(table, None) is not None
        return self._store.enable_native(table) or was_unwritten

    def native_disabled(self, table: TableId) -> NativeDisabled | None:
        self._flush()
        if table in self._unwritten:
            return self._unwritten[table]
        try:
            return self._store.native_disabled(table)
        except EnvironmentFault as exc:
            log.warning("native switch of %s could not be read: %s", table, exc)
            return NativeDisabled(table=table, table_uuid="", disabled_at=utc_now(), reason=DATABASE_UNAVAILABLE)

    def all_native_disabled(self) -> list[NativeDisabled]:
        self._flush()
        return self._store.all_native_disabled()

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        for table, entry in list(self._unwritten.items()):
            try:
                self._store.disable_native(entry)
            except EnvironmentFault as exc:
                log.error("native rewrite of %s could not be disabled in the state database: %s", table, exc)
                return
            self._unwritten.pop(table, None)
