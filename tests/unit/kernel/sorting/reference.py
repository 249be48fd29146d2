"""Reference implementations of sort orders and curves, and columns of every type to compare them on."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from icepack.kernel.sorting.sort_order import SortKey, SortOrder

SIGN = 1 << 63
CURVES = ("zorder", "hilbert")


def to_ordered_long(value: int) -> int:
    return value + SIGN


def to_ordered_double(value: float) -> int:
    (bits,) = struct.unpack(">Q", struct.pack(">d", math.nan if math.isnan(value) else value))
    return bits ^ ((1 << 64) - 1) if bits & SIGN else bits | SIGN


def pack_leading(value: bytes) -> int:
    return int.from_bytes(value[:8].ljust(8, b"\0"), "big")


def pack_characters(value: str) -> int:
    while len(value.encode()) > 8:
        value = value[:-1]
    return pack_leading(value.encode())


def float_key(value: float) -> tuple[bool, float]:
    return math.isnan(value), 0.0 if math.isnan(value) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCase:
    """A type with its values, their sort key, and their value on a curve."""

    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    sorts_as: Callable[[Any], Any]
    on_curve: Callable[[Any], int]


def longs(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-3, 3) | st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


TEXT = st.text(st.sampled_from("ab\0\x7fé߿ࠀ€￿😀"), max_size=12) | st.text(max_size=4)
TEXT |= st.builds(str.__add__, st.just("long prefix of many " * 5), st.text("ab\0", max_size=3))
BLOBS = st.binary(max_size=20) | st.builds(bytes.__add__, st.just(b"\xff\x00" * 40), st.binary(max_size=3))
FLOATS = (0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324)


def identity(value: Any) -> Any:
    return value


COLUMNS = {
    "boolean": ColumnCase(
        arrow=pa.bool_(), values=st.booleans(), sorts_as=identity, on_curve=lambda flag: 0x81 << 56 if flag else 0
    ),
    "int": ColumnCase(arrow=pa.int32(), values=longs(32), sorts_as=identity, on_curve=to_ordered_long),
    "long": ColumnCase(arrow=pa.int64(), values=longs(64), sorts_as=identity, on_curve=to_ordered_long),
    "float": ColumnCase(
        arrow=pa.float32(),
        values=st.sampled_from(FLOATS[:-1]) | st.floats(width=32),
        sorts_as=float_key,
        on_curve=to_ordered_double,
    ),
    "double": ColumnCase(
        arrow=pa.float64(), values=st.sampled_from(FLOATS) | st.floats(), sorts_as=float_key, on_curve=to_ordered_double
    ),
    "date": ColumnCase(arrow=pa.date32(), values=longs(32), sorts_as=identity, on_curve=to_ordered_long),
    "timestamp": ColumnCase(arrow=pa.timestamp("us"), values=longs(64), sorts_as=identity, on_curve=to_ordered_long),
    "timestamptz": ColumnCase(
        arrow=pa.timestamp("us", "UTC"),
        values=longs(64) | st.integers(-3_000_000, 3_000_000),
        sorts_as=identity,
        on_curve=lambda micros: to_ordered_long(micros // 1_000_000),
    ),
    "string": ColumnCase(arrow=pa.string(), values=TEXT, sorts_as=str.encode, on_curve=pack_characters),
    "uuid": ColumnCase(
        arrow=pa.uuid(),
        values=st.binary(min_size=16, max_size=16),
        sorts_as=identity,
        on_curve=lambda value: pack_leading(value.hex().encode()),
    ),
    "fixed[5]": ColumnCase(
        arrow=pa.binary(5), values=st.binary(min_size=5, max_size=5), sorts_as=identity, on_curve=pack_leading
    ),
    "binary": ColumnCase(arrow=pa.binary(), values=BLOBS, sorts_as=identity, on_curve=pack_leading),
}
SORT_ONLY = {
    "decimal(9,2)": (pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents) / 100)),
    "decimal(38,0)": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "time": (pa.time64("us"), st.integers(0, 86_399_999_999)),
    "timestamp_ns": (pa.timestamp("ns"), longs(64)),
    "timestamptz_ns": (pa.timestamp("ns", "UTC"), longs(64)),
}
FLAGS = st.tuples(st.booleans(), st.booleans())
SORTABLE = COLUMNS | {
    name: ColumnCase(arrow=arrow, values=values, sorts_as=identity, on_curve=identity)
    for name, (arrow, values) in SORT_ONLY.items()
}


def build_order(kind: Any, *flags: tuple[bool, bool]) -> SortOrder:
    keys = (SortKey(field_id=at, descending=flag[0], nulls_first=flag[1]) for at, flag in enumerate(flags))
    return SortOrder(kind=kind, keys=tuple(keys))


def default_order(kind: Any, columns: int) -> SortOrder:
    return build_order(kind, *[(False, True)] * columns)


def to_array(column: ColumnCase, values: Sequence[Any]) -> pa.Array:
    return pa.array(values, column.arrow)


def reference_sort(kinds: Sequence[ColumnCase], table: Sequence[Sequence[Any]], order: SortOrder) -> list[int]:
    rows = list(range(len(table[0])))
    for column, values, key in reversed(list(zip(kinds, table, order.keys, strict=True))):
        known = [row for row in rows if values[row] is not None]
        known.sort(key=lambda row: column.sorts_as(values[row]), reverse=key.descending)
        unknown = [row for row in rows if values[row] is None]
        rows = unknown + known if key.nulls_first else known + unknown
    return rows


def interleave(numbers: Sequence[int]) -> list[int]:
    return [number >> bit & 1 for bit in reversed(range(64)) for number in numbers]


def transpose(axes: list[int]) -> list[int]:
    """Skilling's transform for one point, bit by bit."""
    for bit in reversed(range(1, 64)):
        below = (1 << bit) - 1
        for at in range(len(axes)):
            if axes[at] >> bit & 1:
                axes[0] ^= below
            else:
                exchanged = (axes[0] ^ axes[at]) & below
                axes[0] ^= exchanged
                axes[at] ^= exchanged
    for at in range(1, len(axes)):
        axes[at] ^= axes[at - 1]
    odd = 0
    for bit in reversed(range(1, 64)):
        odd ^= (1 << bit) - 1 if axes[-1] >> bit & 1 else 0
    return [axis ^ odd for axis in axes]


