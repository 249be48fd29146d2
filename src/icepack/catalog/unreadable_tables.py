"""Estimates the storage locations of tables whose metadata cannot be read.

Orphan file removal must not search these locations. They are derived from the catalog's records and from the parts of
the metadata that are still readable.
"""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from icepack.catalog.catalog import Catalogs
from icepack.domain.locations import (
    AssumedLocations,
    default_locations,
    infer_table_location,
    is_location,
    list_table_locations,
    namespace_folders,
)
from icepack.domain.table import TableId

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)


class UnreadableTableLocator:
    """Estimates locations, and states what each estimate is based on; `known` has those of the readable tables."""

    def __init__(self, catalogs: Catalogs, known: Mapping[TableId, tuple[str, ...]]) -> None:
        self._catalogs = catalogs
        self._known = known

    def locate_table(self, table: TableId, reason: str) -> AssumedLocations:
        """Uses the metadata files recorded in the catalog, or else the locations where the catalog creates tables."""
        catalog = self._catalogs.open(table.catalog)
        recorded = _ignore_errors(lambda: _recorded_metadata_locations(catalog, table))
        folders = [infer_table_location(location) for location in recorded]
        found = [_ignore_errors(partial(_locations_in_metadata, catalog, location)) for location in recorded]
        in_metadata = [location for locations in found for location in locations]
        locations, basis = (*in_metadata, *folders), "the metadata files recorded in its catalog"
        if not in_metadata and not any(location.rpartition("/")[0].endswith("/metadata") for location in recorded):
            locations, basis = (*folders, *self._default_locations(catalog, table)), "its catalog's default locations"
        return AssumedLocations(
            catalog=table.catalog,
            table=table,
            reason=reason,
            locations=tuple(dict.fromkeys(locations)),
            basis=basis if locations else "nothing",
        )

    def locate_catalog(self, name: str, reason: str) -> AssumedLocations:
        """Uses the whole configured warehouse, because the tables of the catalog cannot be listed."""
        warehouse = self._catalogs.properties_of(name).get("warehouse", "")
        is_configured = is_location(warehouse)
        return AssumedLocations(
            catalog=name,
            table=None,
            reason=reason,
            locations=(warehouse,) if is_configured else (),
            basis="its configured warehouse" if is_configured else "nothing",
        )

    def _default_locations(self, catalog: Catalog, table: TableId) -> tuple[str, ...]:
        own = _ignore_errors(lambda: [str(catalog.load_namespace_properties(table.namespace).get("location", ""))])
        warehouse = catalog.properties.get("warehouse", "")
        folders = [*(folder for folder in own if folder), *namespace_folders(table, self._known)]
        return default_locations(table, [warehouse] if is_location(warehouse) else [], folders)


def _ignore_errors(read_locations: Callable[[], Iterable[str]]) -> list[str]:
    """Returns an empty list on errors, which are expected because the table is damaged."""
    try:
        return list(read_locations())
    except Exception as exc:
        log.info("could not read the locations of an unreadable table: %s", exc)
        return []


def _recorded_metadata_locations(catalog: Catalog, table: TableId) -> Iterator[str]:
    """The current and the previous metadata location in a SQL catalog; other catalogs do not expose them."""
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import select

    if not isinstance(catalog, SqlCatalog):
        return
    columns = (IcebergTables.metadata_location, IcebergTables.previous_metadata_location)
    query = select(*columns).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == ".".join(table.namespace),
        IcebergTables.table_name == table.name,
    )
    with catalog.engine.connect() as connection:
        for row in connection.execute(query):
            yield from (location for location in row if location)


def _locations_in_metadata(catalog: Catalog, metadata_location: str) -> tuple[str, ...]:
    """Reads the locations from the JSON itself, so that it works for metadata that PyIceberg does not support."""
    from pyiceberg.io import load_file_io

    io = load_file_io(properties=dict(catalog.properties), location=metadata_location)
    with io.new_input(metadata_location).open() as stream:
        body = stream.read()
    content = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
    return list_table_locations(content["location"], content.get("properties") or {})
