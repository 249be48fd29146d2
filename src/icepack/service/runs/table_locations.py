"""Where all tables lie: as their catalogs say, and as it was last known of those that cannot be read now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from icepack.domain.locations import AssumedLocations, TableLocations, folder_above, own_places
from icepack.domain.ports.queue import CachedTable, TableCache
from icepack.errors import IcepackError

log = logging.getLogger(__name__)


class Neighbours:
    """Adds to what the catalogs tell what the table cache remembers."""

    def __init__(self, look: Callable[[], TableLocations], cache: Callable[[], TableCache]) -> None:
        self._look = look
        self._cache = cache

    def locations(self) -> TableLocations:
        found = self._look()
        return replace(found, assumed=tuple(self._remembered(item) for item in found.assumed))

    def _remembered(self, item: AssumedLocations) -> AssumedLocations:
        """Of a table, besides what its catalog tells. Of a catalog, its tables' own places, and not its warehouse:

        other catalogs may keep tables there, and a table made since is told by its metadata files.
        """
        try:
            places = tuple(dict.fromkeys(place for cached in self._cached(item) for place in _places(cached)))
        except IcepackError as exc:
            log.warning("%s is not looked up in the table cache: %s", item.name, exc)
            return item
        if not places:
            return item
        if item.table is None:
            return replace(item, locations=places, basis="its tables' last known locations")
        together = tuple(dict.fromkeys((*item.locations, *places)))
        basis = f"{item.basis}, and its last known location" if item.locations else "its last known location"
        return replace(item, locations=together, basis=basis)

    def _cached(self, item: AssumedLocations) -> Iterator[CachedTable]:
        if item.table is None:
            yield from (cached for cached in self._cache().tables() if cached.table.catalog == item.catalog)
        elif (cached := self._cache().get(item.table)) is not None:
            yield cached


def _places(cached: CachedTable) -> tuple[str, ...]:
    status = cached.status
    return (*own_places(status.location, status.properties), folder_above(status.metadata_location))
