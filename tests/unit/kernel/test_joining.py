"""Pages that are joined: the very bytes of the inputs, and told of as if they had been encoded anew."""

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
from icepack.kernel.parquet.chunk_writer import (
    CHUNK_META,
    COLUMN_INDEX,
    COLUMNS,
    DATA_PAGE,
    OFFSET_INDEX,
    PAGE_FIRST_ROW,
    PAGE_LOCATIONS,
    PAGE_OFFSET,
    ROW_GROUPS,
    footer,
)
from icepack.kernel.parquet.thrift import Reader, Struct
from icepack.kernel.task import DeleteFile, Input, OutputFile, Writing, Written

from .kernels import Bench, column, schema_of

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
WRITTEN = {
    "compression": "zstd",
    "compression_level": 3,
    "write_page_index": True,
    "write_page_checksum": True,
    "store_decimal_as_integer": True,
    "use_dictionary": ["word"],
    "max_rows_per_page": PAGE_ROWS,
}
"""As Spark's writer leaves such columns."""
WANTED = Writing(codec="zstd", as_found=True, page_rows=PAGE_ROWS)


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


def inputs(bench: Bench, count: int = 3, **options: Any) -> list[Input]:
    return [bench.write(SCHEMA, rows(seed=seed), **{**WRITTEN, **options}) for seed in range(count)]


def content_of(file: Input | OutputFile) -> bytes:
    return Path(file.path.removeprefix("file://")).read_bytes()


def chunks(file: Input | OutputFile, group: int = 0) -> list[Struct]:
    found: list[Struct] = footer(pa.py_buffer(content_of(file)))[ROW_GROUPS][1][1][group][COLUMNS][1][1]
    return found


def pages(file: Input | OutputFile, name: str) -> list[bytes]:
    """Of each leaf of a column, in the first row group."""
    data = content_of(file)
    metadata = pq.ParquetFile(pa.BufferReader(content_of(file))).metadata.row_group(0)
    found = [metadata.column(number) for number in range(metadata.num_columns)]
    return [
        data[start : start + chunk.total_compressed_size]
        for chunk in found
        if chunk.path_in_schema.split(".")[0] == name
        for start in [chunk.dictionary_page_offset or chunk.data_page_offset]
    ]


def joined_columns(written: Written, files: list[Input]) -> set[str]:
    """The columns whose bytes are those of the inputs, one after another."""
    (output,) = written.files
    return {
        field["name"]
        for field in SCHEMA["fields"]
        if pages(output, field["name"])
        == [b"".join(parts) for parts in zip(*(pages(file, field["name"]) for file in files), strict=True)]
    }


def told(file: OutputFile) -> list[tuple[Struct, Struct, Struct]]:
    """All that a reader may go by: each chunk's metadata and page indexes, but for where the chunk lies.

    Left out is what only counts levels, bytes in memory and pages by their encoding.
    """
    data = content_of(file)
    found = []
    for chunk in chunks(file):
        meta = dict(chunk[CHUNK_META][1])
        start = meta[DATA_PAGE][1]
        offsets = Reader(data, chunk[OFFSET_INDEX][1]).struct()
        located = [{**page, PAGE_OFFSET: page[PAGE_OFFSET][1] - start} for page in offsets[PAGE_LOCATIONS][1][1]]
        column_index = Reader(data, chunk[COLUMN_INDEX][1]).struct() if COLUMN_INDEX in chunk else {}
        found.append(
            (
                {key: value for key, value in meta.items() if key not in (2, DATA_PAGE, 13, 16)},
                {"pages": located},
                {key: value for key, value in column_index.items() if key not in (6, 7)},
            )
        )
    return found


def test_plain_pages_are_the_inputs_own(bench: Bench) -> None:
    files = inputs(bench)
    written, table = bench.run(SCHEMA, files, writing=WANTED)
    assert joined_columns(written, files) == PLAIN
    assert table is not None
    expected = pa.concat_tables(pq.read_table(file.path.removeprefix("file://")) for file in files)
    # As text, since a NaN equals nothing.
    assert repr(table.to_pydict()) == repr(expected.to_pydict())
    assert written.copied_bytes == sum(len(data) for file in files for name in PLAIN for data in pages(file, name))
    (output,) = written.files
    assert pq.ParquetFile(pa.BufferReader(content_of(output))).metadata.num_row_groups == 1


def test_what_is_told_of_them_is_what_encoding_would_tell(bench: Bench) -> None:
    files = inputs(bench)
    joined, _ = bench.run(SCHEMA, files, writing=WANTED)
    (first,) = joined.files
    of_joined = told(first)
    encoded, _ = bench.run(SCHEMA, files, writing=replace(WANTED, as_found=False))
    (second,) = encoded.files
    assert joined.copied_bytes > encoded.copied_bytes == 0
    names = [field for chunk in chunks(second) for field in [chunk[CHUNK_META][1][3][1][1]]]
    for name, mine, theirs in zip(names, of_joined, told(second), strict=True):
        assert mine == theirs, name
    assert (first.nan_counts, first.bounds) == (second.nan_counts, second.bounds)
    assert first.nan_counts[3] > 0


