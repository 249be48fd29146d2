"""Finds every table of every catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from icepack.catalog.catalog import Catalogs, catalog_faults
from icepack.domain.locations import OWN_PATH_PROPERTIES
from icepack.domain.table import TableId

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

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

    def exists(self, table: TableId) -> bool:
        if table.catalog not in self._catalogs.names:
            return False
        opened = self._catalogs.open(table.catalog)
        with catalog_faults(table.catalog):
            return bool(opened.table_exists((*table.namespace, table.name)))

    def locations(self) -> Mapping[TableId, tuple[str, ...]]:
        """Read from each table's metadata: a table that cannot be read stops the listing, for it might be anywhere."""
        tables = self.tables()
        with ThreadPoolExecutor(LOADERS) as pool:
            found = pool.map(lambda table: _places(self._catalogs.load(table)), tables)
            return dict(zip(tables, found, strict=True))

    def _tables_of(self, name: str) -> Iterator[TableId]:
        catalog = self._catalogs.open(name)
        with catalog_faults(name):
            for namespace in _namespaces(catalog):
                for identifier in catalog.list_tables(namespace):
                    yield TableId(name, tuple(identifier[:-1]), identifier[-1])


def _places(table: Table) -> tuple[str, ...]:
    own = (table.properties[key] for key in OWN_PATH_PROPERTIES if key in table.properties)
    return (table.location(), *own)


def _namespaces(catalog: Catalog, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for found in catalog.list_namespaces(parent) if parent else catalog.list_namespaces():
        namespace = tuple(found)
        if len(namespace) > len(parent):
            yield namespace
            yield from _namespaces(catalog, namespace)
