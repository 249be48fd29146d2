"""Rows in order: against a sort of Python's, and against what Iceberg's own classes answered."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepack.kernel.arrow_schema import Uncovered
from icepack.kernel.sorting import sort_order
from icepack.kernel.sorting.sort_order import Order, SortKey, is_sortable, permutation

SIGN = 1 << 63
CURVES = ("zorder", "hilbert")


def _whole(value: int) -> int:
    return value + SIGN


def _double(value: float) -> int:
    (bits,) = struct.unpack(">Q", struct.pack(">d", math.nan if math.isnan(value) else value))
    return bits ^ ((1 << 64) - 1) if bits & SIGN else bits | SIGN


def _leading(value: bytes) -> int:
    return int.from_bytes(value[:8].ljust(8, b"\0"), "big")


def _characters(value: str) -> int:
    while len(value.encode()) > 8:
        value = value[:-1]
    return _leading(value.encode())


def _float(value: float) -> tuple[bool, float]:
    return math.isnan(value), 0.0 if math.isnan(value) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A type with its values, how they sort, and the number that a curve sees."""

    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    sorts_as: Callable[[Any], Any]
    on_curve: Callable[[Any], int]


def _longs(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-3, 3) | st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


TEXT = st.text(st.sampled_from("ab\0\x7fé߿ࠀ€￿😀"), max_size=12) | st.text(max_size=4)
TEXT |= st.builds(str.__add__, st.just("long prefix of many " * 5), st.text("ab\0", max_size=3))
BLOBS = st.binary(max_size=20) | st.builds(bytes.__add__, st.just(b"\xff\x00" * 40), st.binary(max_size=3))
FLOATS = (0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324)


def _as_is(value: Any) -> Any:
    return value


COLUMNS = {
    "boolean": Column(
        arrow=pa.bool_(), values=st.booleans(), sorts_as=_as_is, on_curve=lambda flag: 0x81 << 56 if flag else 0
    ),
    "int": Column(arrow=pa.int32(), values=_longs(32), sorts_as=_as_is, on_curve=_whole),
    "long": Column(arrow=pa.int64(), values=_longs(64), sorts_as=_as_is, on_curve=_whole),
    "float": Column(
        arrow=pa.float32(),
        values=st.sampled_from(FLOATS[:-1]) | st.floats(width=32),
        sorts_as=_float,
        on_curve=_double,
    ),
    "double": Column(
        arrow=pa.float64(), values=st.sampled_from(FLOATS) | st.floats(), sorts_as=_float, on_curve=_double
    ),
    "date": Column(arrow=pa.date32(), values=_longs(32), sorts_as=_as_is, on_curve=_whole),
    "timestamp": Column(arrow=pa.timestamp("us"), values=_longs(64), sorts_as=_as_is, on_curve=_whole),
    "timestamptz": Column(
        arrow=pa.timestamp("us", "UTC"),
        values=_longs(64) | st.integers(-3_000_000, 3_000_000),
        sorts_as=_as_is,
        on_curve=lambda micros: _whole(micros // 1_000_000),
    ),
    "string": Column(arrow=pa.string(), values=TEXT, sorts_as=str.encode, on_curve=_characters),
    "uuid": Column(
        arrow=pa.uuid(),
        values=st.binary(min_size=16, max_size=16),
        sorts_as=_as_is,
        on_curve=lambda value: _leading(value.hex().encode()),
    ),
    "fixed[5]": Column(
        arrow=pa.binary(5), values=st.binary(min_size=5, max_size=5), sorts_as=_as_is, on_curve=_leading
    ),
    "binary": Column(arrow=pa.binary(), values=BLOBS, sorts_as=_as_is, on_curve=_leading),
}
SORT_ONLY = {
    "decimal(9,2)": (pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents) / 100)),
    "decimal(38,0)": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "time": (pa.time64("us"), st.integers(0, 86_399_999_999)),
    "timestamp_ns": (pa.timestamp("ns"), _longs(64)),
    "timestamptz_ns": (pa.timestamp("ns", "UTC"), _longs(64)),
}
FLAGS = st.tuples(st.booleans(), st.booleans())
SORTABLE = COLUMNS | {
    name: Column(arrow=arrow, values=values, sorts_as=_as_is, on_curve=_as_is)
    for name, (arrow, values) in SORT_ONLY.items()
}


def _order(kind: Any, *flags: tuple[bool, bool]) -> Order:
    keys = (SortKey(field_id=at, descending=flag[0], nulls_first=flag[1]) for at, flag in enumerate(flags))
    return Order(kind=kind, keys=tuple(keys))


def _plain(kind: Any, columns: int) -> Order:
    return _order(kind, *[(False, True)] * columns)


def _array(column: Column, values: Sequence[Any]) -> pa.Array:
    return pa.array(values, column.arrow)


