"""Where a table may lie that cannot be read: what its catalog, and what is left of its metadata, say of it."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from icepack.catalog.catalog import Catalogs
from icepack.domain.locations import (
    AssumedLocations,
    default_locations,
    folder_above,
    is_place,
    namespace_folders,
    own_places,
)
from icepack.domain.table import TableId

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)


class Whereabouts:
    """Assumes where tables lie, and says what from; `known` are the places of the tables that can be read."""

    def __init__(self, catalogs: Catalogs, known: Mapping[TableId, tuple[str, ...]]) -> None:
        self._catalogs = catalogs
        self._known = known

    def of_table(self, table: TableId, reason: str) -> AssumedLocations:
        """By the metadata files that the catalog has on record; where it tells of none, by where it puts tables."""
        catalog = self._catalogs.open(table.catalog)
        recorded = _quietly(lambda: _recorded(catalog, table))
        folders = [folder_above(location) for location in recorded]
        named = [place for location in recorded for place in _quietly(lambda at=location: _named_in(catalog, at))]
        places, basis = tuple(dict.fromkeys((*named, *folders))), "the metadata files that its catalog has on record"
        if not named and not any(location.rpartition("/")[0].endswith("/metadata") for location in recorded):
            places, basis = (*places, *self._default(catalog, table)), "the place where its catalog puts tables"
        return AssumedLocations(
            catalog=table.catalog,
            table=table,
            reason=reason,
            locations=tuple(dict.fromkeys(places)),
            basis=basis if places else "nothing",
        )

    def of_catalog(self, name: str, reason: str) -> AssumedLocations:
        """Its tables cannot even be listed: all of its warehouse, where the configuration says where that is."""
        warehouse = self._catalogs.properties_of(name).get("warehouse", "")
        known = is_place(warehouse)
        return AssumedLocations(
            catalog=name,
            table=None,
            reason=reason,
            locations=(warehouse,) if known else (),
            basis="its configured warehouse" if known else "nothing",
        )

    def _default(self, catalog: Catalog, table: TableId) -> tuple[str, ...]:
        own = _quietly(lambda: [str(catalog.load_namespace_properties(table.namespace).get("location", ""))])
        warehouse = catalog.properties.get("warehouse", "")
        folders = [*(folder for folder in own if folder), *namespace_folders(table, self._known)]
        return default_locations(table, [warehouse] if is_place(warehouse) else [], folders)


def _quietly(look: Any) -> list[str]:
    """What is asked here is of a damaged table: an error only means that there is nothing to learn."""
    try:
        return list(look())
    except Exception as exc:
        log.info("nothing to learn of an unreadable table: %s", exc)
        return []


def _recorded(catalog: Catalog, table: TableId) -> Iterator[str]:
    """The metadata locations, the current one first, that the catalog keeps beside the table's name."""
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import select

    if not isinstance(catalog, SqlCatalog):
        return
    columns = (IcebergTables.metadata_location, IcebergTables.previous_metadata_location)
    wanted = select(*columns).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == ".".join(table.namespace),
        IcebergTables.table_name == table.name,
    )
    with catalog.engine.connect() as connection:
        for row in connection.execute(wanted):
            yield from (location for location in row if location)


def _named_in(catalog: Catalog, metadata_location: str) -> tuple[str, ...]:
    """The places that a metadata file names, whatever else in it PyIceberg does not understand."""
    from pyiceberg.io import load_file_io

    io = load_file_io(properties=dict(catalog.properties), location=metadata_location)
    with io.new_input(metadata_location).open() as stream:
        body = stream.read()
    content = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
    return own_places(content["location"], content.get("properties") or {})
