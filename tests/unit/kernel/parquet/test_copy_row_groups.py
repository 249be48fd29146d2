"""Row groups are copied byte for byte where the bytes mean the same in the output, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepack.kernel.arrow_schema import ROW_ID, to_arrow_schema
from icepack.kernel.parquet.copy_chunks import has_correct_statistics
from icepack.kernel.parquet.metadata import (
    CHUNK_METADATA,
    ColumnChunk,
    ColumnMetaData,
    build_statistics,
    set_statistics,
)
from icepack.kernel.parquet.thrift import STRUCT
from icepack.kernel.task import DeleteFile, InputFile, OutputFile, RewriteResult, WriteProperties
from kernel.harness import KernelHarness, column, schema_of

ROWS = 400
# As Iceberg's own writer does it.
STORED = {"compression": "zstd", "write_page_index": True, "store_decimal_as_integer": True}
SCHEMA = schema_of(
    column(1, "id", "long", required=True),
    column(2, "word", "string"),
    column(3, "price", "double"),
    column(4, "place", {"type": "struct", "fields": [column(5, "x", "float"), column(6, "name", "string")]}),
    column(7, "tags", {"type": "list", "element-id": 8, "element": "string", "element-required": False}),
    column(9, "amount", "decimal(12,2)"),
)


def rows(count: int = ROWS, seed: int = 0) -> dict[str, list[Any]]:
    random = np.random.default_rng(seed)
    words = [f"word {number}" for number in random.integers(0, 40, count)]
    floats = [None if number > 0.9 else float("nan") if number > 0.8 else number for number in random.random(count)]
    return {
        "id": list(range(seed * count, (seed + 1) * count)),
        "word": [None if word.endswith("7") else word for word in words],
        "price": floats,
        "place": [None if word.endswith("3") else {"x": len(word) / 4, "name": word[5:]} for word in words],
        "tags": [[] if word.endswith("1") else [word, None] for word in words],
        "amount": [None if number % 5 == 0 else number for number in range(count)],
    }


def inputs(harness: KernelHarness, count: int = 2, **options: Any) -> list[InputFile]:
    return [harness.write(SCHEMA, rows(seed=seed), **{**STORED, **options}) for seed in range(count)]


def write_properties(files: list[InputFile], **more: Any) -> WriteProperties:
    """Properties of a table whose row group size is that of the largest file."""
    largest = max(file.bytes for file in files)
    return WriteProperties(**{"codec": "zstd", "row_group_bytes": largest, "may_copy_chunks": True, **more})


def opened(file: InputFile | OutputFile) -> pq.ParquetFile:
    return pq.ParquetFile(file.path.removeprefix("file://"))


def chunk_bytes(file: InputFile | OutputFile, group: int, name: str) -> list[bytes]:
    """The pages of each leaf of a column."""
    data = Path(file.path.removeprefix("file://")).read_bytes()
    metadata = opened(file).metadata.row_group(group)
    found = [metadata.column(number) for number in range(metadata.num_columns)]
    return [
        data[start : start + chunk.total_compressed_size]
        for chunk in found
        if chunk.path_in_schema.split(".")[0] == name
        for start in [chunk.dictionary_page_offset or chunk.data_page_offset]
    ]


def all_chunk_bytes(file: InputFile) -> list[bytes]:
    return [data for field in SCHEMA["fields"] for data in chunk_bytes(file, 0, field["name"])]


def statistics(file: OutputFile) -> list[Any]:
    """Only null counts for columns in lists, whose bounds no reader uses."""
    metadata = opened(file).metadata
    return [
        (
            chunk.path_in_schema,
            chunk.num_values,
            chunk.statistics.null_count if ".list." in chunk.path_in_schema else chunk.statistics.to_dict(),
        )
        for group in range(metadata.num_row_groups)
        for number in range(metadata.num_columns)
        for chunk in [metadata.row_group(group).column(number)]
    ]


def is_copied(written: RewriteResult, files: list[InputFile], name: str) -> list[bool]:
    """For each input, whether the column's bytes are in the output as they were."""
    (output,) = written.files
    return [chunk_bytes(output, number, name) == chunk_bytes(file, 0, name) for number, file in enumerate(files)]


