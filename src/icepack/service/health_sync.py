"""Health sync: keeps the table cache current by inspecting the tables that have changed.

A table has changed if its metadata location is not the cached one. Two kinds of unchanged tables are inspected too:
those that a run has ended on, because recommendations also depend on past runs, and every table once in a while,
because snapshots age without any change.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event
from typing import Protocol

from icepack.domain.fleet import exclude_internal_tables
from icepack.domain.observability.fleet_trend import sum_by_namespace
from icepack.domain.ports.history import HistoryStore, StatusHistory, StatusPoint
from icepack.domain.ports.table_cache import CachedTable, CacheState, Generation, RefreshLost, TableCache, TableSummary
from icepack.domain.run import Totals, compute_totals
from icepack.domain.table import TableId, TablePattern
from icepack.domain.units import format_duration
from icepack.errors import Cancelled, CatalogFault, EnvironmentFault, IcepackError, TableNotFound
from icepack.service.advice import TableAdvisor
from icepack.service.loop import map_in_threads

log = logging.getLogger(__name__)

# How many of the latest runs are searched for those that ended since the last refresh.
RECENT_RUNS = 500


class MetadataLocations(Protocol):
    """Lists where the metadata of each table is."""

    @property
    def catalog_names(self) -> tuple[str, ...]: ...

    def metadata_locations(self, catalog: str) -> Mapping[TableId, str]:
        """Returns the metadata location of each table; an empty text if the catalog does not report it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """Batch size, threads and intervals of a refresh."""

    # A refresh that writes nothing for this long may be taken over; it writes after each batch.
    lease: timedelta = timedelta(minutes=10)
    batch_tables: int = 24
    # Every table is inspected again after this time, even if it has not changed.
    refresh_after: timedelta = timedelta(days=1)
    threads: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a refresh did."""

    tables: int
    changed: int
    refreshed: int
    removed: int
    seconds: float
    state: CacheState
    # Tables that could not be read, with the reason; their cached entries are kept.
    unreadable: tuple[tuple[TableId, str], ...] = ()
    # Catalogs that did not answer, with the reason; the cached entries of their tables are kept.
    silent_catalogs: Mapping[str, str] = field(default_factory=dict)


class RefreshFailed(IcepackError):
    """The table cache could not be refreshed and keeps its contents."""

    def __init__(self, reason: str, state: CacheState | None) -> None:
        super().__init__(f"The table cache was not refreshed: {reason}", _describe_age(state))
        self.state = state


def _describe_age(state: CacheState | None) -> str:
    if state is None:
        return "The age of its contents is unknown."
    return "It is still empty." if state.age is None else f"Its contents are {format_duration(state.age)} old."


@dataclass(frozen=True, slots=True, kw_only=True)
class _RefreshPlan:
    """Which tables a refresh inspects and removes, determined before any table is opened."""

    tables: int
    changed: tuple[TableId, ...]
    unchanged: tuple[TableId, ...]
    removed: tuple[TableId, ...]
    silent_catalogs: Mapping[str, str]
    # The cached totals of all tables.
    totals: Mapping[TableId, Totals]


@dataclass(slots=True)
class _Inspection:
    """The result of inspecting one table; without an entry or an error the table no longer exists."""

    table: TableId
    cached: CachedTable | None = None
    error: str = ""


class TableCacheSyncWorker:
    """Refreshes the table cache: writes a new generation and swaps it in atomically."""

    def __init__(
        self,
        *,
        catalogs: MetadataLocations,
        advisor: TableAdvisor,
        cache: TableCache,
        status_history: StatusHistory,
        history: HistoryStore,
        owner: str,
        clock: Callable[[], datetime],
        named: Sequence[TablePattern] = (),
        options: SyncOptions | None = None,
    ) -> None:
        self._catalogs = catalogs
        self._advisor = advisor
        self._cache = cache
        self._status_history = status_history
        self._history = history
        self._owner = owner
        self._clock = clock
        self._named = named
        self._options = options or SyncOptions()

    def run_once(self, *, full: bool = False, stop: Event | None = None) -> SyncReport:
        """Refreshes the cache, or leaves it unchanged if that fails.

        Raises RefreshInProgress while another process refreshes it.
        """
        generation = self._cache.begin(self._owner, self._options.lease)
        try:
            return self._refresh(generation, full, stop)
        except RefreshLost:
            raise
        except BaseException as exc:
            state = self._abort(generation, exc)
            if isinstance(exc, Cancelled) or not isinstance(exc, Exception):
                raise
            raise RefreshFailed(_describe_error(exc), state) from exc

    def _abort(self, generation: Generation, exc: BaseException) -> CacheState | None:
        try:
            return self._cache.abort(generation, _describe_error(exc))
        except IcepackError as lost:
            log.warning("refresh could not be aborted and ends with its lease: %s", lost)
            return None

    def _refresh(self, generation: Generation, full: bool, stop: Event | None) -> SyncReport:
        started_at = time.monotonic()
        plan = self._plan(full)
        removed, unreadable = list(plan.removed), []
        totals = dict(plan.totals)
        refreshed = 0
        for batch in _split_batches((*plan.changed, *plan.unchanged), self._options.batch_tables):
            inspections = map_in_threads(self._inspect, batch, self._options.threads, stop)
            cached = [item.cached for item in inspections if item.cached is not None]
            self._write(generation, cached)
            totals.update((item.table, compute_totals(item.status, item.health.score)) for item in cached)
            refreshed += len(cached)
            removed += [item.table for item in inspections if item.cached is None and not item.error]
            unreadable += [(item.table, item.error) for item in inspections if item.error]
        self._cache.remove(generation, removed)
        self._status_history.save_day(self._clock().date(), sum_by_namespace(_exclude(totals, removed)))
        return SyncReport(
            tables=plan.tables,
            changed=len(plan.changed),
            refreshed=refreshed,
            removed=len(removed),
            seconds=time.monotonic() - started_at,
            state=self._cache.swap(generation),
            unreadable=tuple(unreadable),
            silent_catalogs=plan.silent_catalogs,
        )

    def _plan(self, full: bool) -> _RefreshPlan:
        current, silent = self._list_tables()
        cached = {summary.table: summary for summary in self._cache.summaries()}
        changed = [table for table, location in current.items() if _has_changed(location, cached.get(table))]
        stale = {table for table in current if full or self._is_stale(cached.get(table))}
        unchanged = (stale | self._tables_with_ended_runs(current)).difference(changed)
        return _RefreshPlan(
            tables=len(current),
            changed=tuple(changed),
            unchanged=tuple(sorted(unchanged)),
            removed=tuple(table for table in cached if table not in current and table.catalog not in silent),
            silent_catalogs=silent,
            totals={table: summary.totals for table, summary in cached.items()},
        )

    def _list_tables(self) -> tuple[dict[TableId, str], dict[str, str]]:
        """Returns the tables of the catalogs that answer; raises CatalogFault if none does."""
        current: dict[TableId, str] = {}
        silent: dict[str, str] = {}
        for name in self._catalogs.catalog_names:
            try:
                found = self._catalogs.metadata_locations(name)
                current.update((table, found[table]) for table in exclude_internal_tables(found, self._named))
            except CatalogFault as exc:
                silent[name] = str(exc)
        if silent and len(silent) == len(self._catalogs.catalog_names):
            raise CatalogFault("No catalog answered.", " ".join(silent.values()))
        return current, silent

    def _is_stale(self, summary: TableSummary | None) -> bool:
        """Each table becomes stale at a time derived from its name, so that not all are inspected at once."""
        if summary is None:
            return False
        share = int.from_bytes(hashlib.sha256(str(summary.table).encode()).digest()[:4]) / 2**32
        return self._clock() - summary.inspected_at >= self._options.refresh_after * (1 + share) / 2

    def _tables_with_ended_runs(self, current: Mapping[TableId, str]) -> set[TableId]:
        """Returns the tables on which a run has ended since the last refresh, even if it changed nothing."""
        refreshed_at = self._cache.state().refreshed_at
        if refreshed_at is None:
            return set()
        runs = self._history.runs(limit=RECENT_RUNS)
        ended = {run.table for run in runs if run.finished_at is not None and run.finished_at >= refreshed_at}
        return {table for table in ended if table in current}

    def _inspect(self, table: TableId) -> _Inspection:
        """An error affects only this table, except for a lost database, which ends the refresh."""
        try:
            advice = self._advisor.advise(table)
        except (EnvironmentFault, Cancelled):
            raise
        except TableNotFound:
            return _Inspection(table)
        except IcepackError as exc:
            return _Inspection(table, error=str(exc))
        except Exception as exc:
            log.exception("%s could not be inspected", table)
            return _Inspection(table, error=f"Unexpected {type(exc).__name__}: {exc}")
        cached = CachedTable(status=advice.status, health=advice.health, recommendation=advice.recommendation)
        return _Inspection(table, cached)

    def _write(self, generation: Generation, cached: Sequence[CachedTable]) -> None:
        if not cached:
            return
        self._cache.write(generation, cached)
        points = [
            StatusPoint(
                table=item.table,
                observed_at=item.status.observed_at,
                totals=compute_totals(item.status, item.health.score),
            )
            for item in cached
        ]
        self._status_history.save_status(points)
        self._status_history.save_health([item.health for item in cached])


def _has_changed(location: str, summary: TableSummary | None) -> bool:
    return not location or summary is None or summary.metadata_location != location


def _exclude(totals: Mapping[TableId, Totals], removed: Sequence[TableId]) -> dict[TableId, Totals]:
    excluded = set(removed)
    return {table: found for table, found in totals.items() if table not in excluded}


def _split_batches(tables: Sequence[TableId], size: int) -> Iterator[Sequence[TableId]]:
    return (tables[start : start + size] for start in range(0, len(tables), size))


def _describe_error(exc: BaseException) -> str:
    return str(exc) if isinstance(exc, IcepackError) else f"{type(exc).__name__}: {exc}"
