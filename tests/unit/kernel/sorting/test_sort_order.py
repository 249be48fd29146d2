"""Sort orders, compared with Python's sort."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.sorting import sort_order
from icepack.kernel.sorting.sort_order import SortOrder, compute_permutation, is_sortable

from .reference import (
    COLUMNS,
    CURVES,
    FLAGS,
    SORT_ONLY,
    SORTABLE,
    ColumnCase,
    build_order,
    default_order,
    parametrize_tables,
    reference_sort,
    to_array,
)


@parametrize_tables(SORTABLE)
@given(data=st.data())
@settings(deadline=None, max_examples=50)
def test_a_sort_equals_a_plain_comparison(tables: Any, data: st.DataObject) -> None:
    kinds, values = data.draw(tables)
    order = build_order("sort", *data.draw(st.lists(FLAGS, min_size=len(kinds), max_size=len(kinds))))
    arrays = [to_array(kind, column) for kind, column in zip(kinds, values, strict=True)]
    assert compute_permutation(arrays, order).tolist() == reference_sort(kinds, values, order)


@pytest.mark.parametrize("name", sorted(SORTABLE))
@pytest.mark.parametrize("kind", ["sort", *CURVES])
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_chunks_and_dictionaries_do_not_change_the_order(kind: str, name: str, data: st.DataObject) -> None:
    if not is_sortable(name, kind):  # type: ignore[arg-type]
        return
    column = SORTABLE[name]
    values = data.draw(st.lists(st.none() | column.values, max_size=20))
    expected = compute_permutation([to_array(column, values)], default_order(kind, 1)).tolist()
    cut = data.draw(st.integers(0, len(values)))
    parts = [values[:cut], [], values[cut:]]
    for shaped in (_chunked, _sliced, _in_dictionaries, _in_redundant_dictionaries):
        assert compute_permutation([shaped(column, parts)], default_order(kind, 1)).tolist() == expected, (
            shaped.__name__
        )


def _chunked(column: ColumnCase, parts: Sequence[Sequence[Any]]) -> pa.ChunkedArray:
    return pa.chunked_array([to_array(column, part) for part in parts], column.arrow)


def _sliced(column: ColumnCase, parts: Sequence[Sequence[Any]]) -> pa.ChunkedArray:
    """Every chunk is the middle of a longer one."""
    arrays = [to_array(column, [*parts[0], *part, *parts[-1]]).slice(len(parts[0]), len(part)) for part in parts]
    return pa.chunked_array(arrays, column.arrow)


def _in_dictionaries(column: ColumnCase, parts: Sequence[Sequence[Any]]) -> pa.ChunkedArray:
    return pa.chunked_array([_encoded(column, part) for part in parts])


def _in_redundant_dictionaries(column: ColumnCase, parts: Sequence[Sequence[Any]]) -> pa.Array:
    """One entry per row, so values and nulls occur more than once."""
    every = [value for part in parts for value in part]
    return pa.DictionaryArray.from_arrays(pa.array(range(len(every)), pa.int32()), to_array(column, every))


def _encoded(column: ColumnCase, part: Sequence[Any]) -> pa.DictionaryArray:
    entries = {repr(value): value for value in part if value is not None}
    indices = [None if value is None else list(entries).index(repr(value)) for value in part]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), to_array(column, list(entries.values())))


@pytest.mark.parametrize("kind", ["sort", *CURVES])
def test_the_sort_is_stable(kind: str) -> None:
    values = np.arange(5000) % 7
    rows = compute_permutation([pa.array(values), pa.array(["same"] * 5000)], default_order(kind, 2))
    assert rows.dtype == np.int32
    assert rows.tolist() == sorted(range(5000), key=lambda row: values[row])


def test_zeros_are_equal_and_nans_are_equal() -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    values = pa.array(np.array([math.nan, 0.0, other_nan, -0.0, 0.0, math.inf]))
    assert compute_permutation([values], default_order("sort", 1)).tolist() == [1, 3, 4, 5, 0, 2]
    assert compute_permutation([values], build_order("sort", (True, True))).tolist() == [0, 2, 5, 1, 3, 4]


def test_strings_compare_by_their_bytes_and_not_by_utf_16() -> None:
    values = pa.array(["\U00010000", "\uffff", "", "a\0", "a", "é", "z"])
    assert compute_permutation([values], default_order("sort", 1)).tolist() == [2, 4, 3, 6, 5, 1, 0]


@pytest.mark.parametrize(("nulls_first", "expected"), [(True, [1, 3, 2, 0]), (False, [2, 0, 1, 3])])
def test_the_direction_does_not_move_nulls(nulls_first: bool, expected: list[int]) -> None:
    assert (
        compute_permutation([pa.array([1, None, 2, None])], build_order("sort", (True, nulls_first))).tolist()
        == expected
    )


@pytest.mark.parametrize("kind", ["sort", *CURVES])
def test_views_and_64_bit_offsets(kind: str) -> None:
    values = ["b" * 30, None, "a", "", "b" * 31]
    expected = compute_permutation([pa.array(values)], default_order(kind, 1)).tolist()
    for shape in (pa.string_view(), pa.large_string()):
        assert compute_permutation([pa.array(values, shape)], default_order(kind, 1)).tolist() == expected


@pytest.mark.parametrize("shape", [pa.string(), pa.binary()])
def test_chunks_beyond_32_bit_offsets_are_widened(shape: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    widened: list[pa.DataType] = []
    monkeypatch.setattr(sort_order, "_MAX_INT32_OFFSET", 1)
    monkeypatch.setattr(sort_order, "_cast_view", lambda array: widened.append(array.type) or array)
    column = pa.chunked_array([pa.array(["b", None], shape), pa.array(["a"], shape)])
    assert compute_permutation([column], default_order("sort", 1)).tolist() == [1, 2, 0]
    assert widened == [{pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}[shape]]


@pytest.mark.parametrize("kind", ["sort", *CURVES])
def test_a_column_of_nulls_does_not_affect_the_order(kind: str) -> None:
    second = pa.array([3, 1, 2])
    for empty in (pa.nulls(3), pa.nulls(3, pa.string()), pa.nulls(3).cast(pa.dictionary(pa.int32(), pa.string()))):
        assert compute_permutation([empty, second], default_order(kind, 2)).tolist() == [1, 2, 0]


def test_chunks_with_8_bit_indices_may_have_many_values_together() -> None:
    parts = [[f"{number:03}" for number in range(start, start + 100)] for start in (300, 200, 100)]
    chunks = [pa.array(part).cast(pa.dictionary(pa.int8(), pa.string())) for part in parts]
    expected = [*range(200, 300), *range(100, 200), *range(100)]
    assert compute_permutation([pa.chunked_array(chunks)], default_order("sort", 1)).tolist() == expected


@pytest.mark.parametrize("shape", [pa.decimal32(5, 1), pa.decimal64(18, 1), pa.decimal256(30, 1)])
def test_decimals_of_any_width_sort_as_numbers(shape: pa.DataType) -> None:
    values = pa.array([Decimal("10.5"), None, Decimal("-3.0"), Decimal("9.9")], shape)
    assert compute_permutation([values], default_order("sort", 1)).tolist() == [1, 2, 3, 0]


def test_wide_keys_are_compared_to_the_last_bit() -> None:
    random = np.random.default_rng(3)
    first, second = random.integers(0, 5, 30_000) << 60, random.integers(-(1 << 63), (1 << 63) - 1, 30_000)
    second[::2] = second[0] + random.integers(0, 50, 15_000)
    expected = np.lexsort((second, first))
    assert (compute_permutation([pa.array(first), pa.array(second)], default_order("sort", 2)) == expected).all()


def test_a_sort_order_survives_json() -> None:
    order = build_order("hilbert", (True, False), (False, True))
    assert SortOrder.from_dict(json.loads(json.dumps(order.to_dict()))) == order


def test_which_types_are_sortable() -> None:
    assert all(is_sortable(name) for name in SORTABLE)
    assert all(is_sortable(name, "zorder") and is_sortable(name, "hilbert") for name in COLUMNS)
    assert not any(is_sortable(name, "zorder") or is_sortable(name, "hilbert") for name in SORT_ONLY)
    assert not any(is_sortable(name) for name in ("variant", "geometry", "unknown", "struct<1: a: int>", "int "))


@pytest.mark.parametrize(
    ("kind", "values"),
    [("sort", pa.array([[1]])), ("zorder", pa.array([Decimal("1.0")])), ("hilbert", pa.array([1], pa.timestamp("ns")))],
)
def test_types_that_cannot_be_ordered_exactly_are_unsupported(kind: str, values: pa.Array) -> None:
    with pytest.raises(UnsupportedByKernel):
        compute_permutation([pa.concat_arrays([values, values])], default_order(kind, 1))
