"""Believable rows, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

COUNTRIES = ("BR", "DE", "FR", "IN", "JP", "US")
REGIONS = ("apac", "emea", "latam", "north", "south", "west")
PLATFORMS = ("android", "ios", "tv", "web")
CARRIERS = ("aramex", "chronopost", "correos", "dhl", "dpd", "fedex", "postnl", "ups", "yamato")

_PAGES = ("/", "/cart", "/checkout", "/deals", "/help", "/product/1042", "/product/77", "/search", "/sign-in")
_FIRST_NAMES = ("Ada", "Amir", "Bruna", "Chen", "Dana", "Emeka", "Freya", "Goran", "Hana", "Ines", "Jonas", "Kiri")
_LAST_NAMES = ("Abe", "Berg", "Costa", "Diaz", "Evans", "Fofana", "Gupta", "Haas", "Ito", "Jensen", "Kaya", "Lopez")
_TIERS = ("basic", "basic", "basic", "silver", "gold")
_CURRENCIES = ("EUR", "EUR", "USD", "GBP", "JPY")
_METHODS = ("card", "card", "transfer", "wallet")
_STATUSES = ("placed", "paid", "packed", "shipped", "delivered")
_CATEGORIES = ("books", "garden", "kitchen", "outdoor", "toys")


class Dice:
    """Columns drawn from one seed; every draw differs from the one before."""

    def __init__(self, seed: int) -> None:
        self._draws = seed * 100_003

    def numbers(self, count: int, low: int, high: int) -> pa.Array:
        """Whole numbers from `low` up to but not including `high`."""
        self._draws += 1
        drawn = pc.multiply(pc.random(count, initializer=self._draws), float(high - low))
        return pc.add(pc.cast(pc.floor(drawn), pa.int64()), low)

    def amounts(self, count: int, low: int, high: int) -> pa.Array:
        """Numbers with two decimals."""
        return pc.divide(pc.cast(self.numbers(count, low * 100, high * 100), pa.float64()), 100.0)

    def picks(self, count: int, values: Sequence[str]) -> pa.Array:
        return pa.array(values).take(self.numbers(count, 0, len(values)))

    def moments(self, count: int, start: datetime, end: datetime) -> pa.Array:
        """Points in time from `start` up to but not including `end`."""
        micros = self.numbers(count, int(start.timestamp() * 1e6), int(end.timestamp() * 1e6))
        return pc.cast(micros, pa.timestamp("us", "UTC"))


Make = Callable[[Dice, int, int, str, datetime, datetime], pa.Table]
"""Makes so many rows of one partition and one span of time, with ids from the first one on."""


def _ids(first: int, count: int) -> pa.Array:
    return pa.array(range(first, first + count), pa.int64())


def _always(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)


def page_views(dice: Dice, count: int, first: int, country: str, start: datetime, end: datetime) -> pa.Table:
    return pa.table(
        {
            "view_id": _ids(first, count),
            "viewed_at": dice.moments(count, start, end),
            "country": _always(country, count),
            "visitor": dice.numbers(count, 1, 50_000),
            "page": dice.picks(count, _PAGES),
            "milliseconds": dice.numbers(count, 40, 9_000),
        }
    )


def orders(dice: Dice, count: int, first: int, region: str, start: datetime, end: datetime) -> pa.Table:
    return pa.table(
        {
            "order_id": _ids(first, count),
            "ordered_at": dice.moments(count, start, end),
            "region": _always(region, count),
            "customer": dice.numbers(count, 1, 20_000),
            "status": dice.picks(count, _STATUSES),
            "amount": dice.amounts(count, 3, 900),
        }
    )


def customers(dice: Dice, count: int) -> pa.Table:
    names = pc.binary_join_element_wise(dice.picks(count, _FIRST_NAMES), dice.picks(count, _LAST_NAMES), " ")
    return pa.table(
        {
            "customer_id": _ids(1, count),
            "name": names,
            "country": dice.picks(count, COUNTRIES),
            "tier": dice.picks(count, _TIERS),
            "credit": dice.amounts(count, 0, 5_000),
        }
    )


def payments(dice: Dice, count: int, first: int, office: str, start: datetime, end: datetime) -> pa.Table:
    return pa.table(
        {
            "payment_id": _ids(first, count),
            "paid_at": dice.moments(count, start, end),
            "office": _always(office, count),
            "currency": dice.picks(count, _CURRENCIES),
            "method": dice.picks(count, _METHODS),
            "amount": dice.amounts(count, 1, 2_000),
        }
    )


def shipments(dice: Dice, count: int, first: int, carrier: str, start: datetime, end: datetime) -> pa.Table:
    return pa.table(
        {
            "shipment_id": _ids(first, count),
            "shipped_at": dice.moments(count, start, end),
            "carrier": _always(carrier, count),
            "order_id": dice.numbers(count, 1, 200_000),
            "kilograms": dice.amounts(count, 0, 40),
        }
    )


def sensor_readings(dice: Dice, count: int, start: datetime, end: datetime) -> pa.Table:
    return pa.table(
        {
            "sensor": dice.numbers(count, 1, 400),
            "read_at": dice.moments(count, start, end),
            "celsius": dice.amounts(count, -15, 45),
            "humidity": dice.amounts(count, 10, 100),
            "battery": dice.amounts(count, 2, 5),
        }
    )


def products(dice: Dice, count: int, first: int) -> pa.Table:
    return pa.table(
        {
            "product_id": _ids(first, count),
            "category": dice.picks(count, _CATEGORIES),
            "price": dice.amounts(count, 2, 400),
            "stock": dice.numbers(count, 0, 900),
        }
    )


def sessions(dice: Dice, count: int, first: int, platform: str, start: datetime, end: datetime) -> pa.Table:
    return pa.table(
        {
            "session_id": _ids(first, count),
            "started_at": dice.moments(count, start, end),
            "platform": _always(platform, count),
            "visitor": dice.numbers(count, 1, 50_000),
            "seconds": dice.numbers(count, 1, 3_600),
        }
    )
