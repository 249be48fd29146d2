"""A history store that runs can rely on while the state database is unavailable."""

from __future__ import annotations

import logging
from uuid import UUID

from icepack.domain.actions import ActionKind
from icepack.domain.ports.history import HistoryStore
from icepack.domain.recommendation import PastRun
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)


class BufferedHistoryStore(HistoryStore):
    """Keeps records that cannot be written in memory and writes them later, so that an outage stops no run."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._unwritten: dict[UUID, RunRecord] = {}

    def save(self, record: RunRecord) -> None:
        self._unwritten[record.job_id] = record
        try:
            self.flush()
        except EnvironmentFault as exc:
            log.error("run record of %s on %s could not be saved: %s", record.kind, record.table, exc)

    def flush(self) -> None:
        """Writes the buffered records; raises EnvironmentFault while the database is unavailable."""
        for job_id, record in list(self._unwritten.items()):
            self._store.save(record)
            del self._unwritten[job_id]

    def discard(self, job_id: UUID) -> None:
        """Drops a buffered record of a job that another worker now runs and records."""
        self._unwritten.pop(job_id, None)

    def runs(
        self,
        *,
        table: TableId | None = None,
        kind: ActionKind | None = None,
        state: RunState | None = None,
        limit: int = 50,
    ) -> list[RunRecord]:
        return self._store.runs(table=table, kind=kind, state=state, limit=limit)

    def past_runs(self, table: TableId) -> list[PastRun]:
        return self._store.past_runs(table)

    def close(self) -> None:
        try:
            self.flush()
        except EnvironmentFault as exc:
            log.error("%d run records could not be saved: %s", len(self._unwritten), exc)
        self._store.close()
