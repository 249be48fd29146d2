"""Table locks in SQLite or PostgreSQL. Implements the port `TableLocks`, which hands out `TableLock`.

Locks and running jobs share the table slots, so a command and a worker never work on the same table at once.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Float, Row, Select, bindparam, select, update

from icepack.domain.job import JobEventKind
from icepack.domain.ports.locks import LockLost, TableLock, TableLocked, TableLocks
from icepack.domain.table import TableId
from icepack.store.queue.events import EventLog
from icepack.store.queue.reclaim import TableReclaimer
from icepack.store.queue.table_slots import (
    SlotHolder,
    lock_or_create_slot,
    lock_slot,
    release_slot,
    update_held_slot,
)
from icepack.store.schema import SLOT_HELD, jobs, table_slots
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import read_connection, single_write, write_transaction


class SqlTableLocks(TableLocks):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        clock = clock or DatabaseClock()
        self._event_log = EventLog(clock)
        self._reclaimer = TableReclaimer(clock, self._event_log)
        self._select = _select_slots(clock)
        expires_at = clock.after(bindparam("lease_seconds", type_=Float))
        self._take = (
            update(table_slots)
            .where(table_slots.c.table_name == bindparam("slot"))
            .values(taken_at=clock.now(), expires_at=expires_at, version=table_slots.c.version + 1)
        )
        self._renew = update_held_slot().values(expires_at=expires_at).returning(table_slots.c.expires_at)

    def acquire(self, table: TableId, owner: str, lease: timedelta, purpose: str = "") -> TableLock:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            lock_or_create_slot(connection, table)
            self._evict_expired(connection, table, owner)
            token = self._event_log.add_lock_event(connection, JobEventKind.LOCKED, str(table), owner, purpose)
            taken = self._take.values(owner=clean_text(owner), purpose=clean_text(purpose), fence=token)
            connection.execute(taken, {"slot": str(table), "lease_seconds": lease.total_seconds()})
            return _to_lock(connection.execute(self._select_held(table)).one())

    def renew(self, lock: TableLock, lease: timedelta) -> TableLock:
        values = {**_holder(lock).values, "lease_seconds": lease.total_seconds()}
        with translate_errors(self._engine.url), single_write(self._engine) as connection:
            expires_at = connection.scalar(self._renew, values)
        if expires_at is None:
            raise LockLost(lock)
        return replace(lock, expires_at=expires_at, expired=False)

    def release(self, lock: TableLock) -> bool:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            is_released = release_slot(connection, _holder(lock))
            if is_released:
                self._event_log.add_lock_event(connection, JobEventKind.RELEASED, str(lock.table), lock.owner, "")
            return is_released

    def list_locks(self) -> list[TableLock]:
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            rows = connection.execute(self._select.where(SLOT_HELD).order_by(table_slots.c.table_name)).all()
        return [_to_lock(row) for row in rows]

    def break_lock(self, table: TableId, *, force: bool = False, by: str = "") -> TableLock | None:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            lock_slot(connection, str(table))
            slot = connection.execute(self._select_held(table)).one_or_none()
            if slot is None:
                return None
            lock = _to_lock(slot)
            if not (force or lock.expired):
                raise TableLocked(lock)
            self._reclaimer.reclaim(connection, slot, f"The lock of '{lock.owner}' was broken.", by)
            return lock

    def close(self) -> None:
        self._engine.dispose()

    def _evict_expired(self, connection: Connection, table: TableId, owner: str) -> None:
        """Take the table from an expired holder; raises TableLocked if the holder's lease is still valid."""
        slot = connection.execute(self._select_held(table)).one_or_none()
        if slot is None:
            return
        lock = _to_lock(slot)
        if not lock.expired:
            raise TableLocked(lock)
        self._reclaimer.reclaim(connection, slot, f"The lock of '{lock.owner}' expired.", owner)

    def _select_held(self, table: TableId) -> Select[Any]:
        return self._select.where(SLOT_HELD, table_slots.c.table_name == str(table))


def _select_slots(clock: DatabaseClock) -> Select[Any]:
    is_expired: ColumnElement[bool] = table_slots.c.expires_at <= clock.now()
    with_job = table_slots.outerjoin(jobs, jobs.c.number == table_slots.c.job_number)
    columns = (*table_slots.c, is_expired.label("expired"), jobs.c.id.label("job_id"))
    return select(*columns).select_from(with_job)


def _holder(lock: TableLock) -> SlotHolder:
    return SlotHolder(table_name=str(lock.table), fence=lock.token, owner=lock.owner)


def _to_lock(row: Row[Any]) -> TableLock:
    return TableLock(
        table=TableId.parse(row.table_name),
        owner=row.owner,
        token=row.fence,
        purpose=row.purpose or "",
        taken_at=row.taken_at,
        expires_at=row.expires_at,
        expired=bool(row.expired),
        job_id=row.job_id,
    )
