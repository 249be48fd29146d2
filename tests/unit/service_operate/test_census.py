"""Which tables there are to look after, also while a catalog sleeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event

import pytest

from icepack.domain.table import TableId, TablePattern
from icepack.errors import CatalogFault, ConfigError
from icepack.service.fleet.managed_tables import Census
from icepack.service.loop import repeat, spread
from icepack.service.retry import Backoff

from .parts import HOUR, ITEMS, ORDERS, table

FAR = table("far", "deep", "other")
INTERNAL = table("_internal")


@dataclass
class Listing:
    found: list[TableId]
    catalog_names: tuple[str, ...] = ("lake", "other")
    silent: set[str] = field(default_factory=set)
    asked: int = 0

    def tables(self, catalog: str | None = None) -> list[TableId]:
        self.asked += 1
        if catalog in self.silent:
            raise CatalogFault("It sleeps.")
        return [name for name in self.found if name.catalog == catalog]


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def census(listing: Listing, known: list[TableId] | None = None, **facts: object) -> tuple[Census, Seconds]:
    seconds = Seconds()
    return Census(listing, lambda: known or [], elapsed_seconds=seconds, **facts), seconds  # type: ignore[arg-type]


def test_catalogs_are_asked_every_few_minutes_only() -> None:
    listing = Listing([ORDERS, FAR, INTERNAL])
    found, seconds = census(listing)
    assert found.tables() == found.tables() == [ORDERS, FAR]
    assert listing.asked == 2
    listing.found.append(ITEMS)
    seconds.now = 300
    assert found.tables() == [ORDERS, ITEMS, FAR]


def test_an_internal_table_counts_when_it_is_named() -> None:
    found, _ = census(Listing([INTERNAL]), named=[TablePattern.parse("_internal")])
    assert found.tables() == [INTERNAL]


def test_a_catalog_that_sleeps_is_taken_as_it_was_and_asked_again_soon() -> None:
    listing = Listing([ORDERS, FAR])
    found, seconds = census(listing)
    found.tables()
    listing.silent = {"lake"}
    listing.found = [FAR]
    seconds.now = 300
    assert found.tables() == [ORDERS, FAR]
    listing.silent = set()
    assert found.tables() == [FAR]


def test_of_a_catalog_that_never_answered_the_cache_knows_the_tables() -> None:
    found, _ = census(Listing([FAR], silent={"lake"}), known=[ORDERS, INTERNAL, FAR])
    assert found.tables() == [ORDERS, FAR]
    assert found.tables() == [ORDERS, FAR]


def test_answers_come_in_the_order_of_the_items() -> None:
    assert spread(lambda number: number * 2, list(range(50)), 4) == [number * 2 for number in range(50)]
    assert spread(str, [], 4) == []


def test_the_first_exception_ends_the_work() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise KeyError(number)
        return number

    with pytest.raises(KeyError):
        spread(work, list(range(50)), 4)


def test_a_loop_goes_on_after_anything_but_a_wrong_configuration() -> None:
    faults: list[Exception] = [ValueError("odd"), CatalogFault("It sleeps."), ConfigError("wrong")]
    told: list[str] = []

    def step() -> None:
        raise faults.pop(0)

    with pytest.raises(ConfigError):
        repeat(step, every=HOUR, stop=Event(), tell=told.append, backoff=Backoff(first_seconds=0.001))
    assert told == ["Unexpected ValueError: odd", "It sleeps."]