def _reference_sort(kinds: Sequence[Column], table: Sequence[Sequence[Any]], asked: Order) -> list[int]:
    rows = list(range(len(table[0])))
    for column, values, key in reversed(list(zip(kinds, table, asked.keys, strict=True))):
        known = [row for row in rows if values[row] is not None]
        known.sort(key=lambda row: column.sorts_as(values[row]), reverse=key.descending)
        unknown = [row for row in rows if values[row] is None]
        rows = unknown + known if key.nulls_first else known + unknown
    return rows


def _bits(numbers: Sequence[int]) -> list[int]:
    return [number >> bit & 1 for bit in reversed(range(64)) for number in numbers]


def _transposed(axes: list[int]) -> list[int]:
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


def _reference_curve(kind: str, numbers: Sequence[Sequence[int]]) -> list[int]:
    points = [list(point) for point in zip(*numbers, strict=True)]
    keys = [_bits(_transposed(point) if kind == "hilbert" else point) for point in points]
    return sorted(range(len(keys)), key=keys.__getitem__)


@st.composite
def _tables(draw: st.DrawFn, columns: dict[str, Column]) -> tuple[list[Column], list[list[Any]]]:
    kinds = [columns[name] for name in draw(st.lists(st.sampled_from(sorted(columns)), min_size=1, max_size=4))]
    count = draw(st.integers(0, 40))
    drawn = [draw(st.lists(st.none() | kind.values, min_size=1, max_size=max(1, count))) for kind in kinds]
    return kinds, [[draw(st.sampled_from(values)) for _ in range(count)] for values in drawn]


@st.composite
def _tables_of_one(draw: st.DrawFn, column: Column) -> tuple[list[Column], list[list[Any]]]:
    return [column], [draw(st.lists(st.none() | column.values, max_size=20))]


def _tables_of(columns: dict[str, Column]) -> Any:
    """Each type for itself, then all of them together."""
    alone = [pytest.param(_tables_of_one(column), id=name) for name, column in columns.items()]
    return pytest.mark.parametrize("tables", [*alone, pytest.param(_tables(columns), id="together")])


@_tables_of(SORTABLE)
@given(data=st.data())
@settings(deadline=None, max_examples=50)
def test_a_sort_is_that_of_a_plain_comparison(tables: Any, data: st.DataObject) -> None:
    kinds, values = data.draw(tables)
    asked = _order("sort", *data.draw(st.lists(FLAGS, min_size=len(kinds), max_size=len(kinds))))
    arrays = [_array(kind, column) for kind, column in zip(kinds, values, strict=True)]
    assert permutation(arrays, asked).tolist() == _reference_sort(kinds, values, asked)


@_tables_of(COLUMNS)
@pytest.mark.parametrize("kind", CURVES)
@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_a_curve_is_that_of_single_bits(kind: str, tables: Any, data: st.DataObject) -> None:
    kinds, values = data.draw(tables)
    arrays = [_array(column, part) for column, part in zip(kinds, values, strict=True)]
    numbers = [
        [0 if value is None else column.on_curve(value) for value in part]
        for column, part in zip(kinds, values, strict=True)
    ]
    assert permutation(arrays, _plain(kind, len(kinds))).tolist() == _reference_curve(kind, numbers)


@pytest.mark.parametrize("kept", range(9))
@pytest.mark.parametrize("straddling", ["a", "é", "€", "😀"])
def test_a_character_that_straddles_the_eighth_byte_is_left_out(kept: int, straddling: str) -> None:
    """Cut there, the string equals its head filled up with zeros, and so stays behind it as it came."""
    values = ["x" * kept + straddling * 2, ("x" * kept + straddling)[:8], "x" * kept]
    whole = [_characters(value) for value in values]
    expected = sorted(range(3), key=lambda row: whole[row])
    assert permutation([pa.array(values)], _plain("zorder", 1)).tolist() == expected


@pytest.mark.parametrize("name", sorted(SORTABLE))
@pytest.mark.parametrize("kind", ["sort", *CURVES])
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_how_a_column_is_cut_and_encoded_changes_nothing(kind: str, name: str, data: st.DataObject) -> None:
    if not is_sortable(name, kind):  # type: ignore[arg-type]
        return
    column = SORTABLE[name]
    values = data.draw(st.lists(st.none() | column.values, max_size=20))
    expected = permutation([_array(column, values)], _plain(kind, 1)).tolist()
    cut = data.draw(st.integers(0, len(values)))
    parts = [values[:cut], [], values[cut:]]
    for shaped in (_chunked, _sliced, _in_dictionaries, _in_careless_dictionaries):
        assert permutation([shaped(column, parts)], _plain(kind, 1)).tolist() == expected, shaped.__name__