def test_every_column_of_a_large_row_group_is_copied(harness: KernelHarness) -> None:
    files = inputs(harness)
    written, table = harness.run(SCHEMA, files, write_properties=write_properties(files))
    assert table is not None
    for name in table.column_names:
        assert is_copied(written, files, name) == [True, True], name
    expected = pa.concat_tables(pq.read_table(file.path.removeprefix("file://")) for file in files)
    # As text, because NaN does not equal itself.
    assert repr(table.to_pydict()) == repr(expected.to_pydict())
    assert written.copied_bytes == sum(len(data) for file in files for data in all_chunk_bytes(file))
    assert (written.rows_in, written.rows_out, written.rows_dropped) == (2 * ROWS, 2 * ROWS, 0)


def test_metadata_equals_that_of_encoded_columns(harness: KernelHarness) -> None:
    files = inputs(harness)
    copied, _ = harness.run(SCHEMA, files, write_properties=write_properties(files))
    (first,) = copied.files
    copied_statistics, indexed = statistics(first), has_indexes(first)
    encoded, _ = harness.run(SCHEMA, files, write_properties=write_properties(files, may_copy_chunks=False))
    (second,) = encoded.files
    assert copied.copied_bytes > encoded.copied_bytes == 0
    assert copied_statistics == statistics(second)
    assert indexed == has_indexes(second) == {True}
    assert (first.nan_counts, first.bounds) == (second.nan_counts, second.bounds)
    assert first.nan_counts[3] > 0
    assert len(first.split_offsets) == 2


def has_indexes(file: OutputFile) -> set[bool]:
    metadata = opened(file).metadata
    chunks = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    return {(chunk.has_column_index or ".list." in chunk.path_in_schema) and chunk.has_offset_index for chunk in chunks}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {"may_copy_chunks": False}),
        ({}, {"codec": "gzip"}),
        ({}, {"row_group_bytes": 10 * 2**20}),
        ({}, {"row_group_bytes": 2**10}),
        ({"write_page_index": False}, {}),
        ({"write_statistics": False}, {}),
    ],
    ids=["table forbids copying", "codec", "small", "too large", "no page index", "no statistics"],
)
def test_a_row_group_that_differs_is_encoded(
    harness: KernelHarness, options: dict[str, Any], wanted: dict[str, Any]
) -> None:
    files = inputs(harness, **options)
    written, table = harness.run(SCHEMA, files, write_properties=write_properties(files, **wanted))
    assert written.copied_bytes == 0
    assert table is not None
    assert table["id"].to_pylist() == list(range(2 * ROWS))


def test_version_2_pages_are_copied_too(harness: KernelHarness) -> None:
    files = inputs(harness, data_page_version="2.0")
    written, table = harness.run(SCHEMA, files, write_properties=write_properties(files))
    assert is_copied(written, files, "tags") == [True, True]
    assert table is not None
    assert table["tags"].to_pylist() == [tag for seed in range(2) for tag in rows(seed=seed)["tags"]]


