"""Which tables are managed, also while a catalog does not answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from icepack.domain.table import TableId, TablePattern
from icepack.errors import CatalogFault
from icepack.service.fleet.managed_tables import ManagedTables

from .fakes import ITEMS, ORDERS, table

FAR = table("far", "deep", "other")
INTERNAL = table("_internal")


@dataclass
class FakeCatalogs:
    found: list[TableId]
    catalog_names: tuple[str, ...] = ("lake", "other")
    silent: set[str] = field(default_factory=set)
    asked: int = 0

    def tables(self, catalog: str | None = None) -> list[TableId]:
        self.asked += 1
        if catalog in self.silent:
            raise CatalogFault("No answer.")
        return [name for name in self.found if name.catalog == catalog]


class FakeSeconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def build(
    catalogs: FakeCatalogs, known: list[TableId] | None = None, **facts: object
) -> tuple[ManagedTables, FakeSeconds]:
    seconds = FakeSeconds()
    return ManagedTables(catalogs, lambda: known or [], elapsed_seconds=seconds, **facts), seconds  # type: ignore[arg-type]


def test_catalogs_are_listed_every_few_minutes_only() -> None:
    catalogs = FakeCatalogs([ORDERS, FAR, INTERNAL])
    found, seconds = build(catalogs)
    assert found.tables() == found.tables() == [ORDERS, FAR]
    assert catalogs.asked == 2
    catalogs.found.append(ITEMS)
    seconds.now = 300
    assert found.tables() == [ORDERS, ITEMS, FAR]


def test_an_internal_table_is_managed_if_it_is_named() -> None:
    found, _ = build(FakeCatalogs([INTERNAL]), named=[TablePattern.parse("_internal")])
    assert found.tables() == [INTERNAL]


def test_a_silent_catalog_keeps_its_tables_and_is_asked_again() -> None:
    catalogs = FakeCatalogs([ORDERS, FAR])
    found, seconds = build(catalogs)
    found.tables()
    catalogs.silent = {"lake"}
    catalogs.found = [FAR]
    seconds.now = 300
    assert found.tables() == [ORDERS, FAR]
    catalogs.silent = set()
    assert found.tables() == [FAR]


def test_tables_of_a_catalog_that_never_answered_come_from_the_cache() -> None:
    found, _ = build(FakeCatalogs([FAR], silent={"lake"}), known=[ORDERS, INTERNAL, FAR])
    assert found.tables() == [ORDERS, FAR]
    assert found.tables() == [ORDERS, FAR]


def test_only_the_silent_catalog_is_asked_again() -> None:
    catalogs = FakeCatalogs([ORDERS, FAR], silent={"lake"})
    found, _ = build(catalogs)
    found.tables()
    assert catalogs.asked == 2
    found.tables()
    assert catalogs.asked == 3