def _chunked(column: Column, parts: Sequence[Sequence[Any]]) -> pa.ChunkedArray:
    return pa.chunked_array([_array(column, part) for part in parts], column.arrow)


def _sliced(column: Column, parts: Sequence[Sequence[Any]]) -> pa.ChunkedArray:
    """Every chunk is the middle of a longer one."""
    arrays = [_array(column, [*parts[0], *part, *parts[-1]]).slice(len(parts[0]), len(part)) for part in parts]
    return pa.chunked_array(arrays, column.arrow)


def _in_dictionaries(column: Column, parts: Sequence[Sequence[Any]]) -> pa.ChunkedArray:
    return pa.chunked_array([_encoded(column, part) for part in parts])


def _in_careless_dictionaries(column: Column, parts: Sequence[Sequence[Any]]) -> pa.Array:
    """One entry a row, so values and nulls occur more than once."""
    every = [value for part in parts for value in part]
    return pa.DictionaryArray.from_arrays(pa.array(range(len(every)), pa.int32()), _array(column, every))


def _encoded(column: Column, part: Sequence[Any]) -> pa.DictionaryArray:
    entries = {repr(value): value for value in part if value is not None}
    indices = [None if value is None else list(entries).index(repr(value)) for value in part]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), _array(column, list(entries.values())))


@pytest.mark.parametrize("kind", ["sort", *CURVES])
def test_equal_rows_stay_as_they_came(kind: str) -> None:
    values = np.arange(5000) % 7
    rows = permutation([pa.array(values), pa.array(["same"] * 5000)], _plain(kind, 2))
    assert rows.dtype == np.int32
    assert rows.tolist() == sorted(range(5000), key=lambda row: values[row])


def test_the_zeros_and_the_nans_are_equal_to_one_another() -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    values = pa.array(np.array([math.nan, 0.0, other_nan, -0.0, 0.0, math.inf]))
    assert permutation([values], _plain("sort", 1)).tolist() == [1, 3, 4, 5, 0, 2]
    assert permutation([values], _order("sort", (True, True))).tolist() == [0, 2, 5, 1, 3, 4]


def test_strings_compare_by_their_bytes_and_not_by_utf_16() -> None:
    values = pa.array(["\U00010000", "\uffff", "", "a\0", "a", "é", "z"])
    assert permutation([values], _plain("sort", 1)).tolist() == [2, 4, 3, 6, 5, 1, 0]


@pytest.mark.parametrize(("nulls_first", "expected"), [(True, [1, 3, 2, 0]), (False, [2, 0, 1, 3])])
def test_the_direction_leaves_nulls_where_the_flag_says(nulls_first: bool, expected: list[int]) -> None:
    assert permutation([pa.array([1, None, 2, None])], _order("sort", (True, nulls_first))).tolist() == expected


@pytest.mark.parametrize("shape", [(8, 8), (16, 16), (4, 4, 4), (4, 4, 4, 4)])
def test_a_hilbert_curve_walks_the_grid_one_step_at_a_time(shape: tuple[int, ...]) -> None:
    walked = _walk("hilbert", shape)
    assert all(np.abs(here - there).sum() == 1 for here, there in pairwise(walked))


@pytest.mark.parametrize("kind", CURVES)
@pytest.mark.parametrize("dimensions", [2, 3])
def test_neighbours_on_a_curve_fill_cubes(kind: str, dimensions: int) -> None:
    walked = _walk(kind, (8,) * dimensions)
    for side in (2, 4):
        for cube in walked.reshape(-1, side**dimensions, dimensions):
            assert (cube.max(axis=0) - cube.min(axis=0) == side - 1).all()


def _walk(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    grid = np.array(list(product(*map(range, shape))))
    shuffled = np.random.default_rng(0).permutation(grid)
    return shuffled[permutation([pa.array(axis) for axis in shuffled.T], _plain(kind, len(shape)))]


NAN = math.nan
WORDS = {"n": "naïve name", "Z": "Zürich€uro", "_": "", "a": "a", "😀": "😀😀😀", "r": "nairobi"}
ICEBERG_POINTS = (
    pa.array([1, -31, -33, 15, 30, -12, 10, -23, -25, -27, 30, 39, 14, 18, -9, 3]),
    pa.array([None] * 7 + [296, 584, None, None, 210, 795, 370, 83, 746], pa.int32()),
    pa.array([WORDS[letter] for letter in "nZ_a😀😀_a😀Z😀rna😀Z"]),
    pa.array([-0.0, NAN, -0.0, -0.0, -0.0, NAN, NAN, NAN, 0.0, -0.0, -0.0, NAN, NAN, 0.0, -2.25, NAN]),
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("zorder", [2, 9, 1, 5, 7, 14, 8, 3, 0, 6, 4, 10, 13, 15, 11, 12]),
        ("hilbert", [2, 9, 1, 5, 14, 8, 7, 15, 11, 12, 13, 4, 10, 6, 0, 3]),
    ],
)
def test_curves_are_those_that_iceberg_computed(kind: str, expected: list[int]) -> None:
    """The expected rows were sorted by what ZOrderByteUtils and HilbertByteUtils of Iceberg 1.12.0 returned."""
    assert permutation(ICEBERG_POINTS, _plain(kind, 4)).tolist() == expected


