"""Finds every table of every catalog."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from icepack.catalog.catalog import Catalogs
from icepack.catalog.errors import catalog_faults, table_faults
from icepack.catalog.unreadable_tables import Whereabouts
from icepack.domain.locations import TableLocations, own_places
from icepack.domain.ports.engine import DiscoveredTables
from icepack.domain.table import TableId
from icepack.errors import IcepackError, TableNotFound, TableUnreadable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog

log = logging.getLogger(__name__)

LOADERS = 8


class CatalogDiscovery:
    """Lists tables through PyIceberg, namespaces within namespaces included."""

    def __init__(self, catalogs: Catalogs) -> None:
        self._catalogs = catalogs

    @property
    def catalog_names(self) -> tuple[str, ...]:
        return self._catalogs.names

    def tables(self, catalog: str | None = None) -> list[TableId]:
        names = (catalog,) if catalog is not None else self._catalogs.names
        return sorted(table for name in names for table in self._tables_of(name))

    def discover(self) -> DiscoveredTables:
        tables: list[TableId] = []
        silent: dict[str, str] = {}
        for name in self._catalogs.names:
            try:
                tables += self.tables(name)
            except IcepackError as exc:
                silent[name] = str(exc)
        return DiscoveredTables(tables=tuple(sorted(tables)), silent_catalogs=silent)

    def exists(self, table: TableId) -> bool:
        if table.catalog not in self._catalogs.names:
            return False
        opened = self._catalogs.open(table.catalog)
        try:
            with table_faults(table):
                return bool(opened.table_exists((*table.namespace, table.name)))
        except TableUnreadable:
            # Some catalogs load a table to find out whether there is one; what cannot be read is there.
            return True

    def locations(self) -> TableLocations:
        """Read from each table's metadata; of a table that cannot be read, from what else the catalog has of it."""
        found = self.discover()
        tables, silent = found.tables, found.silent_catalogs
        with ThreadPoolExecutor(LOADERS) as pool:
            looked = dict(zip(tables, pool.map(self._places, tables), strict=True))
        known = {table: places for table, places in looked.items() if isinstance(places, tuple)}
        unread = {table: places for table, places in looked.items() if isinstance(places, IcepackError)}
        whereabouts = Whereabouts(self._catalogs, known)
        assumed = [whereabouts.of_table(table, str(exc)) for table, exc in unread.items()]
        silences = [whereabouts.of_catalog(name, reason) for name, reason in silent.items()]
        return TableLocations(known=known, assumed=(*assumed, *silences))

    def _places(self, table: TableId) -> tuple[str, ...] | IcepackError | None:
        """None for a table that was dropped since it was listed."""
        try:
            loaded = self._catalogs.load(table)
        except TableNotFound:
            return None
        except IcepackError as exc:
            return exc
        return own_places(loaded.location(), loaded.properties)

    def metadata_locations(self, catalog: str) -> Mapping[TableId, str]:
        """Where each table's metadata lies now: while it is the same, nothing has changed.

        A SQL catalog knows it for all tables in one query. Of other catalogs each table is loaded, several at a time;
        one that cannot be has no location.
        """
        from pyiceberg.catalog.sql import SqlCatalog

        opened = self._catalogs.open(catalog)
        if isinstance(opened, SqlCatalog):
            with catalog_faults(catalog):
                return dict(_sql_locations(catalog, opened))
        tables = self.tables(catalog)
        with ThreadPoolExecutor(LOADERS) as pool:
            found = dict(zip(tables, pool.map(self._location, tables), strict=True))
        return {table: location for table, location in found.items() if location is not None}

    def _location(self, table: TableId) -> str | None:
        try:
            return self._catalogs.load(table).metadata_location
        except TableNotFound:
            return None
        except IcepackError as exc:
            log.warning("%s could not be loaded: %s", table, exc)
            return ""

    def _tables_of(self, name: str) -> Iterator[TableId]:
        catalog = self._catalogs.open(name)
        with catalog_faults(name):
            for namespace in _namespaces(catalog):
                for identifier in catalog.list_tables(namespace):
                    yield TableId(name, tuple(identifier[:-1]), identifier[-1])


def _sql_locations(name: str, catalog: SqlCatalog) -> Iterator[tuple[TableId, str]]:
    """As PyIceberg lists tables, views left out."""
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    wanted = select(IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location)
    wanted = wanted.where(IcebergTables.catalog_name == catalog.name)
    only_tables = catalog._iceberg_type_filter()
    if only_tables is not None:
        wanted = wanted.where(only_tables)
    with catalog.engine.connect() as connection:
        for namespace, table, location in connection.execute(wanted):
            yield TableId(name, catalog.identifier_to_tuple(namespace), table), location or ""


def _namespaces(catalog: Catalog, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for found in catalog.list_namespaces(parent) if parent else catalog.list_namespaces():
        namespace = tuple(found)
        if len(namespace) > len(parent):
            yield namespace
            yield from _namespaces(catalog, namespace)
