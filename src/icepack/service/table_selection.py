"""Finds the tables that a user names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from icepack.domain.ports.catalog import DiscoveredTables, Discovery
from icepack.domain.table import TableId, TablePattern, is_internal, select_tables
from icepack.errors import CatalogFault, TableNotFound


def parse_full_name(text: str) -> TableId | None:
    """Parses a name that has a catalog and a namespace and is no glob; returns None for any other."""
    pattern = TablePattern.parse(text)
    if pattern.is_glob or len(pattern.parts) < 3:
        return None
    parts = pattern.plain_parts
    return TableId(parts[0], parts[1:-1], parts[-1])


class TableSelector:
    """Selects tables by name or glob from the catalogs."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    def discover(self, patterns: Sequence[str] = (), *, include_internal: bool = False) -> DiscoveredTables:
        """Returns the tables that match the patterns, and the catalogs that did not answer.

        Without patterns it returns all tables that are not internal. Raises CatalogFault if no catalog answers.
        """
        exact = [self._find_by_full_name(pattern) for pattern in patterns]
        if patterns and all(table is not None for table in exact):
            return DiscoveredTables(tables=tuple(dict.fromkeys(table for table in exact if table is not None)))
        found = _check_answered(self._discovery.discover())
        selected = self._select(patterns, found) if patterns else list(found.tables)
        names = [pattern for pattern in map(TablePattern.parse, patterns) if not pattern.is_glob]
        shown = [
            table
            for table in selected
            if not is_internal(table) or include_internal or any(name.matches(table) for name in names)
        ]
        return replace(found, tables=tuple(shown))

    def find(self, name: str, catalog: str | None = None) -> TableId:
        """Returns the one table that a name means, in one catalog or in all.

        Raises CatalogFault if a catalog does not answer: a short name might otherwise be taken for a table of another
        catalog.
        """
        found = self._find_by_full_name(name)
        if found is not None:
            return found
        try:
            return select_tables([name], self._discovery.tables(catalog))[0]
        except CatalogFault as exc:
            raise CatalogFault(
                exc.message, f"{exc.remedy} A full name (catalog.namespace.table) is found without it."
            ) from exc

    def _select(self, patterns: Sequence[str], found: DiscoveredTables) -> list[TableId]:
        try:
            return select_tables(patterns, found.tables)
        except TableNotFound as exc:
            if not found.silent_catalogs:
                raise
            raise CatalogFault(exc.message, " ".join(found.silent_catalogs.values())) from exc

    def _find_by_full_name(self, text: str) -> TableId | None:
        """Looks a full name up directly, because listing a large catalog takes long."""
        table = parse_full_name(text)
        return table if table is not None and self._discovery.exists(table) else None


def _check_answered(found: DiscoveredTables) -> DiscoveredTables:
    if found.silent_catalogs and not found.tables:
        raise CatalogFault(" ".join(found.silent_catalogs.values()))
    return found
