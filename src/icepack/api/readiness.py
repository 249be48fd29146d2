"""Readiness of the service: queries the database, and judges catalogs and engine by what they did last."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from icepack.api.schemas.probes import ComponentStatus, Readiness
from icepack.domain.job import JobState
from icepack.domain.ports.queries import FleetQueries
from icepack.domain.ports.queue import JobStore
from icepack.domain.ports.table_cache import CacheState
from icepack.domain.units import format_duration
from icepack.errors import EnvironmentFault
from icepack.service.ttl_cache import TtlCache
from icepack.service.views.table_index import TableIndex

log = logging.getLogger(__name__)

CACHE_SECONDS = 2.0
# If a due job waits longer than this and no job runs, there may be no worker.
MAX_WAIT = timedelta(minutes=10)
# The table cache is outdated after this many health-sync intervals.
MAX_MISSED_INTERVALS = 3


class ReadinessCheck:
    def __init__(
        self,
        *,
        jobs: JobStore,
        fleet_queries: FleetQueries,
        table_index: TableIndex,
        sync_interval: timedelta,
        worker_state: Callable[[], str] | None = None,
    ) -> None:
        self._jobs = jobs
        self._fleet_queries = fleet_queries
        self._table_index = table_index
        self._sync_interval = sync_interval
        # Describes the problem of the worker that this process supervises; empty while it runs.
        self._worker_state = worker_state
        self._cache: TtlCache[Readiness] = TtlCache(CACHE_SECONDS)

    def read(self) -> Readiness:
        return self._cache.get("readiness", self._check)

    def _check(self) -> Readiness:
        try:
            now = self._jobs.now()
            components = [_ok("database", "The state database is reachable."), self._catalog(), self._engine(now)]
        except EnvironmentFault as exc:
            log.error("readiness check failed: %s", exc)
            database = ComponentStatus(name="database", status="down", detail="The state database is unreachable.")
            return Readiness(status="unavailable", components=[database])
        is_degraded = any(component.status != "ok" for component in components)
        return Readiness(status="degraded" if is_degraded else "ready", components=components)

    def _catalog(self) -> ComponentStatus:
        problem = self._find_cache_problem(self._table_index.state())
        if problem:
            return ComponentStatus(name="catalog", status="degraded", detail=problem)
        return _ok("catalog", "The table cache is up to date.")

    def _find_cache_problem(self, state: CacheState) -> str:
        if state.failed_at is not None:
            return "The last refresh of the table cache failed."
        if state.age is None:
            return "The table cache has not been filled yet."
        if state.age > MAX_MISSED_INTERVALS * self._sync_interval:
            return f"The table cache was last refreshed {format_duration(state.age)} ago."
        return ""

    def _engine(self, now: datetime) -> ComponentStatus:
        problem = (self._worker_state() if self._worker_state else "") or self._find_queue_problem(now)
        if problem:
            return ComponentStatus(name="engine", status="degraded", detail=problem)
        return _ok("engine", "No job is overdue.")

    def _find_queue_problem(self, now: datetime) -> str:
        oldest = self._fleet_queries.oldest_due()
        if oldest is None or now - oldest < MAX_WAIT or self._jobs.counts()[JobState.RUNNING]:
            return ""
        return f"A job has been waiting for {format_duration(now - oldest)} and none is running. Check the workers."


def _ok(name: str, detail: str) -> ComponentStatus:
    return ComponentStatus(name=name, status="ok", detail=detail)
