"""Pages are merged byte for byte, with the same metadata as if they had been encoded again."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepack.kernel.parquet import merge_pages
from icepack.kernel.parquet.metadata import (
    COLUMN_DATA_PAGE_OFFSET,
    COLUMN_ENCODING_STATS,
    COLUMN_ENCODINGS,
    COLUMN_SIZE_STATISTICS,
    ColumnChunk,
    get_column_chunks,
    get_column_metadata,
    get_path,
    get_row_groups,
    read_file_metadata,
)
from icepack.kernel.parquet.page_index import ASCENDING, UNORDERED, list_first_rows, list_page_ranges, read_page_index
from icepack.kernel.parquet.thrift import CompactReader, ThriftStruct
from icepack.kernel.task import DeleteFile, InputFile, OutputFile, RewriteResult, WriteProperties
from kernel.harness import KernelHarness, column, schema_of

PAGE_ROWS = 100
ROWS = 4 * PAGE_ROWS
SCHEMA = schema_of(
    column(1, "id", "long", required=True),
    column(2, "word", "string"),
    column(3, "price", "double"),
    column(4, "key", "string"),
    column(5, "amount", "decimal(12,2)"),
    column(6, "is_mobile", "boolean"),
    column(7, "large", "decimal(30,3)"),
    column(8, "uuid", "uuid"),
    column(9, "place", {"type": "struct", "fields": [column(10, "x", "float"), column(11, "n", "int")]}),
    column(12, "tags", {"type": "list", "element-id": 13, "element": "long", "element-required": False}),
)
PLAIN = {"id", "price", "key", "amount", "is_mobile", "large", "uuid", "place", "tags"}
# As Spark's writer does it for such columns.
WRITTEN = {
    "compression": "zstd",
    "compression_level": 3,
    "write_page_index": True,
    "write_page_checksum": True,
    "store_decimal_as_integer": True,
    "use_dictionary": ["word"],
    "max_rows_per_page": PAGE_ROWS,
}
WANTED = WriteProperties(codec="zstd", may_copy_chunks=True, page_rows=PAGE_ROWS)


def rows(count: int = ROWS, seed: int = 0) -> dict[str, list[Any]]:
    random = np.random.default_rng(seed)
    numbers = [int(number) for number in random.integers(-(2**40), 2**40, count)]
    places = [{"x": None if number % 13 == 0 else number / 1000, "n": number % 2**31} for number in numbers]
    return {
        "id": list(range(seed * count, (seed + 1) * count)),
        "word": [f"word {number % 5}" for number in numbers],
        "price": [None if number % 11 == 0 else float("nan") if number % 17 == 0 else number / 7 for number in numbers],
        "key": [None if number % 7 == 0 else f"{number:x}" for number in numbers],
        "amount": [None if number % 5 == 0 else Decimal(number % 10**12) / 100 for number in numbers],
        "is_mobile": [None if number % 3 == 0 else number % 2 == 0 for number in numbers],
        "large": [Decimal(number) / 1000 for number in numbers],
        "uuid": [UUID(int=number % 2**128).bytes for number in numbers],
        "place": [None if number % 19 == 0 else place for number, place in zip(numbers, places, strict=True)],
        "tags": [None if number % 23 == 0 else [*range(number, number + number % 4)] for number in numbers],
    }


def inputs(harness: KernelHarness, count: int = 3, **options: Any) -> list[InputFile]:
    return [harness.write(SCHEMA, rows(seed=seed), **{**WRITTEN, **options}) for seed in range(count)]


def content_of(file: InputFile | OutputFile) -> bytes:
    return Path(file.path.removeprefix("file://")).read_bytes()


def chunks(file: InputFile | OutputFile, group: int = 0) -> list[ColumnChunk]:
    return get_column_chunks(get_row_groups(read_file_metadata(pa.py_buffer(content_of(file))))[group])


def pages(file: InputFile | OutputFile, name: str) -> list[bytes]:
    """The bytes of each leaf of a column in the first row group."""
    data = content_of(file)
    metadata = pq.ParquetFile(pa.BufferReader(content_of(file))).metadata.row_group(0)
    found = [metadata.column(number) for number in range(metadata.num_columns)]
    return [
        data[start : start + chunk.total_compressed_size]
        for chunk in found
        if chunk.path_in_schema.split(".")[0] == name
        for start in [chunk.dictionary_page_offset or chunk.data_page_offset]
    ]


def merged_columns(written: RewriteResult, files: list[InputFile]) -> set[str]:
    """The columns whose bytes are those of the inputs, one after another."""
    (output,) = written.files
    return {
        field["name"]
        for field in SCHEMA["fields"]
        if pages(output, field["name"])
        == [b"".join(parts) for parts in zip(*(pages(file, field["name"]) for file in files), strict=True)]
    }


# Field ids of the column index in parquet.thrift.
BOUNDARY_ORDER, REPETITION_LEVELS, DEFINITION_LEVELS = 4, 6, 7


def read_metadata(file: OutputFile) -> list[tuple[ThriftStruct, Any, ThriftStruct]]:
    """All that a reader may use: each chunk's metadata and page index, without the position of the chunk.

    Level counts, sizes in memory and page counts by encoding are left out.
    """
    data = content_of(file)
    left_out = (COLUMN_ENCODINGS, COLUMN_DATA_PAGE_OFFSET, COLUMN_ENCODING_STATS, COLUMN_SIZE_STATISTICS)
    found = []
    for chunk in chunks(file):
        meta, page_index = get_column_metadata(chunk), read_page_index(data, chunk)
        start = meta[COLUMN_DATA_PAGE_OFFSET][1]
        ranges = [(offset - start, length) for offset, length in list_page_ranges(page_index.offset_index)]
        pages = list(zip(ranges, list_first_rows(page_index.offset_index), strict=True))
        column_index = CompactReader(page_index.column_index).read_struct() if page_index.column_index else {}
        levels = (REPETITION_LEVELS, DEFINITION_LEVELS)
        found.append(
            (
                {key: value for key, value in meta.items() if key not in left_out},
                pages,
                {key: value for key, value in column_index.items() if key not in levels},
            )
        )
    return found


def test_plain_pages_are_copied_from_the_inputs(harness: KernelHarness) -> None:
    files = inputs(harness)
    written, table = harness.run(SCHEMA, files, write_properties=WANTED)
    assert merged_columns(written, files) == PLAIN
    assert table is not None
    expected = pa.concat_tables(pq.read_table(file.path.removeprefix("file://")) for file in files)
    # As text, because NaN does not equal itself.
    assert repr(table.to_pydict()) == repr(expected.to_pydict())
    assert written.copied_bytes == sum(len(data) for file in files for name in PLAIN for data in pages(file, name))
    (output,) = written.files
    assert pq.ParquetFile(pa.BufferReader(content_of(output))).metadata.num_row_groups == 1


def test_metadata_equals_that_of_encoded_columns(harness: KernelHarness) -> None:
    files = inputs(harness)
    merged, _ = harness.run(SCHEMA, files, write_properties=WANTED)
    (first,) = merged.files
    of_merged = read_metadata(first)
    encoded, _ = harness.run(SCHEMA, files, write_properties=replace(WANTED, may_copy_chunks=False))
    (second,) = encoded.files
    assert merged.copied_bytes > encoded.copied_bytes == 0
    names = [get_path(get_column_metadata(chunk)) for chunk in chunks(second)]
    for name, mine, theirs in zip(names, of_merged, read_metadata(second), strict=True):
        assert mine == theirs, name
    assert (first.nan_counts, first.bounds) == (second.nan_counts, second.bounds)
    assert first.nan_counts[3] > 0


def test_first_rows_of_pages_continue_across_files(harness: KernelHarness) -> None:
    written, _ = harness.run(SCHEMA, inputs(harness), write_properties=WANTED)
    (output,) = written.files
    page_index = read_page_index(content_of(output), chunks(output)[0])
    assert list_first_rows(page_index.offset_index) == list(range(0, 3 * ROWS, PAGE_ROWS))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {"may_copy_chunks": False}),
        ({}, {"codec": "gzip"}),
        ({}, {"page_rows": 20 * PAGE_ROWS}),
        ({"max_rows_per_page": PAGE_ROWS // 3}, {}),
        ({"write_page_index": False}, {}),
        ({"write_statistics": False}, {}),
    ],
    ids=["table forbids copying", "codec", "small files", "small pages", "no page index", "no statistics"],
)
def test_pages_that_differ_are_encoded(harness: KernelHarness, options: dict[str, Any], wanted: dict[str, Any]) -> None:
    files = inputs(harness, **options)
    written, table = harness.run(SCHEMA, files, write_properties=replace(WANTED, **wanted))
    assert written.copied_bytes == 0
    assert table is not None
    assert table["id"].to_pylist() == list(range(3 * ROWS))


def test_pages_with_dictionaries_are_not_merged(harness: KernelHarness) -> None:
    files = inputs(harness, use_dictionary=True)
    written, table = harness.run(SCHEMA, files, write_properties=WANTED)
    # No writer uses dictionaries for booleans.
    assert written.copied_bytes == sum(len(data) for file in files for data in pages(file, "is_mobile"))
    assert table is not None
    assert table["id"].to_pylist() == list(range(3 * ROWS))


def test_values_that_are_smaller_as_a_dictionary_get_one(harness: KernelHarness) -> None:
    """Otherwise the files of a writer that uses no dictionaries would stay large forever."""
    files = inputs(harness, use_dictionary=False)
    written, table = harness.run(SCHEMA, files, write_properties=WANTED)
    assert merged_columns(written, files) == PLAIN
    (output,) = written.files
    encodings = pq.ParquetFile(pa.BufferReader(content_of(output))).metadata.row_group(0).column(1).encodings
    assert "RLE_DICTIONARY" in encodings
    assert table is not None
    assert table["word"].to_pylist() == [word for seed in range(3) for word in rows(seed=seed)["word"]]


def test_a_dictionary_in_one_file_makes_only_that_column_encoded(harness: KernelHarness) -> None:
    files = [*inputs(harness, 2), harness.write(SCHEMA, rows(seed=2), **{**WRITTEN, "use_dictionary": ["word", "key"]})]
    written, table = harness.run(SCHEMA, files, write_properties=WANTED)
    assert merged_columns(written, files) == PLAIN - {"key"}
    assert table is not None
    assert table["key"].to_pylist() == [key for seed in range(3) for key in rows(seed=seed)["key"]]


def test_pages_of_both_versions_are_merged(harness: KernelHarness) -> None:
    files = [
        harness.write(SCHEMA, rows(seed=seed), **WRITTEN, data_page_version=version)
        for seed, version in enumerate(("1.0", "2.0"))
    ]
    written, table = harness.run(SCHEMA, files, write_properties=WANTED)
    assert {"id", "key", "tags"} <= merged_columns(written, files)
    assert table is not None
    assert table["tags"].to_pylist() == [tags for seed in range(2) for tags in rows(seed=seed)["tags"]]


def test_row_groups_of_one_file_are_merged_and_its_footer_is_read_once(
    harness: KernelHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    made = merge_pages.InputMetadata
    monkeypatch.setattr(merge_pages, "InputMetadata", lambda source, task: read.append(source) or made(source, task))
    files = [harness.write(SCHEMA, rows(3 * ROWS, seed), row_group_size=ROWS, **WRITTEN) for seed in range(2)]
    written, table = harness.run(SCHEMA, files, write_properties=WANTED)
    assert written.copied_bytes > 0
    assert len(read) == 1 + len(files), "once to find mergeable columns, then once per file"
    assert table is not None
    assert table["id"].to_pylist() == list(range(6 * ROWS))
    assert table["key"].to_pylist() == [key for seed in range(2) for key in rows(3 * ROWS, seed)["key"]]
    (output,) = written.files
    assert pq.ParquetFile(pa.BufferReader(content_of(output))).metadata.num_row_groups == 1


@pytest.mark.parametrize(("sequence_number", "dropped"), [(1, 0), (2, 1)])
def test_pages_of_files_with_deletes_are_not_merged(harness: KernelHarness, sequence_number: int, dropped: int) -> None:
    """The files have sequence number 1, and an equality delete applies only to older files."""
    files = inputs(harness)
    keys = harness.write(schema_of(column(1, "id", "long", required=True)), {"id": [5]})
    delete = DeleteFile(path=keys.path, bytes=keys.bytes, sequence_number=sequence_number, equality_ids=(1,))
    written, table = harness.run(SCHEMA, files, write_properties=WANTED, equality_deletes=(delete,))
    assert written.rows_dropped == dropped
    assert (written.copied_bytes == 0) == bool(dropped)
    assert table is not None
    assert (5 in table["id"].to_pylist()) == (not dropped)


def test_part_of_a_file_is_encoded(harness: KernelHarness) -> None:
    files = inputs(harness, 2)
    written, table = harness.run(SCHEMA, [replace(files[0], start=7), files[1]], write_properties=WANTED)
    assert written.copied_bytes == 0
    assert table is not None
    assert table["id"].to_pylist() == list(range(7, 2 * ROWS))


def test_renamed_columns_are_merged_and_promoted_or_added_ones_are_not(harness: KernelHarness) -> None:
    old = schema_of(column(1, "id", "long"), column(2, "count", "int"))
    new = schema_of(column(2, "count", "long"), column(1, "number", "long"), column(3, "new", "string"))
    files = [
        harness.write(
            old, {"id": list(range(ROWS)), "count": list(range(ROWS))}, **{**WRITTEN, "use_dictionary": False}
        )
        for _ in range(2)
    ]
    written, table = harness.run(new, files, write_properties=WANTED)
    (output,) = written.files
    assert pages(output, "number") == [b"".join(pages(file, "id")[0] for file in files)]
    assert table is not None
    twice = [*range(ROWS)] * 2
    assert table.to_pydict() == {"count": twice, "number": twice, "new": [None] * 2 * ROWS}
    assert table.schema.field("count").type == pa.int64()


def test_row_ids_are_written_beside_merged_columns(harness: KernelHarness) -> None:
    files = [
        harness.write(SCHEMA, rows(seed=seed), first_row_id=1000 * (seed + 1), sequence_number=seed + 3, **WRITTEN)
        for seed in range(2)
    ]
    written, table = harness.run(SCHEMA, files, write_properties=WANTED, lineage=True)
    assert merged_columns(written, files) == PLAIN
    assert table is not None
    assert table["_row_id"].to_pylist() == [*range(1000, 1000 + ROWS), *range(2000, 2000 + ROWS)]
    assert table["_last_updated_sequence_number"].to_pylist() == [3] * ROWS + [4] * ROWS


@pytest.mark.parametrize(
    ("firsts", "order"),
    [((0, 1000, 2000), ASCENDING), ((2000, 1000, 0), UNORDERED), ((0, 2000, 1000), UNORDERED)],
    ids=str,
)
def test_the_boundary_order_of_the_merged_pages(harness: KernelHarness, firsts: tuple[int, ...], order: int) -> None:
    """Pages ascend within each file; in the output they do if the files ascend, too."""
    schema = schema_of(column(1, "id", "long"))
    options = {**WRITTEN, "use_dictionary": False}
    files = [harness.write(schema, {"id": list(range(first, first + ROWS))}, **options) for first in firsts]
    written, _ = harness.run(schema, files, write_properties=WANTED)
    assert written.copied_bytes > 0
    (output,) = written.files
    column_index = read_page_index(content_of(output), chunks(output)[0]).column_index
    assert CompactReader(column_index).read_struct()[BOUNDARY_ORDER][1] == order


NUMBERS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, float("nan"), 1.5, -1.5]), st.floats(allow_nan=True))
SOME = schema_of(
    column(1, "number", "double"),
    column(2, "count", "int"),
    column(3, "text", "string"),
    column(4, "large", "decimal(30,3)"),
    column(5, "list", {"type": "list", "element-id": 6, "element": "double", "element-required": False}),
)


@st.composite
def some_rows(draw: st.DrawFn) -> dict[str, list[Any]]:
    count = draw(st.integers(1, 25))

    def some(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    return {
        "number": some(NUMBERS),
        "count": some(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1))),
        "text": some(st.one_of(st.none(), st.text(max_size=5))),
        "large": some(st.one_of(st.none(), st.decimals(-(10**20), 10**20, places=3))),
        "list": some(st.one_of(st.none(), st.lists(NUMBERS, max_size=3))),
    }


@given(st.lists(some_rows(), min_size=2, max_size=4), st.integers(1, 8), st.sampled_from(["1.0", "2.0"]))
@settings(max_examples=60, deadline=None)
def test_merged_and_encoded_tables_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, contents: list[dict[str, list[Any]]], page_rows: int, version: str
) -> None:
    harness = KernelHarness(tmp_path_factory.mktemp("merging"))
    options = {**WRITTEN, "use_dictionary": False, "max_rows_per_page": page_rows, "data_page_version": version}
    files = [harness.write(SOME, content, **options) for content in contents]
    wanted = replace(WANTED, page_rows=page_rows)
    merged, one = harness.run(SOME, files, write_properties=wanted)
    (first,) = merged.files
    statistics = read_statistics(first)
    encoded, other = harness.run(SOME, files, write_properties=replace(wanted, may_copy_chunks=False))
    (second,) = encoded.files
    assert one is not None
    assert other is not None
    assert repr(one.to_pydict()) == repr(other.to_pydict())
    assert first.nan_counts == second.nan_counts
    assert repr(statistics) == repr(read_statistics(second))
    for number, pair in second.bounds.items():
        assert first.bounds.get(number, pair) == pair


def read_statistics(file: OutputFile) -> list[Any]:
    """The statistics of the columns that are not in lists."""
    metadata = pq.ParquetFile(pa.BufferReader(content_of(file))).metadata.row_group(0)
    found = [metadata.column(number) for number in range(metadata.num_columns)]
    return [chunk.statistics and chunk.statistics.to_dict() for chunk in found if ".list." not in chunk.path_in_schema]
