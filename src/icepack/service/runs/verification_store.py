"""A verification store that runs can rely on while the state database is away."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from icepack.domain.table import TableId
from icepack.domain.verification import FileClass, NativeDisabled, VerificationStore
from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)

UNKNOWN = "The state database could not be read, so it is not known whether the native rewrite may be used."


class PatientVerificationStore(VerificationStore):
    """Losing the database stops no run: unknown trust is none, and a switch that cannot be read counts as off."""

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
        self._catch_up()

    def enable_native(self, table: TableId) -> bool:
        was_unwritten = self._unwritten.pop(table, None) is not None
        return self._store.enable_native(table) or was_unwritten

    def native_disabled(self, table: TableId) -> NativeDisabled | None:
        self._catch_up()
        if table in self._unwritten:
            return self._unwritten[table]
        try:
            return self._store.native_disabled(table)
        except EnvironmentFault as exc:
            log.warning("native switch of %s could not be read: %s", table, exc)
            return NativeDisabled(table=table, table_uuid="", disabled_at=datetime.now(UTC), reason=UNKNOWN)

    def all_native_disabled(self) -> list[NativeDisabled]:
        self._catch_up()
        return self._store.all_native_disabled()

    def close(self) -> None:
        self._catch_up()

    def _catch_up(self) -> None:
        for table, entry in list(self._unwritten.items()):
            try:
                self._store.disable_native(entry)
            except EnvironmentFault as exc:
                log.error("native rewrite of %s could not be switched off in the state database: %s", table, exc)
                return
            self._unwritten.pop(table, None)
