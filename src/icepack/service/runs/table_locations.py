"""The locations of all tables; of tables that cannot be read now, those that the table cache knows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from icepack.domain.locations import AssumedLocations, TableLocations, infer_table_location, list_table_locations
from icepack.domain.ports.table_cache import CachedTable, TableCache
from icepack.errors import IcepackError

log = logging.getLogger(__name__)


class TableLocator:
    """Adds cached locations to those that the catalogs report."""

    def __init__(self, read_catalogs: Callable[[], TableLocations], cache: Callable[[], TableCache]) -> None:
        self._read_catalogs = read_catalogs
        self._cache = cache

    def locations(self) -> TableLocations:
        found = self._read_catalogs()
        return replace(found, assumed=tuple(self._add_cached(item) for item in found.assumed))

    def _add_cached(self, item: AssumedLocations) -> AssumedLocations:
        """Adds a table's cached locations to those assumed for it; replaces those assumed for a whole catalog.

        A catalog's warehouse is not assumed to belong to its tables: other catalogs may have tables there too. A table
        that was created since the cache was refreshed is recognised by its metadata files.
        """
        try:
            found = (location for cached in self._cached(item) for location in _list_locations(cached))
            locations = tuple(dict.fromkeys(found))
        except IcepackError as exc:
            log.warning("table cache could not be read for the locations of %s: %s", item.name, exc)
            return item
        if not locations:
            return item
        if item.table is None:
            return replace(item, locations=locations, basis="its tables' last known locations")
        merged = tuple(dict.fromkeys((*item.locations, *locations)))
        basis = f"{item.basis}, and its last known location" if item.locations else "its last known location"
        return replace(item, locations=merged, basis=basis)

    def _cached(self, item: AssumedLocations) -> Iterator[CachedTable]:
        if item.table is None:
            yield from (cached for cached in self._cache().tables() if cached.table.catalog == item.catalog)
        elif (cached := self._cache().get(item.table)) is not None:
            yield cached


def _list_locations(cached: CachedTable) -> tuple[str, ...]:
    status = cached.status
    return (*list_table_locations(status.location, status.properties), infer_table_location(status.metadata_location))
