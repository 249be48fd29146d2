"""The measured data is the same on every machine."""

from __future__ import annotations

import pyarrow as pa
import pytest
from benchmarks.compaction.sample_data import SHAPES, WIDE_COLUMNS


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_is_reproducible_and_differs_from_the_next(shape: str) -> None:
    make = SHAPES[shape]
    assert make(3, 50).equals(make(3, 50))
    assert not make(3, 50).equals(make(4, 50))


@pytest.mark.parametrize("shape", SHAPES)
def test_ids_of_neighbouring_files_do_not_overlap(shape: str) -> None:
    rows = pa.concat_tables([SHAPES[shape](number, 50) for number in range(3)])
    assert rows["id"].to_pylist() == list(range(150))


def test_the_wide_shape_has_its_columns_and_the_other_its_maps() -> None:
    assert SHAPES["wide"](0, 10).num_columns == WIDE_COLUMNS
    keys = [[key for key, _ in entry] for entry in SHAPES["nested"](0, 500)["labels"].to_pylist()]
    assert all(len(set(found)) == len(found) for found in keys)
    assert [] in keys
