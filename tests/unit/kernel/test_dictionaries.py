"""Texts that are read as dictionaries, also inside structs, lists and maps: the rows and what is told of them stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepack.kernel.arrow_schema import arrow_schema, leaf_paths
from icepack.kernel.input_file import Layouts
from icepack.kernel.live_rows import Rows
from icepack.kernel.parquet.chunk_writer import CHUNK_META, STATISTICS, encode
from icepack.kernel.parquet.dictionaries import has_dictionary, has_own_nulls, plain, stored_as, together
from icepack.kernel.parquet.encoding import Encodings
from icepack.kernel.parquet.statistics import NULLS
from icepack.kernel.parquet.thrift import Reader
from icepack.kernel.storage import Storage
from icepack.kernel.task import DeleteFile, Input, Task
from icepack.kernel.thread_pool import Crew

from .kernels import Bench, column, schema_of

PLACE = {"type": "struct", "fields": [column(5, "city", "string"), column(6, "code", "binary")]}
LINE = {"type": "struct", "fields": [column(9, "sku", "string", required=True), column(10, "count", "int")]}
SCHEMA = schema_of(
    column(1, "id", "long"),
    column(2, "word", "string"),
    column(3, "who", {"type": "struct", "fields": [column(4, "place", PLACE), column(7, "name", "string")]}),
    column(8, "lines", {"type": "list", "element-id": 11, "element": LINE, "element-required": False}),
    column(12, "tags", {"type": "list", "element-id": 13, "element": "string", "element-required": False}),
    column(14, "labels", {"type": "map", "key-id": 15, "key": "string", "value-id": 16, "value": "string",
                          "value-required": False}),
)  # fmt: skip
WORDS = st.sampled_from(["", "a", "b", "ä", "a long word that comes again and again"])


def struct_of(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.fixed_dictionaries(parts)


ROW = st.fixed_dictionaries(
    {
        "id": st.integers(0, 9),
        "word": st.none() | WORDS,
        "who": struct_of(
            place=struct_of(city=st.none() | WORDS, code=st.none() | WORDS.map(str.encode)), name=st.none() | WORDS
        ),
        "lines": st.none() | st.lists(struct_of(sku=WORDS, count=st.none() | st.integers(0, 3)), max_size=3),
        "tags": st.none() | st.lists(st.none() | WORDS, max_size=3),
        "labels": st.none() | st.dictionaries(WORDS, st.none() | WORDS, max_size=3).map(lambda pairs: [*pairs.items()]),
    }
)


def columns(rows: list[dict[str, Any]], times: int = 1) -> dict[str, list[Any]]:
    return {field["name"]: [row[field["name"]] for row in rows] * times for field in SCHEMA["fields"]}


def kinds_read(inputs: list[Input], **more: Any) -> dict[str, bool]:
    """Of each column whether it is read with a dictionary, as the rewrite reads it."""
    task, storage = Task(outputs=("",), schema=SCHEMA, inputs=tuple(inputs), **more), Storage({})
    schema = arrow_schema(SCHEMA)
    layouts = Layouts(None, task.schema["fields"])
    rows = Rows(task, storage, schema, layouts, Encodings(task, storage, layouts).dictionary_names, Crew(1))
    found = rows.columns(rows.select(list(rows.pieces())), list(schema))
    return {field.name: has_dictionary(read.type) for field, read in zip(schema, found, strict=True)}


@given(st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=1, max_size=4), st.integers(1, 40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_rows_stay_as_they_are(files: list[list[dict[str, Any]]], times: int, one_is_plain: bool) -> None:
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        inputs = [
            bench.write(SCHEMA, columns(rows, times), use_dictionary=not (one_is_plain and number == 1))
            for number, rows in enumerate(files)
        ]
        _, table = bench.run(SCHEMA, inputs)
        assert table is not None
        expected = pa.concat_tables(pq.read_table(file.path.removeprefix("file://")) for file in inputs)
        assert table.to_pylist() == expected.to_pylist()


def some_rows(count: int = 200) -> dict[str, list[Any]]:
    rows = [
        {
            "id": number,
            "word": f"w{number % 5}",
            "who": None if number % 7 == 0 else {"place": {"city": f"c{number % 3}", "code": b"x"}, "name": "n"},
            "lines": [{"sku": f"s{number % 4}", "count": number}] * (number % 3),
            "tags": None if number % 5 == 0 else [f"t{number % 6}", None],
            "labels": [(f"k{number % 2}", f"v{number % 9}")],
        }
        for number in range(count)
    ]
    return columns(rows)


def test_texts_are_dictionaries_wherever_they_lie(bench: Bench) -> None:
    inputs = [bench.write(SCHEMA, some_rows()), bench.write(SCHEMA, some_rows(300))]
    assert kinds_read(inputs) == {
        "id": False, "word": True, "who": True, "lines": False, "tags": True, "labels": True,
    }  # fmt: skip


def test_inside_other_types_they_are_none_where_rows_are_deleted_or_sorted(bench: Bench) -> None:
    inputs = [bench.write(SCHEMA, some_rows())]
    deletes = bench.add(pa.table({"file_path": [inputs[0].path], "pos": pa.array([3], pa.int64())}))
    position = DeleteFile(path=deletes.path, bytes=deletes.bytes)
    read = kinds_read([replace(inputs[0], position_deletes=(0,))], position_deletes=(position,))
    assert [name for name, is_one in read.items() if is_one] == ["word"]
    order = {"kind": "sort", "keys": [{"field_id": 1, "descending": False, "nulls_first": True}]}
    assert [name for name, is_one in kinds_read(inputs, order=order).items() if is_one] == ["word"]


def test_rows_of_a_part_of_a_file_bring_no_entries_of_the_others(bench: Bench) -> None:
    whole = bench.write(SCHEMA, some_rows())
    assert kinds_read([replace(whole, stop=50)])["tags"] is False
    bench.run(SCHEMA, [replace(whole, start=0, stop=1)])
    assert b"v8" not in (bench.folder / "out.parquet").read_bytes()


def test_a_struct_that_was_changed_inside_is_read_by_its_ids(bench: Bench) -> None:
    renamed = {"type": "struct", "fields": [column(10, "count", "long"), column(9, "article", "string", required=True)]}
    lines = column(8, "lines", {"type": "list", "element-id": 11, "element": renamed, "element-required": False})
    now = schema_of(lines)
    older = bench.write(schema_of(SCHEMA["fields"][3]), {"lines": some_rows()["lines"]})
    newer = bench.write(now, {"lines": [[{"article": "new", "count": 2**40}]] * 50})
    for inputs in ([older, newer], [newer, older, newer]):
        _, table = bench.run(now, inputs)
        assert table is not None
        rows = table["lines"].to_pylist()
        assert rows.count([{"count": 2**40, "article": "new"}]) == 50 * (len(inputs) - 1)
        assert [{"count": 1, "article": "s1"}] in rows


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_file_that_stores_texts_by_their_differences_lies_among_others(
    bench: Bench, encoding: str, threads: int
) -> None:
    """PyArrow makes no dictionary of them, and says so only when it is asked to read."""
    paths = [path for field in arrow_schema(SCHEMA) for path in leaf_paths(field.name, field.type)]
    texts = [path for path in paths if path not in ("id", "lines.list.element.count")]
    differing = {"use_dictionary": False, "column_encoding": dict.fromkeys(texts, encoding), "row_group_size": 40}
    options: list[dict[str, Any]] = [{}, differing, {}, {}, {}]
    inputs = [bench.write(SCHEMA, some_rows(100 + number), **more) for number, more in enumerate(options)]
    _, table = bench.run(SCHEMA, inputs, threads=threads)
    assert table is not None
    assert table.to_pylist() == [
        row for file in inputs for row in pq.read_table(file.path.removeprefix("file://")).to_pylist()
    ]


def test_a_file_that_cannot_be_read_is_an_error_all_the_same(bench: Bench) -> None:
    inputs = [bench.write(SCHEMA, some_rows()) for _ in range(5)]
    damaged = Path(inputs[1].path.removeprefix("file://"))
    data = bytearray(damaged.read_bytes())
    data[4:400] = bytes(396)
    damaged.write_bytes(data)
    with pytest.raises(OSError, match=r"page header|deserialize|thrift|corrupt"):
        bench.run(SCHEMA, inputs)


def test_a_part_without_the_dictionary_makes_all_of_it_plain() -> None:
    field = arrow_schema(SCHEMA).field("tags")
    words = pa.array([["a"], None, ["b", None]], field.type)
    indices, dictionary = pa.array([0, 1, None], pa.int32()), pa.array(["a", "b"])
    coded = pa.ListArray.from_arrays(
        pa.array([0, None, 1, 3], pa.int32()),
        pa.DictionaryArray.from_arrays(indices, dictionary),
        type=stored_as(field, pa.list_(pa.dictionary(pa.int32(), pa.string()))).type,
    )
    mixed = together([pa.chunked_array([coded]), pa.chunked_array([words])], field.type)
    assert mixed.type == field.type
    assert mixed.to_pylist() == [["a"], None, ["b", None]] * 2
    assert has_dictionary(together([pa.chunked_array([coded])] * 2, field.type).type)


def told(field: pa.Field, values: pa.ChunkedArray, page_rows: int) -> tuple[list[Any], list[Any]]:
    options = {"store_schema": False, "write_page_index": True, "max_rows_per_page": page_rows}
    made = encode(values, pa.schema([field]), {**options, "use_dictionary": True})
    statistics = [chunk[CHUNK_META][1][STATISTICS][1] for chunk in made.chunks]
    indexes = [Reader(index).struct() if index else None for index, _ in made.indexes]
    return statistics, indexes


@given(st.lists(ROW, min_size=1, max_size=8), st.integers(20, 60), st.integers(3, 50))
@settings(max_examples=60, deadline=None)
def test_what_is_told_of_texts_inside_is_what_pyarrow_tells_of_them(
    rows: list[dict[str, Any]], times: int, page_rows: int
) -> None:
    """In structs all of it, but for the pages' levels; in lists and maps how many are null."""
    for field in arrow_schema(SCHEMA):
        values = pa.chunked_array([pa.array(columns(rows, times)[field.name], field.type)])
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table([values], schema=pa.schema([field])), sink, store_schema=False)
        paths = leaf_paths(field.name, field.type)
        # The one that is required is left out, as it is by the rewrite: see the next test.
        texts = [path for path in paths if path != "lines.list.element.sku"]
        read = pq.ParquetFile(sink.getvalue(), read_dictionary=texts).read().column(0)
        assert plain(read).to_pylist() == values.to_pylist()
        (ours, indexes), (theirs, expected) = told(field, read, page_rows), told(field, values, page_rows)
        for path, mine, own, index, whole in zip(paths, ours, theirs, indexes, expected, strict=True):
            assert mine[NULLS] == own[NULLS], path
            if not {"list", "key_value"} & set(path.split(".")):
                assert mine == own, path
                assert {key: index[key] for key in range(1, 6)} == {key: whole[key] for key in range(1, 6)}, path