def test_first_rows_of_pages_count_on(bench: Bench) -> None:
    written, _ = bench.run(SCHEMA, inputs(bench), writing=WANTED)
    (output,) = written.files
    offsets = Reader(content_of(output), chunks(output)[0][OFFSET_INDEX][1]).struct()
    firsts = [page[PAGE_FIRST_ROW][1] for page in offsets[PAGE_LOCATIONS][1][1]]
    assert firsts == list(range(0, 3 * ROWS, PAGE_ROWS))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {"as_found": False}),
        ({}, {"codec": "gzip"}),
        ({}, {"page_rows": 20 * PAGE_ROWS}),
        ({"max_rows_per_page": PAGE_ROWS // 3}, {}),
        ({"write_page_index": False}, {}),
        ({"write_statistics": False}, {}),
    ],
    ids=["the table says how", "codec", "small files", "small pages", "no page index", "no statistics"],
)
def test_pages_that_are_otherwise_are_encoded(bench: Bench, options: dict[str, Any], wanted: dict[str, Any]) -> None:
    files = inputs(bench, **options)
    written, table = bench.run(SCHEMA, files, writing=replace(WANTED, **wanted))
    assert written.copied_bytes == 0
    assert table is not None
    assert table["id"].to_pylist() == list(range(3 * ROWS))


def test_dictionaries_are_not_joined(bench: Bench) -> None:
    files = inputs(bench, use_dictionary=True)
    written, table = bench.run(SCHEMA, files, writing=WANTED)
    # No writer has a dictionary of these.
    assert written.copied_bytes == sum(len(data) for file in files for data in pages(file, "is_mobile"))
    assert table is not None
    assert table["id"].to_pylist() == list(range(3 * ROWS))


def test_values_that_are_smaller_as_a_dictionary_get_one(bench: Bench) -> None:
    """A writer may have no use for dictionaries; what it leaves would stay large for ever."""
    files = inputs(bench, use_dictionary=False)
    written, table = bench.run(SCHEMA, files, writing=WANTED)
    assert joined_columns(written, files) == PLAIN
    (output,) = written.files
    encodings = pq.ParquetFile(pa.BufferReader(content_of(output))).metadata.row_group(0).column(1).encodings
    assert "RLE_DICTIONARY" in encodings
    assert table is not None
    assert table["word"].to_pylist() == [word for seed in range(3) for word in rows(seed=seed)["word"]]


def test_one_file_with_a_dictionary_has_the_column_encoded_and_no_other(bench: Bench) -> None:
    files = [*inputs(bench, 2), bench.write(SCHEMA, rows(seed=2), **{**WRITTEN, "use_dictionary": ["word", "key"]})]
    written, table = bench.run(SCHEMA, files, writing=WANTED)
    assert joined_columns(written, files) == PLAIN - {"key"}
    assert table is not None
    assert table["key"].to_pylist() == [key for seed in range(3) for key in rows(seed=seed)["key"]]


def test_pages_of_both_kinds_stand_side_by_side(bench: Bench) -> None:
    files = [
        bench.write(SCHEMA, rows(seed=seed), **WRITTEN, data_page_version=version)
        for seed, version in enumerate(("1.0", "2.0"))
    ]
    written, table = bench.run(SCHEMA, files, writing=WANTED)
    assert {"id", "key", "tags"} <= joined_columns(written, files)
    assert table is not None
    assert table["tags"].to_pylist() == [tags for seed in range(2) for tags in rows(seed=seed)["tags"]]


def test_row_groups_of_one_file_are_joined_too_and_its_footer_is_read_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    made = merge_pages.StoredFile
    monkeypatch.setattr(merge_pages, "StoredFile", lambda source, task: read.append(source) or made(source, task))
    files = [bench.write(SCHEMA, rows(3 * ROWS, seed), row_group_size=ROWS, **WRITTEN) for seed in range(2)]
    written, table = bench.run(SCHEMA, files, writing=WANTED)
    assert written.copied_bytes > 0
    assert len(read) == 1 + len(files), "one to see which columns may be joined, then each"
    assert table is not None
    assert table["id"].to_pylist() == list(range(6 * ROWS))
    assert table["key"].to_pylist() == [key for seed in range(2) for key in rows(3 * ROWS, seed)["key"]]
    (output,) = written.files
    assert pq.ParquetFile(pa.BufferReader(content_of(output))).metadata.num_row_groups == 1


