"""Health sync: keeps the table cache current by looking only at tables that have changed.

A table has changed when its metadata lies elsewhere than the last time. Some are looked at again all the same: those
that icepack worked on, for what is recommended depends on that too, and each table once in a while, since snapshots
grow old by themselves.
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

from icepack.domain.fleet import watched
from icepack.domain.observability.fleet_trend import fleet_lines
from icepack.domain.ports.engine import HistoryStore
from icepack.domain.ports.queue import (
    CachedTable,
    CacheState,
    Generation,
    RefreshLost,
    StatusHistory,
    StatusPoint,
    TableCache,
    TableSummary,
)
from icepack.domain.run import Totals, totals
from icepack.domain.table import TableId, TablePattern
from icepack.domain.units import format_duration
from icepack.errors import Cancelled, CatalogFault, EnvironmentFault, IcepackError, TableNotFound
from icepack.service.loop import spread
from icepack.service.service import Advice

log = logging.getLogger(__name__)

RECENT_RUNS = 500


class CatalogLook(Protocol):
    @property
    def catalog_names(self) -> tuple[str, ...]: ...

    def metadata_locations(self, catalog: str) -> Mapping[TableId, str]:
        """Where each table's metadata lies; empty where that cannot be told."""
        ...


class Advisor(Protocol):
    def advise(self, table: TableId) -> Advice: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTerms:
    lease: timedelta = timedelta(minutes=10)
    """How long a refresh may be silent before another may take its place; it speaks after each batch."""
    batch_tables: int = 24
    refresh_after: timedelta = timedelta(days=1)
    """By then every table was looked at again, changed or not."""
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
    unread: tuple[tuple[TableId, str], ...] = ()
    """Tables that could not be read; what was known of them stays."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Catalogs that did not answer, with their reason; their tables stay as they were."""


class RefreshFailed(IcepackError):
    def __init__(self, reason: str, state: CacheState | None) -> None:
        super().__init__(f"The table cache was not refreshed: {reason}", _age_text(state))
        self.state = state