def test_a_required_text_in_a_struct_that_may_be_null_is_none() -> None:
    """PyArrow gives rows without the struct the first entry of a dictionary, even of an empty one."""
    field = arrow_schema(SCHEMA).field("lines")
    assert list(has_own_nulls(field)) == [False, True]
    required = pa.field("a", pa.struct([field.type.value_field.with_nullable(False)]), nullable=False)
    assert list(has_own_nulls(required)) == [True, True]
    assert list(has_own_nulls(required.with_nullable(True))) == [False, True]
    assert list(has_own_nulls(arrow_schema(SCHEMA).field("labels"))) == [True, True]


def test_a_text_that_was_required_in_older_files_is_none_there(bench: Bench) -> None:
    """Rows without the struct refer to an entry of a dictionary that is empty, which only this file has."""

    def schema(*, required: bool) -> Any:
        inside = {"type": "struct", "fields": [column(2, "name", "string", required=required)]}
        return schema_of(column(1, "who", inside))

    older = bench.write(schema(required=True), {"who": [None, None]})
    newer = bench.write(schema(required=False), {"who": [{"name": "a"}, {"name": None}, None] * 20})
    for inputs in ([newer, older, newer, newer, newer], [older, newer]):
        _, table = bench.run(schema(required=False), inputs)
        assert table is not None
        assert sorted(table["who"].to_pylist(), key=str) == sorted(
            [None, None, *[{"name": "a"}, {"name": None}, None] * 20 * (len(inputs) - 1)], key=str
        )
