"""Files from independently encoded columns: PyArrow reads from them what was written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepack.kernel.parquet.chunk_writer import ParquetChunkWriter, encode_column

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), st.text(max_size=8)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "flag": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(20, 3), st.decimals(-1000, 1000, places=3)),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
    "struct": (
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.float32()))]),
        st.fixed_dictionaries({"a": st.none() | st.text(max_size=3), "b": st.lists(st.just(1.5), max_size=2)}),
    ),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2).map(lambda d: list(d.items())),
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
    rows = draw(st.integers(1, 30))
    arrays = []
    for name in names:
        kind, values = KINDS[name]
        arrays.append(pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind))
    return pa.table(arrays, names=[f"{name}{at}" for at, name in enumerate(names)])


def write_file(table: pa.Table, rows_per_group: int, **options: Any) -> tuple[bytes, ParquetChunkWriter]:
    sink = pa.BufferOutputStream()
    options = {"write_page_index": True, "store_schema": False, **options}
    writer = ParquetChunkWriter(sink, table.schema, {"key": "value"}, options)
    for start in range(0, table.num_rows, rows_per_group):
        part = table.slice(start, rows_per_group)
        writer.start_row_group(part.num_rows)
        for at, field in enumerate(table.schema):
            writer.add_column(encode_column(part.column(at), pa.schema([field]), options))
    size = writer.close()
    data = sink.getvalue().to_pybytes()
    assert len(data) == size
    return data, writer


@given(tables(), st.integers(1, 30), st.sampled_from(["zstd", "snappy", "gzip", "none"]), st.booleans())
@settings(max_examples=60)
def test_written_files_are_readable(table: pa.Table, rows_per_group: int, codec: str, dictionary: bool) -> None:
    data, writer = write_file(table, rows_per_group, compression=codec, use_dictionary=dictionary)
    file = pq.ParquetFile(pa.BufferReader(data))
    assert file.read().cast(table.schema).equals(table)
    assert writer.rows == file.metadata.num_rows == table.num_rows
    assert file.metadata.metadata == {b"key": b"value"}


@given(tables(), st.integers(1, 30))
@settings(max_examples=40)
def test_the_footer_equals_that_of_a_file_written_at_once(table: pa.Table, rows_per_group: int) -> None:
    """Statistics, sizes and counts of every chunk are the same; only the offsets differ."""
    options = {"compression": "zstd", "use_dictionary": True}
    data, writer = write_file(table, rows_per_group, **options)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=rows_per_group, write_page_index=True, store_schema=False, **options)
    ours, theirs = pq.ParquetFile(pa.BufferReader(data)), pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    assert ours.schema.equals(theirs.schema)
    assert ours.metadata.num_row_groups == theirs.metadata.num_row_groups
    offsets = []
    for number in range(theirs.metadata.num_row_groups):
        mine, other = ours.metadata.row_group(number), theirs.metadata.row_group(number)
        assert (mine.num_rows, mine.total_byte_size) == (other.num_rows, other.total_byte_size)
        for leaf in range(other.num_columns):
            assert without_offsets(mine.column(leaf)) == without_offsets(other.column(leaf))
        first = mine.column(0)
        offsets.append(first.dictionary_page_offset or first.data_page_offset)
    assert writer.split_offsets == tuple(offsets)


def without_offsets(chunk: Any) -> dict[str, Any]:
    """As text, because NaN does not equal itself."""
    everything = chunk.to_dict()
    for name in ("file_offset", "data_page_offset", "dictionary_page_offset", "index_page_offset"):
        everything.pop(name, None)
    return {name: repr(value) for name, value in everything.items()}


def test_dictionary_columns_stay_dictionaries() -> None:
    values = pa.array(["b", None, "a", "b"]).dictionary_encode()
    sink = pa.BufferOutputStream()
    schema = pa.schema([pa.field("c", pa.string(), metadata={"PARQUET:field_id": "7"})])
    writer = ParquetChunkWriter(sink, schema, {}, {"store_schema": False})
    writer.start_row_group(4)
    writer.add_column(encode_column(pa.chunked_array([values]), schema, {"store_schema": False}))
    writer.close()
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    assert file.read()["c"].to_pylist() == ["b", None, "a", "b"]
    assert file.schema_arrow.field("c").metadata == {b"PARQUET:field_id": b"7"}
    chunk = file.metadata.row_group(0).column(0)
    assert (chunk.statistics.min, chunk.statistics.max, chunk.statistics.null_count) == ("a", "b", 1)
    assert "RLE_DICTIONARY" in chunk.encodings


@pytest.mark.parametrize("rows", [40_000])
def test_page_indexes_point_at_their_pages(rows: int) -> None:
    """A row group in the middle has the right rows and a page index."""
    table = pa.table({"a": pa.array(range(rows)), "b": pa.array([str(number % 997) for number in range(rows)])})
    data, _ = write_file(table, 15_000, compression="snappy", max_rows_per_page=1000)
    file = pq.ParquetFile(pa.BufferReader(data))
    chunk = file.metadata.row_group(1).column(1)
    assert chunk.has_offset_index
    assert chunk.has_column_index
    assert file.read_row_group(1)["a"].to_pylist() == list(range(15_000, 30_000))
