"""Generates rows from a seed: file number `n` of a shape is the same on every machine and in every run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa

SEED = 7
FIRST_MICROSECOND = 1_700_000_000_000_000
MICROSECONDS_PER_DAY = 86_400_000_000
WIDE_COLUMNS = 250

Rng = np.random.Generator
# Generates a table from the number of the file and the number of rows.
TableGenerator = Callable[[int, int], pa.Table]


def events(number: int, rows: int) -> pa.Table:
    """Fourteen columns of a web shop: skewed keys, few countries, long addresses, prices."""
    rng = _rng(number, 1)
    at = _timestamps(rng, number, rows)
    return pa.table(
        {
            "id": np.arange(number * rows, (number + 1) * rows),
            "user_id": np.minimum(rng.zipf(1.3, rows), 1_000_000),
            "event_time": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "event_date": pa.array((at // MICROSECONDS_PER_DAY).astype("int32")).cast(pa.date32()),
            "country": _words("C{:03d}", 200).take(_skewed(rng, 1.5, 200, rows)),
            "city": _words("city-{:05d}", 5_000).take(_skewed(rng, 1.3, 5_000, rows)),
            "url": _words("https://shop.example/item/{:07d}?ref=a", 500_000).take(_skewed(rng, 1.2, 500_000, rows)),
            "agent": _words("Mozilla/5.0 (device {0}; build {0}) Engine/7.0", 300).take(_uniform(rng, 300, rows)),
            "status": _words("state-{}", 8).take(_uniform(rng, 8, rows)),
            "price": rng.integers(100, 10_000, rows) / 100,
            "latitude": np.round(rng.normal(50, 3, rows), 4),
            "quantity": rng.integers(1, 20, rows, dtype=np.int32),
            "is_mobile": rng.random(rows) < 0.6,
            "amount": _decimals(rng.integers(0, 200_000, rows)),
        }
    )


def wide(number: int, rows: int) -> pa.Table:
    """250 columns: mostly numbers and short codes, some of them mostly null."""
    rng = _rng(number, 2)
    kinds = (_code, _measure, _count, _flag, _mostly_null)
    columns = {f"c{position:03d}": kinds[position % len(kinds)](rng, rows) for position in range(WIDE_COLUMNS - 1)}
    return pa.table({"id": np.arange(number * rows, (number + 1) * rows), **columns})


def nested(number: int, rows: int) -> pa.Table:
    """Structs, lists, lists of structs and maps, including null and empty ones."""
    rng = _rng(number, 3)
    return pa.table(
        {
            "id": np.arange(number * rows, (number + 1) * rows),
            "customer": _customer(rng, rows),
            "tags": _lists(rng, rows, 4, lambda count: _words("tag-{:03d}", 400).take(_skewed(rng, 1.4, 400, count))),
            "lines": _lists(rng, rows, 5, lambda count: _line(rng, count)),
            "scores": _lists(rng, rows, 3, lambda count: pa.array(rng.normal(0, 1, count))),
            "labels": _labels(rng, rows),
        }
    )


def _rng(number: int, shape: int) -> Rng:
    return np.random.default_rng((SEED, shape, number))


def _timestamps(rng: Rng, number: int, rows: int) -> np.ndarray:
    return FIRST_MICROSECOND + number * rows * 1500 + np.cumsum(rng.integers(0, 3000, rows))


@cache
def _words(pattern: str, count: int) -> pa.Array:
    return pa.array([pattern.format(number) for number in range(count)])


def _skewed(rng: Rng, exponent: float, count: int, rows: int) -> pa.Array:
    return pa.array(np.minimum(rng.zipf(exponent, rows) - 1, count - 1))


def _uniform(rng: Rng, count: int, rows: int) -> pa.Array:
    return pa.array(rng.integers(0, count, rows))


def _decimals(cents: np.ndarray) -> pa.Array:
    """Builds decimals from their two eight-byte words."""
    words = np.zeros((len(cents), 2), "int64")
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(words)])


def _code(rng: Rng, rows: int) -> pa.Array:
    return _words("k{:03d}", 300).take(_skewed(rng, 1.4, 300, rows))


def _measure(rng: Rng, rows: int) -> pa.Array:
    return pa.array(np.round(rng.normal(100, 15, rows), 2))


def _count(rng: Rng, rows: int) -> pa.Array:
    return pa.array(rng.zipf(1.6, rows).clip(0, 100_000))


def _flag(rng: Rng, rows: int) -> pa.Array:
    return pa.array(rng.random(rows) < 0.1)


def _mostly_null(rng: Rng, rows: int) -> pa.Array:
    return pa.array(rng.integers(0, 1000, rows, dtype=np.int32), mask=rng.random(rows) < 0.9)


def _customer(rng: Rng, rows: int) -> pa.Array:
    parts = [
        pa.array(np.minimum(rng.zipf(1.3, rows), 1_000_000)),
        _words("name {:05d}", 20_000).take(_uniform(rng, 20_000, rows)),
        pa.StructArray.from_arrays(
            [_words("city-{:05d}", 5_000).take(_uniform(rng, 5_000, rows)), pa.array(rng.normal(50, 3, rows))],
            ["city", "latitude"],
        ),
    ]
    return pa.StructArray.from_arrays(parts, ["id", "name", "place"], mask=pa.array(rng.random(rows) < 0.05))


def _lists(rng: Rng, rows: int, longest: int, values: Callable[[int], pa.Array]) -> pa.Array:
    """Builds lists of random length, including empty ones; one in twenty is null."""
    offsets = _offsets(rng, rows, longest)
    return pa.ListArray.from_arrays(offsets, values(offsets[-1].as_py()), mask=pa.array(rng.random(rows) < 0.05))


def _offsets(rng: Rng, rows: int, longest: int) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(rng.integers(0, longest + 1, rows))]).astype("int32"))


def _line(rng: Rng, rows: int) -> pa.Array:
    parts = [
        _words("sku-{:06d}", 50_000).take(_skewed(rng, 1.2, 50_000, rows)),
        pa.array(rng.integers(1, 9, rows, dtype=np.int32)),
        pa.array(rng.integers(100, 10_000, rows) / 100),
    ]
    return pa.StructArray.from_arrays(parts, ["sku", "quantity", "price"])


def _labels(rng: Rng, rows: int) -> pa.Array:
    """Builds maps with unique keys: the keys of each map are numbered from 0."""
    offsets = _offsets(rng, rows, 3)
    count = offsets[-1].as_py()
    lengths = np.diff(offsets.to_numpy())
    position = np.arange(count) - np.repeat(offsets.to_numpy()[:-1], lengths)
    return pa.MapArray.from_arrays(
        offsets,
        _words("label-{}", 3).take(pa.array(position)),
        _words("value-{:04d}", 2_000).take(_uniform(rng, 2_000, count)),
    )


SHAPES: dict[str, TableGenerator] = {"events": events, "wide": wide, "nested": nested}
