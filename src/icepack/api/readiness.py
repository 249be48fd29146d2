"""Whether the service can do its work: the database is asked, of catalog and engine it is known what they last did."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from icepack.api.schemas.jobs import Component, Readiness
from icepack.domain.job import JobState
from icepack.domain.ports.access import Board
from icepack.domain.ports.queue import CacheState, JobStore
from icepack.domain.units import format_duration
from icepack.errors import EnvironmentFault
from icepack.service.ttl_cache import Remembered
from icepack.service.views.table_index import Directory

log = logging.getLogger(__name__)

REMEMBERED_SECONDS = 2.0
LONGEST_WAIT = timedelta(minutes=10)
MISSED_ROUNDS = 3


class ReadinessCheck:
    def __init__(
        self,
        *,
        jobs: JobStore,
        board: Board,
        directory: Directory,
        sync_interval: timedelta,
        worker_state: Callable[[], str] | None = None,
    ) -> None:
        self._jobs = jobs
        self._board = board
        self._directory = directory
        self._sync_interval = sync_interval
        self._worker_state = worker_state
        """Of a worker that this process looks after; empty while it runs."""
        self._remembered: Remembered[Readiness] = Remembered(REMEMBERED_SECONDS)

    def read(self) -> Readiness:
        return self._remembered.get("readiness", self._look)

    def _look(self) -> Readiness:
        try:
            now = self._jobs.now()
            components = [_fine("database", "The state database answers."), self._catalog(), self._engine(now)]
        except EnvironmentFault as exc:
            log.error("not ready: %s", exc)
            return Readiness(
                status="unavailable",
                components=[Component(name="database", status="down", detail="The state database does not answer.")],
            )
        degraded = any(component.status != "ok" for component in components)
        return Readiness(status="degraded" if degraded else "ready", components=components)

    def _catalog(self) -> Component:
        trouble = self._catalog_trouble(self._directory.state())
        if trouble:
            return Component(name="catalog", status="degraded", detail=trouble)
        return _fine("catalog", "The catalogs were read a short while ago.")

    def _catalog_trouble(self, state: CacheState) -> str:
        if state.failed_at is not None:
            return "The last refresh of the table cache failed."
        if state.age is None:
            return "The catalogs have not been read yet."
        if state.age > MISSED_ROUNDS * self._sync_interval:
            return f"The catalogs were last read {format_duration(state.age)} ago."
        return ""

    def _engine(self, now: datetime) -> Component:
        trouble = (self._worker_state() if self._worker_state else "") or self._waiting(now)
        if trouble:
            return Component(name="engine", status="degraded", detail=trouble)
        return _fine("engine", "No job waits longer than it should.")

    def _waiting(self, now: datetime) -> str:
        oldest = self._board.oldest_due()
        if oldest is None or now - oldest < LONGEST_WAIT or self._jobs.counts()[JobState.RUNNING]:
            return ""
        return f"A job has waited for {format_duration(now - oldest)}, and none runs: there may be no worker."


def _fine(name: str, detail: str) -> Component:
    return Component(name=name, status="ok", detail=detail)
