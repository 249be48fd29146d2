"""Ends a claimed job and frees its table."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import JSON, Connection, Dialect, Engine, Text, bindparam, insert, select

from icepack.domain.job import JobEventKind, JobOutcome, JobState
from icepack.store.queue.events import EventLog
from icepack.store.queue.table_slots import RELEASE_SLOT, SlotHolder, release_slot
from icepack.store.queue.transitions import transition_to
from icepack.store.schema import events, jobs, table_slots
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.prepared import PreparedStatement
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import write_transaction
from icepack.store.sql.types import BigNumber, text_literal

NEW_MESSAGE = bindparam("new_message", type_=Text)
_NEW_DETAILS = bindparam("new_details", type_=JSON(none_as_null=True))

# The event that records each final state.
END_EVENTS = {
    JobState.SUCCEEDED: JobEventKind.SUCCEEDED,
    JobState.FAILED: JobEventKind.FAILED,
    JobState.CANCELLED: JobEventKind.CANCELLED,
}


class JobFinisher:
    """Writes the end of a job with one statement on PostgreSQL and with three on SQLite."""

    def __init__(self, clock: DatabaseClock, event_log: EventLog, dialect: Dialect) -> None:
        self._clock = clock
        self._event_log = event_log
        self.statements = {state: PreparedStatement(self._finish(state), dialect, "number") for state in END_EVENTS}
        self._end_job = {state: self._end_statement(state) for state in END_EVENTS}

    def finish(self, engine: Engine, holder: SlotHolder, job_number: int, outcome: JobOutcome) -> bool:
        """End the job; returns False and changes nothing if the fence is stale."""
        details = outcome.details
        message = clean_text(outcome.message)
        values = {**holder.values, "job_number": job_number, "new_message": message, "new_details": details}
        if engine.dialect.name == "postgresql":
            values["new_details"] = None if details is None else json.dumps(details)
            return self.statements[outcome.state].fetch_one(engine, values) is not None
        with write_transaction(engine) as connection:
            return self._finish_in_steps(connection, holder, outcome, values)

    def _finish_in_steps(
        self, connection: Connection, holder: SlotHolder, outcome: JobOutcome, values: dict[str, Any]
    ) -> bool:
        if not release_slot(connection, holder):
            return False
        ended = connection.execute(self._end_job[outcome.state], values).one()
        kind = END_EVENTS[outcome.state]
        self._event_log.add_job_event(connection, kind, ended._mapping, holder.owner, outcome.message)
        return True

    def _finish(self, state: JobState) -> Any:
        # The slot is locked first, as everywhere: locking in different orders could cause a deadlock.
        freed = RELEASE_SLOT.returning(table_slots.c.table_name).cte("freed")
        ended = self._end_statement(state).where(jobs.c.table_name == freed.c.table_name).cte("ended")
        kind = text_literal(END_EVENTS[state].value)
        actor = bindparam("holder_name", type_=Text)
        event = select(
            ended.c.id, ended.c.table_name, self._clock.timestamp(), kind, actor, ended.c.attempts, NEW_MESSAGE
        )
        columns = ["job_id", "table_name", "at", "kind", "actor", "attempt", "message"]
        return insert(events).from_select(columns, event).returning(events.c.number)

    def _end_statement(self, state: JobState) -> Any:
        ended = transition_to(state).where(jobs.c.number == bindparam("job_number", type_=BigNumber))
        ended = ended.values(finished_at=self._clock.timestamp(), message=NEW_MESSAGE, details=_NEW_DETAILS)
        return ended.returning(jobs.c.id, jobs.c.table_name, jobs.c.attempts)
