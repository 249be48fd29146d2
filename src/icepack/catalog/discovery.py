"""Lists the tables of the configured catalogs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from icepack.catalog.catalog import Catalogs
from icepack.catalog.errors import wrap_catalog_errors, wrap_table_errors
from icepack.catalog.unreadable_tables import UnreadableTableLocator
from icepack.domain.locations import TableLocations, list_table_locations
from icepack.domain.ports.catalog import DiscoveredTables
from icepack.domain.table import TableId
from icepack.errors import IcepackError, TableNotFound, TableUnreadable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog

log = logging.getLogger(__name__)

LOADER_THREADS = 8


class PolarisDiscovery:
    """Lists tables through PyIceberg, including those in nested namespaces.

    The name comes from the usual deployment: tables are listed from a Polaris REST catalog if one is configured, and
    from Glue otherwise. It works with every catalog that PyIceberg supports, SQL and Hive catalogs included.
    """

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
        failures: dict[str, str] = {}
        for name in self._catalogs.names:
            try:
                tables += self.tables(name)
            except IcepackError as exc:
                failures[name] = str(exc)
        return DiscoveredTables(tables=tuple(sorted(tables)), silent_catalogs=failures)

    def exists(self, table: TableId) -> bool:
        if table.catalog not in self._catalogs.names:
            return False
        opened = self._catalogs.open(table.catalog)
        try:
            with wrap_table_errors(table):
                return bool(opened.table_exists((*table.namespace, table.name)))
        except TableUnreadable:
            # Some catalogs check for a table by loading it; a table that cannot be read exists.
            return True

    def locations(self) -> TableLocations:
        """Reads the locations from each table's metadata; estimates those of unreadable tables and catalogs."""
        discovered = self.discover()
        tables, failures = discovered.tables, discovered.silent_catalogs
        with ThreadPoolExecutor(LOADER_THREADS) as pool:
            results = dict(zip(tables, pool.map(self._load_locations, tables), strict=True))
        known = {table: result for table, result in results.items() if isinstance(result, tuple)}
        errors = {table: result for table, result in results.items() if isinstance(result, IcepackError)}
        locator = UnreadableTableLocator(self._catalogs, known)
        assumed = [locator.locate_table(table, str(exc)) for table, exc in errors.items()]
        assumed += [locator.locate_catalog(name, reason) for name, reason in failures.items()]
        return TableLocations(known=known, assumed=tuple(assumed))

    def _load_locations(self, table: TableId) -> tuple[str, ...] | IcepackError | None:
        """Returns None for a table that was dropped after it was listed."""
        try:
            loaded = self._catalogs.load(table)
        except TableNotFound:
            return None
        except IcepackError as exc:
            return exc
        return list_table_locations(loaded.location(), loaded.properties)

    def metadata_locations(self, catalog: str) -> Mapping[TableId, str]:
        """Returns the current metadata location of each table; it changes with every commit.

        One query returns those of all tables in a SQL catalog. In other catalogs each table is loaded, several at a
        time; a table that cannot be loaded has an empty location.
        """
        from pyiceberg.catalog.sql import SqlCatalog

        opened = self._catalogs.open(catalog)
        if isinstance(opened, SqlCatalog):
            with wrap_catalog_errors(catalog):
                return dict(_query_metadata_locations(catalog, opened))
        tables = self.tables(catalog)
        with ThreadPoolExecutor(LOADER_THREADS) as pool:
            found = dict(zip(tables, pool.map(self._load_metadata_location, tables), strict=True))
        return {table: location for table, location in found.items() if location is not None}

    def _load_metadata_location(self, table: TableId) -> str | None:
        try:
            return self._catalogs.load(table).metadata_location
        except TableNotFound:
            return None
        except IcepackError as exc:
            log.warning("could not load table %s: %s", table, exc)
            return ""

    def _tables_of(self, name: str) -> Iterator[TableId]:
        catalog = self._catalogs.open(name)
        with wrap_catalog_errors(name):
            for namespace in _namespaces(catalog):
                for identifier in catalog.list_tables(namespace):
                    yield TableId(name, tuple(identifier[:-1]), identifier[-1])


def _query_metadata_locations(name: str, catalog: SqlCatalog) -> Iterator[tuple[TableId, str]]:
    """Applies the filter that PyIceberg lists tables with, so that views are left out."""
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    query = select(IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location)
    query = query.where(IcebergTables.catalog_name == catalog.name)
    only_tables = catalog._iceberg_type_filter()
    if only_tables is not None:
        query = query.where(only_tables)
    with catalog.engine.connect() as connection:
        for namespace, table, location in connection.execute(query):
            yield TableId(name, catalog.identifier_to_tuple(namespace), table), location or ""


def _namespaces(catalog: Catalog, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for found in catalog.list_namespaces(parent) if parent else catalog.list_namespaces():
        namespace = tuple(found)
        if len(namespace) > len(parent):
            yield namespace
            yield from _namespaces(catalog, namespace)
