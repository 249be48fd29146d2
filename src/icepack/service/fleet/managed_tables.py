"""The tables that icepack maintains, including those of catalogs that do not answer at the moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from icepack.domain.fleet import exclude_internal_tables
from icepack.domain.table import TableId, TablePattern
from icepack.errors import CatalogFault
from icepack.service.ttl_cache import TtlCache

log = logging.getLogger(__name__)


class CatalogTables(Protocol):
    """Lists the tables of each catalog."""

    @property
    def catalog_names(self) -> tuple[str, ...]: ...

    def tables(self, catalog: str | None = None) -> list[TableId]: ...


class ManagedTables:
    """Lists each catalog at most once per `max_age`, so a new table is found that much later at worst."""

    def __init__(
        self,
        catalogs: CatalogTables,
        list_cached: Callable[[], Sequence[TableId]],
        *,
        named: Sequence[TablePattern] = (),
        max_age: timedelta = timedelta(minutes=5),
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalogs = catalogs
        self._list_cached = list_cached
        self._named = named
        self._listings: TtlCache[list[TableId]] = TtlCache(max_age.total_seconds(), elapsed_seconds)
        self._last_known: dict[str, list[TableId]] = {}

    def tables(self) -> list[TableId]:
        return [table for name in self._catalogs.catalog_names for table in self._tables_of(name)]

    def _tables_of(self, catalog: str) -> list[TableId]:
        """Returns the last known tables of a catalog that does not answer; the next call asks it again."""
        try:
            self._last_known[catalog] = self._listings.get(catalog, lambda: self._list_tables(catalog))
        except CatalogFault as exc:
            log.warning("tables of catalog '%s' could not be listed, using the last known ones: %s", catalog, exc)
            if catalog not in self._last_known:
                self._last_known[catalog] = self._find_cached(catalog)
        return self._last_known[catalog]

    def _list_tables(self, catalog: str) -> list[TableId]:
        return exclude_internal_tables(self._catalogs.tables(catalog), self._named)

    def _find_cached(self, catalog: str) -> list[TableId]:
        cached = [table for table in self._list_cached() if table.catalog == catalog]
        return exclude_internal_tables(cached, self._named)
