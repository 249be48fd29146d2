"""Claims the next job for a worker: skips tables that others have locked and wakes jobs that have become due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine

from icepack.store.queue.claim_statements import BEFORE_ALL_RANKS, ClaimStatements
from icepack.store.queue.wake import JobWaker
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.transaction import read_connection, write_transaction

# Number of table slots whose jobs are woken in one transaction.
WAKE_BATCH = 200
# Number of passes over all ranks before the remaining jobs are considered taken by others.
MAX_PASSES = 2


class JobClaimer:
    def __init__(self, engine: Engine, clock: DatabaseClock) -> None:
        self._engine = engine
        self.statements = ClaimStatements(clock, engine.dialect)
        self._waker = JobWaker(clock)

    def claim(self, values: dict[str, Any]) -> Mapping[str, Any] | None:
        """The row of the claimed job; in nearly all cases the first statement finds a job or that there is none."""
        values = {**values, "wake_first": True}
        for _ in range(MAX_PASSES):
            values["after_rank"] = BEFORE_ALL_RANKS
            row = self._try_ranks(values)
            if row is not None or values["after_rank"] == BEFORE_ALL_RANKS:
                return row
        return None

    def _try_ranks(self, values: dict[str, Any]) -> Mapping[str, Any] | None:
        """Try the ranks from the most urgent on; `after_rank` is the last rank whose slots were all locked."""
        while True:
            row = self.statements.claim(self._engine, values)
            if row is not None:
                return row
            with read_connection(self._engine) as connection:
                remaining = self.statements.peek(connection, values["after_rank"])
            if remaining.needs_wake and values["wake_first"]:
                values["wake_first"] = self._wake()
            elif remaining.top_rank is None:
                return None
            else:
                values["after_rank"] = remaining.top_rank

    def _wake(self) -> bool:
        """Wake due jobs; returns False if other workers are waking them, who need not be waited for."""
        with write_transaction(self._engine) as connection:
            return self._waker.wake(connection, WAKE_BATCH)
