"""Opens the configured PyIceberg catalogs by name, on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from icepack.catalog.errors import wrap_catalog_errors, wrap_table_errors
from icepack.domain.table import TableId
from icepack.errors import CatalogFault, ConfigError, TableNotFound, TableUnreadable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


class Catalogs:
    """The configured catalogs; error messages name the catalog and never contain its secrets."""

    def __init__(self, properties: Mapping[str, Mapping[str, str]]) -> None:
        self._properties = properties
        self._opened: dict[str, Catalog] = {}
        self._lock = Lock()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self._properties)

    def properties_of(self, name: str) -> Mapping[str, str]:
        return self._properties[name]

    def open(self, name: str) -> Catalog:
        """Creates the client of the catalog; a REST or Glue server may not be contacted before its first use."""
        if name not in self._properties:
            raise ConfigError(f"Unknown catalog '{name}'.", f"Configured catalogs: {', '.join(self.names) or 'none'}.")
        with self._lock:
            if name not in self._opened:
                with wrap_catalog_errors(name):
                    self._opened[name] = _load(name, self._properties[name])
            return self._opened[name]

    def load(self, table: TableId) -> Table:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        catalog = self.open(table.catalog)
        with wrap_table_errors(table):
            try:
                return catalog.load_table((*table.namespace, table.name))
            except (NoSuchTableError, NoSuchNamespaceError) as exc:
                if _is_listed(catalog, table):
                    raise _missing_metadata_error(table) from exc
                raise TableNotFound(f"Table {table} does not exist.", "`icepack tables` lists the tables.") from exc


def _is_listed(catalog: Catalog, table: TableId) -> bool:
    try:
        return (*table.namespace, table.name) in [tuple(found) for found in catalog.list_tables(table.namespace)]
    except Exception:
        return False


def _missing_metadata_error(table: TableId) -> TableUnreadable:
    """A REST catalog also answers "not found" for a listed table whose metadata file is missing."""
    return TableUnreadable(
        f"Cannot read the metadata of {table}: the catalog lists the table but does not find its metadata file.",
        "Restore the metadata file, or drop the table from the catalog. Other tables are not affected.",
    )


def _load(name: str, properties: Mapping[str, str]) -> Catalog:
    from pyiceberg.catalog import load_catalog

    from icepack.catalog.variant import register_variant_type

    register_variant_type()
    sqlite_file = _sqlite_file(properties)
    if sqlite_file is not None and not sqlite_file.parent.is_dir():
        raise CatalogFault(
            f"Catalog '{name}': the folder {sqlite_file.parent} does not exist.",
            "Correct the catalog's uri, or create the folder.",
        )
    return load_catalog(name, **properties)


def _sqlite_file(properties: Mapping[str, str]) -> Path | None:
    uri = properties.get("uri", "")
    if not uri.startswith("sqlite:///"):
        return None
    return Path(unquote(urlparse(uri).path[1:]))
