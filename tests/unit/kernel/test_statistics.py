"""What is told of a dictionary's column is to the byte what PyArrow tells of its values.

Of the values and not of the dictionary: PyArrow takes a dictionary with one entry that no row has, and a null
among the rows, for one that is used to the last entry, and tells bounds that are too wide.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icepack.kernel.parquet.chunk_writer import CHUNK_META, STATISTICS, encode
from icepack.kernel.parquet.statistics import LONGEST_BYTES, ROWS_PER_ENTRY, ranked

OPTIONS: dict[str, Any] = {"store_schema": False, "write_page_index": True, "use_dictionary": True}
WORDS = st.text(max_size=4) | st.sampled_from(["", "a", "ä", "\U0001f9ca", "z" * 40])


@st.composite
def columns(draw: st.DrawFn) -> pa.ChunkedArray:
    """Runs of the same value, so that there are pages of nothing but null, and pages in order."""
    words = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    kind = draw(st.sampled_from([pa.string(), pa.binary()]))
    dictionary = pa.array([word.encode() for word in words], pa.binary()).cast(kind)
    runs = draw(st.lists(st.tuples(st.none() | st.integers(0, len(words) - 1), st.integers(1, 40)), min_size=1))
    rows = [index for index, length in runs for _ in range(length)]
    rows += [0] * max(len(words) * ROWS_PER_ENTRY - len(rows), 0)
    cut = draw(st.integers(0, len(rows)))
    parts = [pa.array(part, pa.int32()) for part in (rows[:cut], rows[cut:])]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(part, dictionary) for part in parts])


def told(column: pa.ChunkedArray, schema: pa.Schema, page_rows: int) -> tuple[Any, bytes]:
    """Statistics of the chunk, and the index of its pages."""
    made = encode(column, schema, {**OPTIONS, "max_rows_per_page": page_rows})
    ((index, _),) = made.indexes
    return made.chunks[0][CHUNK_META][1][STATISTICS], index


def compare(column: pa.ChunkedArray, *, nullable: bool, page_rows: int) -> None:
    schema = pa.schema([pa.field("c", column.type.value_type, nullable=nullable)])
    plain = column.cast(column.type.value_type)
    assert ranked(column) is not None
    assert told(column, schema, page_rows) == told(plain, schema, page_rows)


@given(columns(), st.integers(1, 50))
@example(pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([None] * 40, pa.int32()), pa.array(["a"]))]), 7)
@settings(max_examples=150)
def test_the_footer_and_the_page_index_are_the_same(column: pa.ChunkedArray, page_rows: int) -> None:
    compare(column, nullable=True, page_rows=page_rows)


def test_a_column_without_nulls_tells_no_levels() -> None:
    indices = pa.array([number * 7 % 5 for number in range(500)], pa.int32())
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(indices, pa.array(list("cadbe")))])
    compare(column, nullable=False, page_rows=60)


@pytest.mark.parametrize(
    ("entries", "rows"),
    [
        (["a" * (LONGEST_BYTES + 1)], 100),
        (["a", "b"], 2 * ROWS_PER_ENTRY - 1),
        ([1, 2], 100),
        ([], 100),
    ],
    ids=["too long", "too many", "numbers", "nothing but null"],
)
def test_what_is_not_worth_it_is_left_to_pyarrow(entries: list[Any], rows: int) -> None:
    kind = pa.string() if not entries else None
    index = 0 if entries else None
    made = pa.DictionaryArray.from_arrays(pa.array([index] * rows, pa.int32()), pa.array(entries, kind))
    assert ranked(pa.chunked_array([made])) is None


def test_a_plain_column_is_left_to_pyarrow() -> None:
    assert ranked(pa.chunked_array([["a"] * 100])) is None