@pytest.mark.parametrize(("sequence_number", "dropped"), [(1, 0), (2, 1)])
def test_deletes_that_apply_keep_pages_from_being_joined(bench: Bench, sequence_number: int, dropped: int) -> None:
    """The files have sequence number 1, and an equality delete applies to older ones alone."""
    files = inputs(bench)
    keys = bench.write(schema_of(column(1, "id", "long", required=True)), {"id": [5]})
    delete = DeleteFile(path=keys.path, bytes=keys.bytes, sequence_number=sequence_number, equality_ids=(1,))
    written, table = bench.run(SCHEMA, files, writing=WANTED, equality_deletes=(delete,))
    assert written.rows_dropped == dropped
    assert (written.copied_bytes == 0) == bool(dropped)
    assert table is not None
    assert (5 in table["id"].to_pylist()) == (not dropped)


def test_part_of_a_file_is_encoded(bench: Bench) -> None:
    files = inputs(bench, 2)
    written, table = bench.run(SCHEMA, [replace(files[0], start=7), files[1]], writing=WANTED)
    assert written.copied_bytes == 0
    assert table is not None
    assert table["id"].to_pylist() == list(range(7, 2 * ROWS))


def test_a_column_that_was_renamed_is_joined_and_one_that_was_promoted_or_added_is_not(bench: Bench) -> None:
    old = schema_of(column(1, "id", "long"), column(2, "count", "int"))
    new = schema_of(column(2, "count", "long"), column(1, "number", "long"), column(3, "new", "string"))
    files = [
        bench.write(old, {"id": list(range(ROWS)), "count": list(range(ROWS))}, **{**WRITTEN, "use_dictionary": False})
        for _ in range(2)
    ]
    written, table = bench.run(new, files, writing=WANTED)
    (output,) = written.files
    assert pages(output, "number") == [b"".join(pages(file, "id")[0] for file in files)]
    assert table is not None
    twice = [*range(ROWS)] * 2
    assert table.to_pydict() == {"count": twice, "number": twice, "new": [None] * 2 * ROWS}
    assert table.schema.field("count").type == pa.int64()


def test_row_ids_are_written_beside_what_is_joined(bench: Bench) -> None:
    files = [
        bench.write(SCHEMA, rows(seed=seed), first_row_id=1000 * (seed + 1), sequence_number=seed + 3, **WRITTEN)
        for seed in range(2)
    ]
    written, table = bench.run(SCHEMA, files, writing=WANTED, lineage=True)
    assert joined_columns(written, files) == PLAIN
    assert table is not None
    assert table["_row_id"].to_pylist() == [*range(1000, 1000 + ROWS), *range(2000, 2000 + ROWS)]
    assert table["_last_updated_sequence_number"].to_pylist() == [3] * ROWS + [4] * ROWS


@pytest.mark.parametrize(
    ("firsts", "order"), [((0, 1000, 2000), 1), ((2000, 1000, 0), 0), ((0, 2000, 1000), 0)], ids=str
)
def test_pages_that_follow_one_another_are_said_to(bench: Bench, firsts: tuple[int, ...], order: int) -> None:
    """Within each file they rise; they do so in the output where the files rise, too."""
    schema = schema_of(column(1, "id", "long"))
    options = {**WRITTEN, "use_dictionary": False}
    files = [bench.write(schema, {"id": list(range(first, first + ROWS))}, **options) for first in firsts]
    written, _ = bench.run(schema, files, writing=WANTED)
    assert written.copied_bytes > 0
    (output,) = written.files
    index = Reader(content_of(output), chunks(output)[0][COLUMN_INDEX][1]).struct()
    assert index[4][1] == order


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
def test_joined_or_encoded_the_table_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, contents: list[dict[str, list[Any]]], page_rows: int, version: str
) -> None:
    bench = Bench(tmp_path_factory.mktemp("joining"))
    options = {**WRITTEN, "use_dictionary": False, "max_rows_per_page": page_rows, "data_page_version": version}
    files = [bench.write(SOME, content, **options) for content in contents]
    wanted = replace(WANTED, page_rows=page_rows)
    joined, one = bench.run(SOME, files, writing=wanted)
    (first,) = joined.files
    statistics = stated(first)
    encoded, other = bench.run(SOME, files, writing=replace(wanted, as_found=False))
    (second,) = encoded.files
    assert one is not None
    assert other is not None
    assert repr(one.to_pydict()) == repr(other.to_pydict())
    assert first.nan_counts == second.nan_counts
    assert repr(statistics) == repr(stated(second))
    for number, pair in second.bounds.items():
        assert first.bounds.get(number, pair) == pair


def stated(file: OutputFile) -> list[Any]:
    """What a footer tells of the columns that are not in lists."""
    metadata = pq.ParquetFile(pa.BufferReader(content_of(file))).metadata.row_group(0)
    found = [metadata.column(number) for number in range(metadata.num_columns)]
    return [chunk.statistics and chunk.statistics.to_dict() for chunk in found if ".list." not in chunk.path_in_schema]
