"""The names and figures of all cached tables, kept in memory: lists and searches need no database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

from icepack.domain.access import Scopes, covered, namespace_text, unlimited
from icepack.domain.ports.queue import CacheState, TableCache, TableSummary
from icepack.domain.table import TableId, TablePattern, select_tables
from icepack.errors import EnvironmentFault, InvalidTableName, TableNotFound

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class ListEntry:
    """A table as lists look for it and show it."""

    summary: TableSummary
    folded: str
    """Its name, for searches."""
    namespace: str
    text: str = ""
    """What lists show of it, as JSON, once it was shown."""


@dataclass(frozen=True)
class Listing:
    """The tables of one generation of the cache."""

    generation: int | None
    tables: tuple[TableSummary, ...] = ()
    """By name."""
    orders: dict[str, tuple[ListEntry, ...]] = field(default_factory=dict, compare=False, repr=False)
    """All of them, by what they are sorted by."""
    selections: dict[Any, tuple[ListEntry, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Tables that were asked for lately, in their order, by what was asked."""
    _views: dict[Scopes, Listing] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def by_name(self) -> dict[TableId, TableSummary]:
        return {summary.table: summary for summary in self.tables}

    @cached_property
    def by_score(self) -> tuple[TableSummary, ...]:
        """The sickest first."""
        return tuple(sorted(self.tables, key=lambda summary: (summary.score, summary.table)))

    @cached_property
    def entries(self) -> tuple[ListEntry, ...]:
        """By name."""
        return tuple(
            ListEntry(summary, str(summary.table).lower(), namespace_text(summary.table)) for summary in self.tables
        )

    def within(self, scopes: Scopes) -> Listing:
        """As much of it as the scopes cover."""
        if unlimited(scopes):
            return self
        if scopes not in self._views:
            mine = tuple(entry for entry in self.entries if covered(scopes, entry.summary.table))
            view = Listing(self.generation, tuple(entry.summary for entry in mine))
            view.__dict__["entries"] = mine
            self._views[scopes] = view
        return self._views[scopes]

    def find(self, text: str) -> TableId:
        """The one table that a name means; catalog and namespace may be left out where that is clear."""
        if TablePattern.parse(text).is_glob:
            raise InvalidTableName(f"'{text}' may mean several tables.", "Name one; put odd parts in double quotes.")
        return self.select([text])[0]

    def select(self, patterns: Sequence[str]) -> list[TableId]:
        """All tables that the names and globs mean."""
        exact = [self._exact(text) for text in patterns]
        if all(table is not None for table in exact):
            return list(dict.fromkeys(table for table in exact if table is not None))
        try:
            return select_tables(patterns, self.by_name)
        except TableNotFound as exc:
            raise TableNotFound(exc.message, "Health sync finds new tables at its next round.") from exc

    def _exact(self, text: str) -> TableId | None:
        pattern = TablePattern.parse(text)
        if pattern.is_glob or len(pattern.parts) < 3:
            return None
        parts = pattern.plain_parts
        table = TableId(parts[0], parts[1:-1], parts[-1])
        return table if table in self.by_name else None


class Directory:
    """Reads the cache anew when it has a new generation; while one thread does, the others go on with the old one."""

    def __init__(
        self,
        cache: TableCache,
        *,
        look_again_seconds: float = LOOK_AGAIN_SECONDS,
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._look_again_seconds = look_again_seconds
        self._elapsed_seconds = elapsed_seconds
        self._reading = Lock()
        self._known: tuple[Listing, CacheState] | None = None
        self._looked_at = 0.0

    def listing(self) -> Listing:
        return self._current()[0]

    def state(self) -> CacheState:
        """Its age counts from the last look."""
        return self._current()[1]

    def _current(self) -> tuple[Listing, CacheState]:
        known = self._known
        if known is not None and self._elapsed_seconds() - self._looked_at < self._look_again_seconds:
            return known
        if known is None:
            with self._reading:
                return self._known or self._look()
        if self._reading.acquire(blocking=False):
            try:
                return self._look()
            except EnvironmentFault as exc:
                log.warning("the table cache is shown as it was: %s", exc)
            finally:
                self._reading.release()
        return known

    def _look(self) -> tuple[Listing, CacheState]:
        state = self._cache.state()
        known = self._known
        if known is None or known[0].generation != state.generation:
            found = sorted(self._cache.summaries(), key=lambda summary: summary.table)
            listing = Listing(state.generation, tuple(found))
        else:
            listing = known[0]
        self._known, self._looked_at = (listing, state), self._elapsed_seconds()
        return listing, state
