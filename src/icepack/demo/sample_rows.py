"""Generates realistic sample rows, reproducible by seed."""

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


class RandomData:
    """Random columns from one seed; every call returns different values."""

    def __init__(self, seed: int) -> None:
        self._seed = seed * 100_003

    def numbers(self, count: int, low: int, high: int) -> pa.Array:
        """Returns whole numbers from `low` up to, but not including, `high`."""
        self._seed += 1
        scaled = pc.multiply(pc.random(count, initializer=self._seed), float(high - low))
        return pc.add(pc.cast(pc.floor(scaled), pa.int64()), low)

    def amounts(self, count: int, low: int, high: int) -> pa.Array:
        """Returns numbers with two decimals."""
        return pc.divide(pc.cast(self.numbers(count, low * 100, high * 100), pa.float64()), 100.0)

    def picks(self, count: int, values: Sequence[str]) -> pa.Array:
        return pa.array(values).take(self.numbers(count, 0, len(values)))

    def timestamps(self, count: int, start: datetime, end: datetime) -> pa.Array:
        """Returns timestamps from `start` up to, but not including, `end`."""
        micros = self.numbers(count, int(start.timestamp() * 1e6), int(end.timestamp() * 1e6))
        return pc.cast(micros, pa.timestamp("us", "UTC"))


# Generates rows of one partition and period. The arguments are the random data, the number of rows, the first id, the
# partition value, and the start and end of the period.
RowGenerator = Callable[[RandomData, int, int, str, datetime, datetime], pa.Table]


def _ids(first: int, count: int) -> pa.Array:
    return pa.array(range(first, first + count), pa.int64())


def _repeat(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)


def page_views(
    random_data: RandomData, count: int, first: int, country: str, start: datetime, end: datetime
) -> pa.Table:
    return pa.table(
        {
            "view_id": _ids(first, count),
            "viewed_at": random_data.timestamps(count, start, end),
            "country": _repeat(country, count),
            "visitor": random_data.numbers(count, 1, 50_000),
            "page": random_data.picks(count, _PAGES),
            "milliseconds": random_data.numbers(count, 40, 9_000),
        }
    )


def orders(random_data: RandomData, count: int, first: int, region: str, start: datetime, end: datetime) -> pa.Table:
    return pa.table(
        {
            "order_id": _ids(first, count),
            "ordered_at": random_data.timestamps(count, start, end),
            "region": _repeat(region, count),
            "customer": random_data.numbers(count, 1, 20_000),
            "status": random_data.picks(count, _STATUSES),
            "amount": random_data.amounts(count, 3, 900),
        }
    )


def customers(random_data: RandomData, count: int) -> pa.Table:
    names = pc.binary_join_element_wise(
        random_data.picks(count, _FIRST_NAMES), random_data.picks(count, _LAST_NAMES), " "
    )
    return pa.table(
        {
            "customer_id": _ids(1, count),
            "name": names,
            "country": random_data.picks(count, COUNTRIES),
            "tier": random_data.picks(count, _TIERS),
            "credit": random_data.amounts(count, 0, 5_000),
        }
    )


def payments(random_data: RandomData, count: int, first: int, office: str, start: datetime, end: datetime) -> pa.Table:
    return pa.table(
        {
            "payment_id": _ids(first, count),
            "paid_at": random_data.timestamps(count, start, end),
            "office": _repeat(office, count),
            "currency": random_data.picks(count, _CURRENCIES),
            "method": random_data.picks(count, _METHODS),
            "amount": random_data.amounts(count, 1, 2_000),
        }
    )


def shipments(
    random_data: RandomData, count: int, first: int, carrier: str, start: datetime, end: datetime
) -> pa.Table:
    return pa.table(
        {
            "shipment_id": _ids(first, count),
            "shipped_at": random_data.timestamps(count, start, end),
            "carrier": _repeat(carrier, count),
            "order_id": random_data.numbers(count, 1, 200_000),
            "kilograms": random_data.amounts(count, 0, 40),
        }
    )


def sensor_readings(random_data: RandomData, count: int, start: datetime, end: datetime) -> pa.Table:
    return pa.table(
        {
            "sensor": random_data.numbers(count, 1, 400),
            "read_at": random_data.timestamps(count, start, end),
            "celsius": random_data.amounts(count, -15, 45),
            "humidity": random_data.amounts(count, 10, 100),
            "battery": random_data.amounts(count, 2, 5),
        }
    )


def products(random_data: RandomData, count: int, first: int) -> pa.Table:
    return pa.table(
        {
            "product_id": _ids(first, count),
            "category": random_data.picks(count, _CATEGORIES),
            "price": random_data.amounts(count, 2, 400),
            "stock": random_data.numbers(count, 0, 900),
        }
    )


def sessions(
    random_data: RandomData, count: int, first: int, platform: str, start: datetime, end: datetime
) -> pa.Table:
    return pa.table(
        {
            "session_id": _ids(first, count),
            "started_at": random_data.timestamps(count, start, end),
            "platform": _repeat(platform, count),
            "visitor": random_data.numbers(count, 1, 50_000),
            "seconds": random_data.numbers(count, 1, 3_600),
        }
    )
