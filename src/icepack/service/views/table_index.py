"""Names and totals of all cached tables, kept in memory so that lists and searches need no database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from icepack.domain.access import Scopes, format_namespace, is_in_scope, is_unlimited
from icepack.domain.ports.table_cache import CacheState, TableCache, TableSummary
from icepack.domain.table import TableId, TablePattern, select_tables
from icepack.errors import EnvironmentFault, InvalidTableName, TableNotFound
from icepack.service.table_selection import parse_full_name
from icepack.service.ttl_cache import TtlCache

log = logging.getLogger(__name__)

# How often the state of the table cache is read.
RELOAD_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class TableListEntry:
    """A table with what lists need to search and show it."""

    summary: TableSummary
    # The name in lower case, for searches.
    folded: str
    namespace: str
    # The entry as JSON; empty until it is shown for the first time.
    text: str = ""


@dataclass(frozen=True)
class TableListing:
    """The tables of one generation of the cache."""

    generation: int | None
    # Sorted by name.
    tables: tuple[TableSummary, ...] = ()
    # All entries in each sort order that was requested.
    orders: dict[str, tuple[TableListEntry, ...]] = field(default_factory=dict, compare=False, repr=False)
    # The entries of recent queries, sorted, by query.
    selections: dict[Any, tuple[TableListEntry, ...]] = field(default_factory=dict, compare=False, repr=False)
    _views: dict[Scopes, TableListing] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def by_name(self) -> dict[TableId, TableSummary]:
        return {summary.table: summary for summary in self.tables}

    @cached_property
    def by_score(self) -> tuple[TableSummary, ...]:
        """The tables by health score, lowest first."""
        return tuple(sorted(self.tables, key=lambda summary: (summary.score, summary.table)))

    @cached_property
    def entries(self) -> tuple[TableListEntry, ...]:
        """The entries by name."""
        return tuple(
            TableListEntry(summary, str(summary.table).lower(), format_namespace(summary.table))
            for summary in self.tables
        )

    def within(self, scopes: Scopes) -> TableListing:
        """Returns the part of the listing that the scopes cover."""
        if is_unlimited(scopes):
            return self
        if scopes not in self._views:
            visible = tuple(entry for entry in self.entries if is_in_scope(scopes, entry.summary.table))
            view = TableListing(self.generation, tuple(entry.summary for entry in visible))
            view.__dict__["entries"] = visible
            self._views[scopes] = view
        return self._views[scopes]

    def find(self, text: str) -> TableId:
        """Returns the one table that a name means; catalog and namespace may be omitted if that is unambiguous."""
        if TablePattern.parse(text).is_glob:
            raise InvalidTableName(
                f"'{text}' is a pattern that may match several tables.",
                "Name one table; put parts with special characters in double quotes.",
            )
        return self.select([text])[0]

    def select(self, patterns: Sequence[str]) -> list[TableId]:
        """Returns all tables that the names and globs match."""
        exact = [self._find_by_full_name(text) for text in patterns]
        if all(table is not None for table in exact):
            return list(dict.fromkeys(table for table in exact if table is not None))
        try:
            return select_tables(patterns, self.by_name)
        except TableNotFound as exc:
            raise TableNotFound(exc.message, "Health sync adds new tables the next time it runs.") from exc

    def _find_by_full_name(self, text: str) -> TableId | None:
        table = parse_full_name(text)
        return table if table is not None and table in self.by_name else None


class TableIndex:
    """Reloads the listing when the cache has a new generation.

    While one thread reloads it, the others use the old listing; so do all while the database is unavailable.
    """

    def __init__(
        self,
        cache: TableCache,
        *,
        reload_seconds: float = RELOAD_SECONDS,
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._current: TtlCache[tuple[TableListing, CacheState]] = TtlCache(reload_seconds, elapsed_seconds)
        self._last: tuple[TableListing, CacheState] | None = None

    def listing(self) -> TableListing:
        return self._read()[0]

    def state(self) -> CacheState:
        """Returns the state of the cache, with its age at the last reload."""
        return self._read()[1]

    def _read(self) -> tuple[TableListing, CacheState]:
        return self._current.get(None, self._reload)

    def _reload(self) -> tuple[TableListing, CacheState]:
        try:
            self._last = self._load(self._last[0] if self._last is not None else None)
        except EnvironmentFault as exc:
            if self._last is None:
                raise
            log.warning("table cache could not be read, showing the last listing: %s", exc)
        return self._last

    def _load(self, last: TableListing | None) -> tuple[TableListing, CacheState]:
        state = self._cache.state()
        if last is not None and last.generation == state.generation:
            return last, state
        found = sorted(self._cache.summaries(), key=lambda summary: summary.table)
        return TableListing(state.generation, tuple(found)), state