def _age_text(state: CacheState | None) -> str:
    if state is None:
        return "How old it is cannot be told either."
    return "There is none yet." if state.age is None else f"What it holds is {format_duration(state.age)} old."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What has to be done, worked out before any table is opened."""

    tables: int
    changed: tuple[TableId, ...]
    again: tuple[TableId, ...]
    gone: tuple[TableId, ...]
    silent: Mapping[str, str]
    known: Mapping[TableId, Totals]
    """The figures of all tables, as they were before."""


@dataclass(slots=True)
class _Found:
    """What came of looking at one table."""

    table: TableId
    cached: CachedTable | None = None
    error: str = ""


class HealthSync:
    def __init__(
        self,
        *,
        catalogs: CatalogLook,
        advisor: Advisor,
        cache: TableCache,
        observations: StatusHistory,
        history: HistoryStore,
        owner: str,
        clock: Callable[[], datetime],
        named: Sequence[TablePattern] = (),
        terms: SyncTerms | None = None,
    ) -> None:
        self._catalogs = catalogs
        self._advisor = advisor
        self._cache = cache
        self._observations = observations
        self._history = history
        self._owner = owner
        self._clock = clock
        self._named = named
        self._terms = terms or SyncTerms()

    def run_once(self, *, full: bool = False, stop: Event | None = None) -> SyncReport:
        """Refreshes the cache, or leaves it as it was: raises RefreshUnderWay while another is at it."""
        generation = self._cache.begin(self._owner, self._terms.lease)
        try:
            return self._refresh(generation, full, stop)
        except RefreshLost:
            raise
        except BaseException as exc:
            state = self._give_up(generation, exc)
            if isinstance(exc, Cancelled) or not isinstance(exc, Exception):
                raise
            raise RefreshFailed(_reason(exc), state) from exc

    def _give_up(self, generation: Generation, exc: BaseException) -> CacheState | None:
        try:
            return self._cache.give_up(generation, _reason(exc))
        except IcepackError as lost:
            log.warning("the refresh could not be given up; it ends with its lease: %s", lost)
            return None

    def _refresh(self, generation: Generation, full: bool, stop: Event | None) -> SyncReport:
        began = time.monotonic()
        work = self._work(full)
        gone, unread = list(work.gone), []
        figures = dict(work.known)
        refreshed = 0
        for batch in _batches((*work.changed, *work.again), self._terms.batch_tables):
            found = spread(self._look, batch, self._terms.threads, stop)
            cached = [item.cached for item in found if item.cached is not None]
            self._keep(generation, cached)
            figures.update((item.table, totals(item.status, item.health.score)) for item in cached)
            refreshed += len(cached)
            gone += [item.table for item in found if item.cached is None and not item.error]
            unread += [(item.table, item.error) for item in found if item.error]
        self._cache.remove(generation, gone)
        self._observations.save_day(self._clock().date(), fleet_lines(_without(figures, gone)))
        return SyncReport(
            tables=work.tables,
            changed=len(work.changed),
            refreshed=refreshed,
            removed=len(gone),
            seconds=time.monotonic() - began,
            state=self._cache.swap(generation),
            unread=tuple(unread),
            silent=work.silent,
        )

    def _work(self, full: bool) -> _Work:
        current, silent = self._look_at_catalogs()
        cached = {summary.table: summary for summary in self._cache.summaries()}
        changed = [table for table, location in current.items() if _has_changed(location, cached.get(table))]
        again = {table for table in current if full or self._is_stale(cached.get(table))} | self._acted_on(current)
        return _Work(
            tables=len(current),
            changed=tuple(changed),
            again=tuple(sorted(again.difference(changed))),
            gone=tuple(table for table in cached if table not in current and table.catalog not in silent),
            silent=silent,
            known={table: summary.totals for table, summary in cached.items()},
        )

    def _look_at_catalogs(self) -> tuple[dict[TableId, str], dict[str, str]]:
        """A catalog that does not answer hides no other; when none does, there is nothing to go by."""
        current: dict[TableId, str] = {}
        silent: dict[str, str] = {}
        for name in self._catalogs.catalog_names:
            try:
                found = self._catalogs.metadata_locations(name)
                current.update((table, found[table]) for table in watched(found, self._named))
            except CatalogFault as exc:
                silent[name] = str(exc)
        if silent and len(silent) == len(self._catalogs.catalog_names):
            raise CatalogFault("No catalog answered.", " ".join(silent.values()))
        return current, silent

    def _is_stale(self, summary: TableSummary | None) -> bool:
        """Each table at its own time, so that not all of them come at once."""
        if summary is None:
            return False
        share = int.from_bytes(hashlib.sha256(str(summary.table).encode()).digest()[:4]) / 2**32
        return self._clock() - summary.inspected_at >= self._terms.refresh_after * (1 + share) / 2

    def _acted_on(self, current: Mapping[TableId, str]) -> set[TableId]:
        """Tables on which a run has ended since the last refresh, though it may have changed nothing."""
        refreshed_at = self._cache.state().refreshed_at
        if refreshed_at is None:
            return set()
        runs = self._history.runs(limit=RECENT_RUNS)
        ended = {run.table for run in runs if run.finished_at is not None and run.finished_at >= refreshed_at}
        return {table for table in ended if table in current}

    def _look(self, table: TableId) -> _Found:
        """One table's trouble is its own; a lost database is everybody's."""
        try:
            advice = self._advisor.advise(table)
        except (EnvironmentFault, Cancelled):
            raise
        except TableNotFound:
            return _Found(table)
        except IcepackError as exc:
            return _Found(table, error=str(exc))
        except Exception as exc:
            log.exception("%s could not be looked at", table)
            return _Found(table, error=f"Unexpected {type(exc).__name__}: {exc}")
        cached = CachedTable(status=advice.status, health=advice.health, recommendation=advice.recommendation)
        return _Found(table, cached)

    def _keep(self, generation: Generation, cached: Sequence[CachedTable]) -> None:
        if not cached:
            return
        self._cache.write(generation, cached)
        self._observations.save_status(
            [
                StatusPoint(
                    table=item.table,
                    observed_at=item.status.observed_at,
                    totals=totals(item.status, item.health.score),
                )
                for item in cached
            ]
        )
        self._observations.save_health([item.health for item in cached])


def _has_changed(location: str, summary: TableSummary | None) -> bool:
    return not location or summary is None or summary.metadata_location != location


def _without(figures: Mapping[TableId, Totals], gone: Sequence[TableId]) -> dict[TableId, Totals]:
    dropped = set(gone)
    return {table: found for table, found in figures.items() if table not in dropped}


def _batches(tables: Sequence[TableId], size: int) -> Iterator[Sequence[TableId]]:
    return (tables[start : start + size] for start in range(0, len(tables), size))


def _reason(exc: BaseException) -> str:
    return str(exc) if isinstance(exc, IcepackError) else f"{type(exc).__name__}: {exc}"