def reference_curve(kind: str, numbers: Sequence[Sequence[int]]) -> list[int]:
    points = [list(point) for point in zip(*numbers, strict=True)]
    keys = [interleave(transpose(point) if kind == "hilbert" else point) for point in points]
    return sorted(range(len(keys)), key=keys.__getitem__)


@st.composite
def tables(draw: st.DrawFn, columns: dict[str, ColumnCase]) -> tuple[list[ColumnCase], list[list[Any]]]:
    kinds = [columns[name] for name in draw(st.lists(st.sampled_from(sorted(columns)), min_size=1, max_size=4))]
    count = draw(st.integers(0, 40))
    drawn = [draw(st.lists(st.none() | kind.values, min_size=1, max_size=max(1, count))) for kind in kinds]
    return kinds, [[draw(st.sampled_from(values)) for _ in range(count)] for values in drawn]


@st.composite
def single_columns(draw: st.DrawFn, column: ColumnCase) -> tuple[list[ColumnCase], list[list[Any]]]:
    return [column], [draw(st.lists(st.none() | column.values, max_size=20))]


def parametrize_tables(columns: dict[str, ColumnCase]) -> Any:
    """Each type by itself, then all of them together."""
    alone = [pytest.param(single_columns(column), id=name) for name, column in columns.items()]
    return pytest.mark.parametrize("tables", [*alone, pytest.param(tables(columns), id="together")])
