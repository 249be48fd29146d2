"""PyIceberg catalogs by name, opened when first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from icepack.domain.table import TableId
from icepack.errors import CatalogFault, ConfigError, IcepackError, TableNotFound, redact

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


class Catalogs:
    """The configured catalogs; a fault names the catalog and never its secrets."""

    def __init__(self, properties: Mapping[str, Mapping[str, str]]) -> None:
        self._properties = properties
        self._opened: dict[str, Catalog] = {}
        self._lock = Lock()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self._properties)

    def open(self, name: str) -> Catalog:
        """The catalog of that name; opening is not yet reaching."""
        if name not in self._properties:
            raise ConfigError(f"There is no catalog '{name}'.", f"Configured: {', '.join(self.names) or 'none'}.")
        with self._lock:
            if name not in self._opened:
                with catalog_faults(name):
                    self._opened[name] = _load(name, self._properties[name])
            return self._opened[name]

    def load(self, table: TableId) -> Table:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        catalog = self.open(table.catalog)
        with catalog_faults(table.catalog):
            try:
                return catalog.load_table((*table.namespace, table.name))
            except (NoSuchTableError, NoSuchNamespaceError) as exc:
                raise TableNotFound(f"There is no table {table}.", "`icepack tables` lists what there is.") from exc


def _load(name: str, properties: Mapping[str, str]) -> Catalog:
    from pyiceberg.catalog import load_catalog

    from icepack.catalog.variant import teach_variant

    teach_variant()
    sqlite_file = _sqlite_file(properties)
    if sqlite_file is not None and not sqlite_file.parent.is_dir():
        raise CatalogFault(
            f"Catalog '{name}': the folder {sqlite_file.parent} does not exist.",
            "Correct the catalog's uri, or make the folder.",
        )
    return load_catalog(name, **properties)


def _sqlite_file(properties: Mapping[str, str]) -> Path | None:
    uri = properties.get("uri", "")
    if not uri.startswith("sqlite:///"):
        return None
    return Path(unquote(urlparse(uri).path[1:]))


@contextmanager
def catalog_faults(name: str) -> Iterator[None]:
    """Turns whatever a catalog or its storage raises into one sentence, keeping the cause."""
    try:
        yield
    except IcepackError:
        raise
    except Exception as exc:
        raise CatalogFault(
            f"Catalog '{name}' did not answer: {type(exc).__name__}: {_first_line(exc)}",
            "`icepack doctor` checks the connection.",
        ) from exc


def _first_line(exc: Exception) -> str:
    return redact((str(exc).strip().splitlines() or ["no message"])[0][:300])