@pytest.mark.parametrize("kind", CURVES)
def test_a_curve_heeds_neither_direction_nor_nulls(kind: str) -> None:
    turned = permutation(ICEBERG_POINTS, _order(kind, *[(True, False)] * 4))
    assert turned.tolist() == permutation(ICEBERG_POINTS, _plain(kind, 4)).tolist()


@pytest.mark.parametrize("kind", ["sort", *CURVES])
def test_views_and_wide_offsets_are_as_good(kind: str) -> None:
    values = ["b" * 30, None, "a", "", "b" * 31]
    expected = permutation([pa.array(values)], _plain(kind, 1)).tolist()
    for shape in (pa.string_view(), pa.large_string()):
        assert permutation([pa.array(values, shape)], _plain(kind, 1)).tolist() == expected


@pytest.mark.parametrize("shape", [pa.string(), pa.binary()])
def test_chunks_beyond_narrow_offsets_are_widened(shape: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    widened: list[pa.DataType] = []
    monkeypatch.setattr(sort_order, "_NARROW_OFFSETS_END", 1)
    monkeypatch.setattr(sort_order, "_plain", lambda array: widened.append(array.type) or array)
    column = pa.chunked_array([pa.array(["b", None], shape), pa.array(["a"], shape)])
    assert permutation([column], _plain("sort", 1)).tolist() == [1, 2, 0]
    assert widened == [{pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}[shape]]


@pytest.mark.parametrize("kind", ["sort", *CURVES])
def test_a_column_without_values_orders_nothing(kind: str) -> None:
    second = pa.array([3, 1, 2])
    for empty in (pa.nulls(3), pa.nulls(3, pa.string()), pa.nulls(3).cast(pa.dictionary(pa.int32(), pa.string()))):
        assert permutation([empty, second], _plain(kind, 2)).tolist() == [1, 2, 0]


def test_chunks_with_narrow_indices_may_have_many_values_together() -> None:
    parts = [[f"{number:03}" for number in range(start, start + 100)] for start in (300, 200, 100)]
    chunks = [pa.array(part).cast(pa.dictionary(pa.int8(), pa.string())) for part in parts]
    expected = [*range(200, 300), *range(100, 200), *range(100)]
    assert permutation([pa.chunked_array(chunks)], _plain("sort", 1)).tolist() == expected


@pytest.mark.parametrize("shape", [pa.decimal32(5, 1), pa.decimal64(18, 1), pa.decimal256(30, 1)])
def test_decimals_of_any_width_sort_as_numbers(shape: pa.DataType) -> None:
    values = pa.array([Decimal("10.5"), None, Decimal("-3.0"), Decimal("9.9")], shape)
    assert permutation([values], _plain("sort", 1)).tolist() == [1, 2, 3, 0]


def test_many_rows_of_wide_keys_are_told_apart_to_the_last_bit() -> None:
    random = np.random.default_rng(3)
    first, second = random.integers(0, 5, 30_000) << 60, random.integers(-(1 << 63), (1 << 63) - 1, 30_000)
    second[::2] = second[0] + random.integers(0, 50, 15_000)
    expected = np.lexsort((second, first))
    assert (permutation([pa.array(first), pa.array(second)], _plain("sort", 2)) == expected).all()


def test_an_order_survives_json() -> None:
    asked = _order("hilbert", (True, False), (False, True))
    assert Order.from_dict(json.loads(json.dumps(asked.to_dict()))) == asked


def test_which_types_can_be_planned() -> None:
    assert all(is_sortable(name) for name in SORTABLE)
    assert all(is_sortable(name, "zorder") and is_sortable(name, "hilbert") for name in COLUMNS)
    assert not any(is_sortable(name, "zorder") or is_sortable(name, "hilbert") for name in SORT_ONLY)
    assert not any(is_sortable(name) for name in ("variant", "geometry", "unknown", "struct<1: a: int>", "int "))


@pytest.mark.parametrize(
    ("kind", "values"),
    [("sort", pa.array([[1]])), ("zorder", pa.array([Decimal("1.0")])), ("hilbert", pa.array([1], pa.timestamp("ns")))],
)
def test_what_cannot_be_ordered_exactly_is_refused(kind: str, values: pa.Array) -> None:
    with pytest.raises(Uncovered):
        permutation([pa.concat_arrays([values, values])], _plain(kind, 1))