def test_a_column_in_an_uncommon_encoding_is_encoded(harness: KernelHarness) -> None:
    differing = {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED"}}
    files = inputs(harness, **differing)
    written, table = harness.run(SCHEMA, files, write_properties=write_properties(files))
    assert is_copied(written, files, "id") == [False, False]
    assert is_copied(written, files, "word") == [True, True]
    assert table is not None
    assert table["id"].to_pylist() == list(range(2 * ROWS))
    (output,) = written.files
    assert "DELTA_BINARY_PACKED" not in opened(output).metadata.row_group(0).column(0).encodings


def test_columns_that_were_added_renamed_dropped_or_promoted(harness: KernelHarness) -> None:
    old = schema_of(
        column(1, "id", "long"), column(2, "word", "string"), column(3, "gone", "string"), column(4, "count", "int")
    )
    new = schema_of(
        column(4, "count", "long"), column(1, "number", "long"), column(2, "text", "string"), column(5, "new", "string")
    )
    texts = [f"{number * 7919:x}" * 4 for number in range(ROWS)]
    values = {"id": list(range(ROWS)), "word": texts, "gone": ["?"] * ROWS, "count": [3] * ROWS}
    files = [harness.write(old, values, **STORED)]
    written, table = harness.run(new, files, write_properties=write_properties(files))
    assert table is not None
    assert table.to_pydict() == {
        "count": [3] * ROWS,
        "number": list(range(ROWS)),
        "text": texts,
        "new": [None] * ROWS,
    }
    (output,) = written.files
    assert chunk_bytes(output, 0, "text") == chunk_bytes(files[0], 0, "word")
    assert chunk_bytes(output, 0, "number") == chunk_bytes(files[0], 0, "id")
    assert table.schema.field("count").type == pa.int64()


def test_a_column_that_became_optional_is_encoded(harness: KernelHarness) -> None:
    """Its pages have no definition levels, and those of the output must have them."""
    old = schema_of(column(1, "id", "long", required=True), column(2, "word", "string"))
    new = schema_of(column(1, "id", "long"), column(2, "word", "string"))
    texts = [f"{number * 7919:x}" * 4 for number in range(ROWS)]
    files = [harness.write(old, {"id": list(range(ROWS)), "word": texts}, **STORED)]
    written, table = harness.run(new, files, write_properties=write_properties(files))
    assert is_copied(written, files, "word") == [True]
    assert is_copied(written, files, "id") == [False]
    assert table is not None
    assert table["id"].to_pylist() == list(range(ROWS))


@pytest.mark.parametrize(("sequence_number", "dropped"), [(1, 0), (2, 1)])
def test_a_file_with_deletes_is_not_copied(harness: KernelHarness, sequence_number: int, dropped: int) -> None:
    """The files have sequence number 1, and an equality delete applies only to older files."""
    files = inputs(harness)
    keys = harness.write(schema_of(column(1, "id", "long", required=True)), {"id": [5]})
    delete = DeleteFile(path=keys.path, bytes=keys.bytes, sequence_number=sequence_number, equality_ids=(1,))
    written, table = harness.run(SCHEMA, files, write_properties=write_properties(files), equality_deletes=(delete,))
    assert written.rows_dropped == dropped
    assert (written.copied_bytes == 0) == bool(dropped)
    assert table is not None
    assert (5 in table["id"].to_pylist()) == (not dropped)


def test_part_of_a_row_group_is_encoded(harness: KernelHarness) -> None:
    files = inputs(harness)
    parts = [replace(files[0], start=0, stop=ROWS - 1), files[1]]
    written, table = harness.run(
        SCHEMA, parts, write_properties=write_properties(files, row_group_bytes=int(files[0].bytes * 1.05))
    )
    (output,) = written.files
    assert opened(output).metadata.num_row_groups == 2
    assert chunk_bytes(output, 1, "word") == chunk_bytes(files[1], 0, "word")
    assert written.copied_bytes < files[1].bytes
    assert table is not None
    assert table["id"].to_pylist() == [*range(ROWS - 1), *range(ROWS, 2 * ROWS)]


def test_row_ids_are_written_beside_what_is_copied(harness: KernelHarness) -> None:
    files = [
        harness.write(SCHEMA, rows(seed=seed), first_row_id=1000 * (seed + 1), sequence_number=seed + 3, **STORED)
        for seed in range(2)
    ]
    written, table = harness.run(SCHEMA, files, write_properties=write_properties(files), lineage=True)
    assert is_copied(written, files, "word") == [True, True]
    assert table is not None
    assert table["_row_id"].to_pylist() == [*range(1000, 1000 + ROWS), *range(2000, 2000 + ROWS)]
    assert table["_last_updated_sequence_number"].to_pylist() == [3] * ROWS + [4] * ROWS
    assert to_arrow_schema(SCHEMA, with_lineage=True).field("_row_id").metadata == {
        b"PARQUET:field_id": str(ROW_ID).encode()
    }


def test_row_ids_that_a_file_has_are_completed_and_not_copied(harness: KernelHarness) -> None:
    """As after an update: older rows have stored row ids, new ones get the id of their position."""
    schema = to_arrow_schema(SCHEMA, with_lineage=True)
    stated = [None if number % 4 else number for number in range(ROWS)]
    columns = [pa.array(values, schema.field(name).type) for name, values in rows().items()]
    ids = pa.array(stated, pa.int64())
    files = [harness.add(pa.table([*columns, ids, ids], schema=schema), first_row_id=5000, sequence_number=7, **STORED)]
    written, table = harness.run(SCHEMA, files, write_properties=write_properties(files), lineage=True)
    assert is_copied(written, files, "word") == [True]
    assert table is not None
    assert table["_row_id"].to_pylist() == [5000 + at if own is None else own for at, own in enumerate(stated)]
    assert table["_last_updated_sequence_number"].to_pylist() == [7 if own is None else own for own in stated]


def test_a_file_without_field_ids_is_copied_by_name_mapping(harness: KernelHarness) -> None:
    texts = [f"{number * 7919:x}" * 4 for number in range(ROWS)]
    files = [harness.add(pa.table({"id": list(range(ROWS)), "word": texts}), **STORED)]
    mapping = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["word"]}]
    schema = schema_of(column(1, "number", "long"), column(2, "text", "string"))
    written, table = harness.run(schema, files, write_properties=write_properties(files), name_mapping=mapping)
    assert written.copied_bytes > 0
    assert table is not None
    assert table.to_pydict() == {"number": list(range(ROWS)), "text": texts}
    assert table.schema.field("text").metadata == {b"PARQUET:field_id": b"2"}


