"""Z-order and Hilbert curves, compared with a computation by single bits and with Iceberg's own classes."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepack.kernel.sorting.sort_order import compute_permutation

from .reference import (
    COLUMNS,
    CURVES,
    build_order,
    default_order,
    pack_characters,
    parametrize_tables,
    reference_curve,
    to_array,
)


@parametrize_tables(COLUMNS)
@pytest.mark.parametrize("kind", CURVES)
@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_a_curve_equals_a_computation_by_single_bits(kind: str, tables: Any, data: st.DataObject) -> None:
    kinds, values = data.draw(tables)
    arrays = [to_array(column, part) for column, part in zip(kinds, values, strict=True)]
    numbers = [
        [0 if value is None else column.on_curve(value) for value in part]
        for column, part in zip(kinds, values, strict=True)
    ]
    assert compute_permutation(arrays, default_order(kind, len(kinds))).tolist() == reference_curve(kind, numbers)


@pytest.mark.parametrize("kept", range(9))
@pytest.mark.parametrize("straddling", ["a", "é", "€", "😀"])
def test_a_character_that_straddles_the_eighth_byte_is_left_out(kept: int, straddling: str) -> None:
    """Truncated, the string equals its prefix padded with zeros, and so keeps its place after it."""
    values = ["x" * kept + straddling * 2, ("x" * kept + straddling)[:8], "x" * kept]
    whole = [pack_characters(value) for value in values]
    expected = sorted(range(3), key=lambda row: whole[row])
    assert compute_permutation([pa.array(values)], default_order("zorder", 1)).tolist() == expected


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
    return shuffled[compute_permutation([pa.array(axis) for axis in shuffled.T], default_order(kind, len(shape)))]


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
def test_curves_equal_those_of_iceberg(kind: str, expected: list[int]) -> None:
    """The expected rows were sorted with ZOrderByteUtils and HilbertByteUtils of Iceberg 1.12.0."""
    assert compute_permutation(ICEBERG_POINTS, default_order(kind, 4)).tolist() == expected


@pytest.mark.parametrize("kind", CURVES)
def test_a_curve_ignores_direction_and_null_order(kind: str) -> None:
    turned = compute_permutation(ICEBERG_POINTS, build_order(kind, *[(True, False)] * 4))
    assert turned.tolist() == compute_permutation(ICEBERG_POINTS, default_order(kind, 4)).tolist()
