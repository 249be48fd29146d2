"""Statistics of dictionary columns equal to the byte those that PyArrow computes from plain values.

PyArrow's statistics of dictionaries are not used as the reference: if one entry is unused and there is a null among the
rows, it takes the dictionary for completely used and states bounds that are too wide.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icepack.kernel.parquet.chunk_writer import encode_column
from icepack.kernel.parquet.metadata import get_column_metadata, get_statistics
from icepack.kernel.parquet.statistics import MAX_STATISTICS_BYTES, MIN_ROWS_PER_ENTRY, rank_column

OPTIONS: dict[str, Any] = {"store_schema": False, "write_page_index": True, "use_dictionary": True}
WORDS = st.text(max_size=4) | st.sampled_from(["", "a", "ä", "\U0001f9ca", "z" * 40])


@st.composite
def columns(draw: st.DrawFn) -> pa.ChunkedArray:
    """Runs of the same value, so that some pages contain only nulls and some are in order."""
    words = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    kind = draw(st.sampled_from([pa.string(), pa.binary()]))
    dictionary = pa.array([word.encode() for word in words], pa.binary()).cast(kind)
    runs = draw(st.lists(st.tuples(st.none() | st.integers(0, len(words) - 1), st.integers(1, 40)), min_size=1))
    rows = [index for index, length in runs for _ in range(length)]
    rows += [0] * max(len(words) * MIN_ROWS_PER_ENTRY - len(rows), 0)
    cut = draw(st.integers(0, len(rows)))
    parts = [pa.array(part, pa.int32()) for part in (rows[:cut], rows[cut:])]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(part, dictionary) for part in parts])


def encoded_statistics(column: pa.ChunkedArray, schema: pa.Schema, page_rows: int) -> tuple[Any, bytes]:
    """The statistics of the chunk, and its column index."""
    encoded = encode_column(column, schema, {**OPTIONS, "max_rows_per_page": page_rows})
    (page_index,) = encoded.page_indexes
    return get_statistics(get_column_metadata(encoded.chunks[0])), page_index.column_index


def compare(column: pa.ChunkedArray, *, nullable: bool, page_rows: int) -> None:
    schema = pa.schema([pa.field("c", column.type.value_type, nullable=nullable)])
    plain = column.cast(column.type.value_type)
    assert rank_column(column) is not None
    assert encoded_statistics(column, schema, page_rows) == encoded_statistics(plain, schema, page_rows)


@given(columns(), st.integers(1, 50))
@example(pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([None] * 40, pa.int32()), pa.array(["a"]))]), 7)
@settings(max_examples=150)
def test_the_footer_and_the_page_index_are_the_same(column: pa.ChunkedArray, page_rows: int) -> None:
    compare(column, nullable=True, page_rows=page_rows)


def test_a_required_column_has_no_level_histogram() -> None:
    indices = pa.array([number * 7 % 5 for number in range(500)], pa.int32())
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(indices, pa.array(list("cadbe")))])
    compare(column, nullable=False, page_rows=60)


@pytest.mark.parametrize(
    ("entries", "rows"),
    [
        (["a" * (MAX_STATISTICS_BYTES + 1)], 100),
        (["a", "b"], 2 * MIN_ROWS_PER_ENTRY - 1),
        ([1, 2], 100),
        ([], 100),
    ],
    ids=["too long", "too many", "numbers", "nothing but null"],
)
def test_columns_that_do_not_pay_off_are_left_to_pyarrow(entries: list[Any], rows: int) -> None:
    kind = pa.string() if not entries else None
    index = 0 if entries else None
    made = pa.DictionaryArray.from_arrays(pa.array([index] * rows, pa.int32()), pa.array(entries, kind))
    assert rank_column(pa.chunked_array([made])) is None


def test_a_plain_column_is_left_to_pyarrow() -> None:
    assert rank_column(pa.chunked_array([["a"] * 100])) is None