def test_a_column_of_nothing_but_nan_is_encoded(harness: KernelHarness) -> None:
    """The footer has no bounds for such a chunk, so its statistics cannot be copied."""
    schema = schema_of(column(1, "id", "long"), column(2, "price", "double"))
    values = {"id": list(range(ROWS)), "price": [float("nan")] * ROWS}
    files = [harness.write(schema, values, **STORED)]
    written, _ = harness.run(schema, files, write_properties=write_properties(files))
    assert is_copied(written, files, "id") == [True]
    (output,) = written.files
    assert output.nan_counts == {2: ROWS}


@pytest.mark.parametrize(("lower", "is_true"), [(1.0, True), (0.5, False)])
def test_statistics_of_floats_are_verified(lower: float, is_true: bool) -> None:
    field = pa.field("price", pa.float64(), metadata={b"PARQUET:field_id": b"1"})
    raw = [np.float64(value).tobytes() for value in (2.0, lower)]
    meta = ColumnMetaData({})
    set_statistics(meta, build_statistics(0, (raw[1], raw[0])))
    chunk = ColumnChunk({CHUNK_METADATA: (STRUCT, meta)})
    values = pa.chunked_array([[1.0, float("nan"), 2.0]])
    assert has_correct_statistics(field, values, [chunk]) is is_true


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([400, 400, 400], [400, 400, 400]),
        ([10, 400, 400], [410, 400]),
        ([400, 10, 400], [400, 410]),
        ([400, 400, 10], [400, 410]),
        ([150, 400, 150], [150, 400, 150]),
        ([400, 10], [410]),
    ],
)
def test_no_row_group_is_left_small(harness: KernelHarness, sizes: list[int], expected: list[int]) -> None:
    """Small slices are merged with a neighbour, whose rows are then encoded."""
    schema = schema_of(column(1, "id", "long"), column(2, "key", "string"))
    files, first = [], 0
    for size in sizes:
        ids = list(range(first, first + size))
        files.append(harness.write(schema, {"id": ids, "key": [f"{scattered(number):x}" for number in ids]}, **STORED))
        first += size
    written, table = harness.run(schema, files, write_properties=write_properties(files))
    (output,) = written.files
    metadata = opened(output).metadata
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == expected
    assert table is not None
    assert table["id"].to_pylist() == list(range(first))
    copied = [size for size in expected if size == 400]
    assert bool(written.copied_bytes) == bool(copied)


def scattered(number: int) -> int:
    return number * 2654435761 % 2**64


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(50, 400)), min_size=1, max_size=5),
    st.integers(10, 18),
    st.sampled_from(["1.0", "2.0"]),
    st.booleans(),
)
@settings(max_examples=40)
def test_copied_and_encoded_tables_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[int, int]], power: int, pages: str, dictionary: bool
) -> None:
    harness = KernelHarness(tmp_path_factory.mktemp("copying"))
    made = [
        harness.write(
            SCHEMA,
            rows(count, seed),
            row_group_size=size,
            use_dictionary=dictionary,
            data_page_version=pages,
            **STORED,
        )
        for seed, (count, size) in enumerate(files)
    ]
    wanted = WriteProperties(codec="zstd", row_group_bytes=2**power, may_copy_chunks=True)
    copied, one = harness.run(SCHEMA, made, write_properties=wanted)
    encoded, other = harness.run(SCHEMA, made, write_properties=replace(wanted, may_copy_chunks=False))
    assert one is not None
    assert other is not None
    assert repr(one.to_pydict()) == repr(other.to_pydict())
    assert one.schema.equals(other.schema, check_metadata=True)
    assert copied.rows_out == encoded.rows_out
    (first,), (second,) = copied.files, encoded.files
    assert first.nan_counts == second.nan_counts
    for number, pair in second.bounds.items():
        assert first.bounds.get(number, pair) == pair
