"""Takes a table from its holder because the lease expired or an operator breaks the lock."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from icepack.domain.job import JobEventKind
from icepack.store.queue.events import EventLog
from icepack.store.queue.requeue import JobRequeuer, RequeueTerms
from icepack.store.queue.table_slots import SlotHolder, release_slot
from icepack.store.schema import SLOT_HELD, table_slots
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.types import LIMIT_ONE


class TableReclaimer:
    def __init__(self, clock: DatabaseClock, event_log: EventLog) -> None:
        self._event_log = event_log
        self._requeuer = JobRequeuer(clock, event_log)
        expired = select(table_slots).where(SLOT_HELD, table_slots.c.expires_at <= clock.now())
        self._select_expired = (
            expired.order_by(table_slots.c.expires_at).limit(LIMIT_ONE).with_for_update(skip_locked=True)
        )

    def reclaim_expired(self, connection: Connection) -> Row[Any] | None:
        """Reclaim the slot whose lease expired first, and return its row as it was; None if no lease has expired."""
        slot = connection.execute(self._select_expired).one_or_none()
        if slot is not None:
            self.reclaim(connection, slot, f"The lease of '{slot.owner}' expired.", "reaper")
        return slot

    def reclaim(self, connection: Connection, slot: Row[Any], message: str, actor: str) -> None:
        """Free a slot that the caller has locked; its job is queued again, or fails if this was its last attempt."""
        release_slot(connection, SlotHolder(slot.table_name, slot.fence, slot.owner))
        if slot.job_number is None:
            self._event_log.add_lock_event(connection, JobEventKind.BROKEN, slot.table_name, actor, message)
        else:
            terms = RequeueTerms(kind=JobEventKind.EXPIRED, message=message)
            self._requeuer.requeue_or_end(connection, slot.job_number, terms, actor)
