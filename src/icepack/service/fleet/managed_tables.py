"""The tables to be looked after, and what is still known of them while their catalog does not answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from icepack.domain.fleet import watched
from icepack.domain.table import TableId, TablePattern
from icepack.errors import CatalogFault

log = logging.getLogger(__name__)


class CatalogListing(Protocol):
    @property
    def catalog_names(self) -> tuple[str, ...]: ...

    def tables(self, catalog: str | None = None) -> list[TableId]: ...


class Census:
    """Lists catalogs at most every `good_for`: a new table is met that much later at worst."""

    def __init__(
        self,
        listing: CatalogListing,
        known: Callable[[], Sequence[TableId]],
        *,
        named: Sequence[TablePattern] = (),
        good_for: timedelta = timedelta(minutes=5),
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listing = listing
        self._known = known
        self._named = named
        self._good_for_seconds = good_for.total_seconds()
        self._elapsed_seconds = elapsed_seconds
        self._found: dict[str, list[TableId]] = {}
        self._asked_at: float | None = None

    def tables(self) -> list[TableId]:
        now = self._elapsed_seconds()
        if self._asked_at is None or now - self._asked_at >= self._good_for_seconds:
            self._asked_at = now if self._ask() else None
        return [table for name in self._listing.catalog_names for table in self._found.get(name, ())]

    def _ask(self) -> bool:
        """Whether every catalog answered; one that did not is taken as it was."""
        silent = [name for name in self._listing.catalog_names if not self._ask_one(name)]
        forgotten = [name for name in silent if name not in self._found]
        if forgotten:
            for table in watched(self._known(), self._named):
                if table.catalog in forgotten:
                    self._found.setdefault(table.catalog, []).append(table)
        return not silent

    def _ask_one(self, name: str) -> bool:
        try:
            self._found[name] = watched(self._listing.tables(name), self._named)
        except CatalogFault as exc:
            log.warning("the tables of catalog '%s' are taken as they were: %s", name, exc)
            return False
        return True
