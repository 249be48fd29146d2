"""Table locks: the same lanes that jobs run in, so that a command and a worker never touch one table together."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Float, Row, Select, bindparam, select, update

from icepack.domain.job import JobEventKind
from icepack.domain.ports.queue import LockLost, TableLock, TableLocked, TableLocks
from icepack.domain.table import TableId
from icepack.store.queue.events import Journal
from icepack.store.queue.reclaim import Reclaiming
from icepack.store.queue.table_slots import Hold, free_lane, held_lane, lock_lane, open_lane
from icepack.store.schema import HELD, jobs, lanes
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import at_once, reading, writing


class SqlTableLocks(TableLocks):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        clock = clock or DatabaseClock()
        self._journal = Journal(clock)
        self._reclaiming = Reclaiming(clock, self._journal)
        self._select = _select_locks(clock)
        expires_at = clock.after(bindparam("lease_seconds", type_=Float))
        self._take = (
            update(lanes)
            .where(lanes.c.table_name == bindparam("lane"))
            .values(taken_at=clock.now(), expires_at=expires_at, version=lanes.c.version + 1)
        )
        self._renew = held_lane().values(expires_at=expires_at).returning(lanes.c.expires_at)

    def acquire(self, table: TableId, owner: str, lease: timedelta, purpose: str = "") -> TableLock:
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            open_lane(connection, table)
            self._evict_expired(connection, table, owner)
            token = self._journal.of_lock(connection, JobEventKind.LOCKED, str(table), owner, purpose)
            held = self._take.values(owner=storable(owner), purpose=storable(purpose), fence=token)
            connection.execute(held, {"lane": str(table), "lease_seconds": lease.total_seconds()})
            return _to_lock(connection.execute(self._of(table)).one())

    def renew(self, lock: TableLock, lease: timedelta) -> TableLock:
        values = {**_hold(lock).values, "lease_seconds": lease.total_seconds()}
        with plain_faults(self._engine.url), at_once(self._engine) as connection:
            expires_at = connection.scalar(self._renew, values)
        if expires_at is None:
            raise LockLost(lock)
        return replace(lock, expires_at=expires_at, expired=False)

    def release(self, lock: TableLock) -> bool:
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            freed = free_lane(connection, _hold(lock))
            if freed:
                self._journal.of_lock(connection, JobEventKind.RELEASED, str(lock.table), lock.owner, "")
            return freed

    def list_locks(self) -> list[TableLock]:
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            rows = connection.execute(self._select.where(HELD).order_by(lanes.c.table_name)).all()
        return [_to_lock(row) for row in rows]

    def break_lock(self, table: TableId, *, force: bool = False, by: str = "") -> TableLock | None:
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            lock_lane(connection, str(table))
            lane = connection.execute(self._of(table)).one_or_none()
            if lane is None:
                return None
            lock = _to_lock(lane)
            if not (force or lock.expired):
                raise TableLocked(lock)
            self._reclaiming.take(connection, lane, f"The lock of '{lock.owner}' was broken.", by)
            return lock

    def close(self) -> None:
        self._engine.dispose()

    def _evict_expired(self, connection: Connection, table: TableId, owner: str) -> None:
        lane = connection.execute(self._of(table)).one_or_none()
        if lane is None:
            return
        lock = _to_lock(lane)
        if not lock.expired:
            raise TableLocked(lock)
        self._reclaiming.take(connection, lane, f"The lock of '{lock.owner}' had expired.", owner)

    def _of(self, table: TableId) -> Select[Any]:
        return self._select.where(HELD, lanes.c.table_name == str(table))


def _select_locks(clock: DatabaseClock) -> Select[Any]:
    expired: ColumnElement[bool] = lanes.c.expires_at <= clock.now()
    holder = lanes.outerjoin(jobs, jobs.c.number == lanes.c.job_number)
    return select(*lanes.c, expired.label("expired"), jobs.c.id.label("job_id")).select_from(holder)


def _hold(lock: TableLock) -> Hold:
    return Hold(lane=str(lock.table), fence=lock.token, owner=lock.owner)


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
