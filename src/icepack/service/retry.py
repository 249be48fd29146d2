"""Waiting out a lost database: what must be written is tried again until it is, and nothing crashes over it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TypeVar
from uuid import UUID

from icepack.domain.actions import ActionKind
from icepack.domain.ports.engine import HistoryStore
from icepack.domain.recommendation.recommend import PastRun
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)

T = TypeVar("T")
REMINDER = 20
"""Every so many failures in a row are told again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that double up to a longest one, each shortened at random so that many do not come back at once."""

    first_seconds: float = 0.2
    longest_seconds: float = 5.0

    def pause_seconds(self, failures: int) -> float:
        doubled: float = self.first_seconds * 2 ** min(failures - 1, 30)
        return random.uniform(0.5, 1.0) * min(doubled, self.longest_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    backoff: Backoff = field(default_factory=Backoff)
    wait: Callable[[float], object] = field(default_factory=lambda: Event().wait)

    def insist(self, doing: str, call: Callable[[], T], *, give_up: Event | None = None) -> T:
        """The call's answer, however long the database is away; given up, the last failure is raised."""
        failures = 0
        while True:
            try:
                answer = call()
            except EnvironmentFault as exc:
                failures += 1
                if give_up is not None and give_up.is_set():
                    raise
                if failures % REMINDER == 1:
                    log.warning("%s must wait: %s", doing, exc)
                wait = give_up.wait if give_up is not None else self.wait
                wait(self.backoff.pause_seconds(failures))
            else:
                if failures:
                    log.warning("%s got through after %d failures", doing, failures)
                return answer


class PatientHistory(HistoryStore):
    """A history whose loss stops no run: what cannot be written is kept, and written when it can be."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._unwritten: dict[UUID, RunRecord] = {}

    def save(self, record: RunRecord) -> None:
        self._unwritten[record.job_id] = record
        try:
            self.catch_up()
        except EnvironmentFault as exc:
            log.error("%s on %s could not be put into the history: %s", record.kind, record.table, exc)

    def catch_up(self) -> None:
        """Write what is left; raises EnvironmentFault while that is not possible."""
        for job_id, record in list(self._unwritten.items()):
            self._store.save(record)
            del self._unwritten[job_id]

    def forget(self, job_id: UUID) -> None:
        """The job has gone to another, who writes its record."""
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
            self.catch_up()
        except EnvironmentFault as exc:
            log.error("the history lacks %d runs: %s", len(self._unwritten), exc)
        self._store.close()
