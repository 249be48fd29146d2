"""Takes a table from its holder, whether its lease has run out or someone insists."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from icepack.domain.job import JobEventKind
from icepack.store.queue.events import Journal
from icepack.store.queue.finish import Return, Returning
from icepack.store.queue.table_slots import Hold, free_lane
from icepack.store.schema import HELD, ONE, lanes
from icepack.store.sql.clock import DatabaseClock


class Reclaiming:
    def __init__(self, clock: DatabaseClock, journal: Journal) -> None:
        self._journal = journal
        self._returning = Returning(clock, journal)
        expired = select(lanes).where(HELD, lanes.c.expires_at <= clock.now())
        self._expired = expired.order_by(lanes.c.expires_at).limit(ONE).with_for_update(skip_locked=True)

    def take_expired(self, connection: Connection) -> Row[Any] | None:
        """The lane that was held longest past its lease, as it was; None when there is none."""
        lane = connection.execute(self._expired).one_or_none()
        if lane is not None:
            self.take(connection, lane, f"'{lane.owner}' was not heard of before its lease ended.", "reaper")
        return lane

    def take(self, connection: Connection, lane: Row[Any], message: str, actor: str) -> None:
        """The caller has locked the lane; a job that held it goes back to the queue, or fails with its last attempt."""
        free_lane(connection, Hold(lane.table_name, lane.fence, lane.owner))
        if lane.job_number is None:
            self._journal.of_lock(connection, JobEventKind.BROKEN, lane.table_name, actor, message)
        else:
            terms = Return(kind=JobEventKind.EXPIRED, message=message)
            self._returning.take_back(connection, lane.job_number, terms, actor)
