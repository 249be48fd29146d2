"""Which Parquet files are rewritten: those in a form that is on the list, and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.arrow_schema import Uncovered
from icepack.kernel.file_coverage import is_allowed_leaf
from icepack.kernel.parquet.chunk_writer import CHUNK_META, COLUMNS, PATH, ROW_GROUPS, SCHEMA, footer
from icepack.kernel.parquet.file_schema import Node, parse_schema
from icepack.kernel.parquet.footer import KnownSchemas, metadata_of
from icepack.kernel.parquet.thrift import BINARY, I32, LIST, Struct, write_struct
from icepack.kernel.task import DeleteFile, Input

from .kernels import Bench, Json, column, schema_of

PRIMITIVES = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ns",
    "timestamptz_ns",
    "string",
    "binary",
    "uuid",
    "fixed[16]",
    "decimal(9,2)",
]
ID = b"PARQUET:field_id"


def identified(number: int, kind: pa.DataType, name: str = "c", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {ID: str(number)})


def file_of(bench: Bench, *columns: tuple[pa.Field, Any], **options: Any) -> Input:
    """Written with the Arrow schema beside Parquet's, as PyArrow and Polars do."""
    path = bench.folder / f"file-{len(list(bench.folder.iterdir()))}.parquet"
    schema = pa.schema([field for field, _ in columns])
    arrays = [values if isinstance(values, pa.Array) else pa.array(values, field.type) for field, values in columns]
    table = pa.table(arrays, schema=schema)
    pq.write_table(table, path, **options)
    return Input(path=path.as_uri(), bytes=path.stat().st_size, records=table.num_rows, sequence_number=1)


def list_of(number: int, kind: Any) -> Json:
    return {"type": "list", "element-id": number, "element": kind, "element-required": False}


def struct_of(*parts: Json) -> Json:
    return {"type": "struct", "fields": list(parts)}


STORED: dict[str, list[tuple[pa.DataType, Any]]] = {
    "unsigned": [(pa.uint8(), 1), (pa.uint16(), 1), (pa.uint32(), 1), (pa.uint64(), 1)],
    "milliseconds": [(pa.timestamp("ms"), 1), (pa.timestamp("ms", "UTC"), 1), (pa.time32("ms"), 1)],
    "binary": [(pa.binary(), b"x")],
    "text": [(pa.string(), "x")],
    "half": [(pa.float16(), 1.0)],
    "bytes": [(pa.binary(16), b"x" * 16)],
    "null": [(pa.null(), None)],
}
NOT_ALLOWED = [
    ("long", STORED["unsigned"]),
    ("int", STORED["unsigned"]),
    ("timestamp", STORED["milliseconds"]),
    ("timestamptz", STORED["milliseconds"]),
    ("time", STORED["milliseconds"]),
    ("timestamp_ns", [(pa.timestamp("us"), 1)]),
    ("timestamp", [(pa.timestamp("ns"), 1), (pa.timestamp("us", "UTC"), 1)]),
    ("timestamptz", [(pa.timestamp("us"), 1)]),
    ("string", STORED["binary"]),
    ("binary", STORED["text"]),
    ("uuid", STORED["bytes"]),
    ("fixed[16]", [(pa.uuid(), b"x" * 16), (pa.binary(8), b"x" * 8)]),
    ("fixed[2]", STORED["half"]),
    ("float", STORED["half"]),
    ("int", [(pa.int64(), 1), (pa.date32(), 1), *STORED["null"]]),
    ("date", [(pa.int32(), 1)]),
    ("float", [(pa.float64(), 1.0)]),
    ("decimal(9,2)", [(pa.decimal128(10, 2), 1), (pa.decimal128(9, 3), 1), (pa.int32(), 1)]),
    ("long", [(pa.struct([identified(2, pa.int64())]), {"c": 1}), (pa.list_(pa.int64()), [1])]),
]
CASES = [(kind, stored, value) for kind, pairs in NOT_ALLOWED for stored, value in pairs]


@pytest.mark.parametrize(("kind", "stored", "value"), CASES, ids=[f"{kind}-{stored}" for kind, stored, _ in CASES])
def test_a_column_stored_in_another_form_is_refused_at_any_depth(
    bench: Bench, kind: str, stored: pa.DataType, value: Any
) -> None:
    alone = file_of(bench, (identified(1, stored), [value]))
    with pytest.raises(Uncovered, match=r"column c stored as|column c: "):
        bench.run(schema_of(column(1, "c", kind)), [alone])
    member = pa.StructArray.from_arrays([pa.array([value], stored)], fields=[identified(3, stored)])
    kind_of_list = pa.list_(identified(2, member.type, "element"))
    deep = file_of(bench, (identified(1, kind_of_list), pa.ListArray.from_arrays([0, 1], member, type=kind_of_list)))
    with pytest.raises(Uncovered, match=r"column c.element.c"):
        bench.run(schema_of(column(1, "c", list_of(2, struct_of(column(3, "c", kind))))), [deep])


@pytest.mark.parametrize("kind", PRIMITIVES)
@pytest.mark.parametrize("physical", ["INT32", "INT64", "INT96", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"])
@pytest.mark.parametrize(
    "annotation", ["", "ENUM", "JSON", "BSON", "INTERVAL", "UNKNOWN", "LOGICAL_99", "CONVERTED_99"]
)
def test_annotations_that_nobody_has_thought_of_are_refused(kind: str, physical: str, annotation: str) -> None:
    length = 16 if physical == "FIXED_LEN_BYTE_ARRAY" else 0
    node = Node("c", 0, physical, length, annotation, 1, ())
    allowed = {
        ("int", "INT32"),
        ("long", "INT32"),
        ("long", "INT64"),
        ("binary", "BYTE_ARRAY"),
        ("fixed[16]", "FIXED_LEN_BYTE_ARRAY"),
    }
    assert is_allowed_leaf(node, kind) is (not annotation and (kind, physical) in allowed)


def test_decimals_in_byte_arrays_are_refused() -> None:
    def stored(physical: str, precision: int, length: int = 0) -> Node:
        return Node("c", 0, physical, length, f"DECIMAL({precision},2)", 1, (), precision, 2)

    assert is_allowed_leaf(stored("INT32", 9), "decimal(9,2)")
    assert is_allowed_leaf(stored("INT64", 9), "decimal(38,2)")
    assert is_allowed_leaf(stored("FIXED_LEN_BYTE_ARRAY", 38, 16), "decimal(38,2)")
    assert not is_allowed_leaf(stored("BYTE_ARRAY", 9), "decimal(9,2)")
    assert not is_allowed_leaf(stored("INT32", 10), "decimal(38,2)")
    assert not is_allowed_leaf(stored("FIXED_LEN_BYTE_ARRAY", 38, 17), "decimal(38,2)")


def test_timestamps_of_96_bits_are_refused(bench: Bench) -> None:
    file = file_of(bench, (identified(1, pa.timestamp("us")), [1]), use_deprecated_int96_timestamps=True)
    with pytest.raises(Uncovered, match="stored as INT96"):
        bench.run(schema_of(column(1, "c", "timestamp")), [file])


def test_a_column_that_the_table_has_no_more_may_be_stored_in_any_form(bench: Bench) -> None:
    dropped = identified(2, pa.timestamp("ms"), "dropped")
    file = file_of(bench, (dropped, [1]), (identified(1, pa.int64()), [7]))
    _, table = bench.run(schema_of(column(1, "c", "long")), [file])
    assert table is not None
    assert table.to_pylist() == [{"c": 7}]


ARROW_TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(identified(2, pa.int64(), "element"), 2), [[1, 2], [3, 4]]),
    (pa.list_view(identified(2, pa.int64(), "element")), [[1], None]),
    (pa.large_list(identified(2, pa.int64(), "element")), [[1, None], []]),
]


@pytest.mark.parametrize(("stored", "values"), ARROW_TYPES, ids=[str(kind) for kind, _ in ARROW_TYPES])
def test_lists_of_arrows_own_kinds_are_lists(bench: Bench, stored: pa.DataType, values: list[Any]) -> None:
    file = file_of(bench, (identified(1, stored), values), (identified(3, pa.int64(), "after"), [8, 9]))
    assert pq.read_schema(file.path.removeprefix("file://")).field(0).type == stored
    _, table = bench.run(schema_of(column(1, "c", list_of(2, "long")), column(3, "after", "long")), [file])
    assert table is not None
    assert table.to_pydict() == {"c": values, "after": [8, 9]}


MEMBERS = pa.struct([identified(3, pa.int64(), "x"), identified(4, pa.int64(), "y")])
WITH_STRUCTS = [
    pa.list_(identified(2, MEMBERS, "element"), 1),
    pa.list_view(identified(2, MEMBERS, "element")),
    pa.large_list(identified(2, MEMBERS, "element")),
]


@pytest.mark.parametrize("stored", WITH_STRUCTS, ids=map(str, WITH_STRUCTS))
@pytest.mark.parametrize("is_used", [True, False])
def test_columns_behind_a_list_of_structs_keep_their_own_values(
    bench: Bench, stored: pa.DataType, is_used: bool
) -> None:
    values = [[{"x": 1, "y": 2}], [{"x": 3, "y": 4}]]
    columns = [(identified(1, stored, "a"), values), (identified(5, pa.int64(), "b"), [10, 11])]
    file = file_of(bench, *columns, (identified(6, pa.int64(), "c"), [7, 8]))
    inside = list_of(2, struct_of(column(3, "x", "long"), column(4, "y", "long")))
    wanted = [column(1, "a", inside)] if is_used else []
    _, table = bench.run(schema_of(*wanted, column(5, "b", "long"), column(6, "c", "long")), [file])
    assert table is not None
    expected = {"b": [10, 11], "c": [7, 8]}
    assert table.to_pydict() == ({"a": values, **expected} if is_used else expected)


@pytest.mark.parametrize(
    ("stored", "kind", "value"),
    [
        (pa.large_string(), "string", "x"),
        (pa.string_view(), "string", "x"),
        (pa.dictionary(pa.int8(), pa.string()), "string", "x"),
        (pa.large_binary(), "binary", b"x"),
        (pa.binary_view(), "binary", b"x"),
        (pa.duration("us"), "long", 5),
        (pa.int8(), "int", -5),
        (pa.int16(), "long", -5),
        (pa.timestamp("us", "Europe/Berlin"), "timestamptz", 5),
    ],
    ids=str,
)
def test_other_types_of_arrows_are_what_parquet_says(bench: Bench, stored: pa.DataType, kind: str, value: Any) -> None:
    file = file_of(bench, (identified(1, stored), [value, None]))
    _, table = bench.run(schema_of(column(1, "c", kind)), [file])
    assert table is not None
    expected = 5 if kind in ("long", "timestamptz") and value == 5 else value
    found = table["c"].cast(pa.int64()) if kind == "timestamptz" else table["c"]
    assert found.to_pylist() == [expected, None]


def test_a_column_that_is_named_like_the_key_of_arrows_schema(bench: Bench) -> None:
    field = pa.field("ARROW:schema", pa.list_(pa.int64(), 1))
    file = file_of(bench, (field, [[1], [2]]))
    names = [{"field-id": 1, "names": ["ARROW:schema"], "fields": [{"field-id": 2, "names": ["element"]}]}]
    _, table = bench.run(schema_of(column(1, "c", list_of(2, "long"))), [file], name_mapping=names)
    assert table is not None
    assert table["c"].to_pylist() == [[1], [2]]


def changed(file: Input, change: Any) -> Input:
    """The same file with another schema in its footer."""
    path = Path(file.path.removeprefix("file://"))
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    found = footer(pa.py_buffer(data))
    change(found[SCHEMA][1][1])
    for group in found[ROW_GROUPS][1][1]:
        for chunk, leaf in zip(group[COLUMNS][1][1], parse_schema(write_struct(found)).paths, strict=True):
            chunk[CHUNK_META][1][PATH] = (LIST, (BINARY, [name.encode() for name in leaf.split(".")]))
    tail = write_struct(found)
    path.write_bytes(data[: -8 - length] + tail + len(tail).to_bytes(4, "little") + b"PAR1")
    return Input(path=file.path, bytes=path.stat().st_size, records=file.records, sequence_number=1)


def renamed(elements: list[Struct], before: str, after: str) -> None:
    for element in elements:
        if element[4][1] == before.encode():
            element[4] = (BINARY, after.encode())


def a_list(bench: Bench) -> tuple[Json, Input]:
    stored = pa.list_(identified(2, pa.int64(), "element"))
    return schema_of(column(1, "c", list_of(2, "long"))), file_of(bench, (identified(1, stored), [[1], None]))


@pytest.mark.parametrize(("middle", "element"), [("list", "item"), ("bag", "array_element"), ("list", "element")])
def test_lists_by_the_names_that_writers_give_them(bench: Bench, middle: str, element: str) -> None:
    schema, file = a_list(bench)
    file = changed(file, lambda found: (renamed(found, "list", middle), renamed(found, "element", element)))
    _, table = bench.run(schema, [file])
    assert table is not None
    assert table["c"].to_pylist() == [[1], None]


@pytest.mark.parametrize(("middle", "element"), [("array", "element"), ("c_tuple", "element"), ("list", "array")])
def test_lists_by_other_names_are_refused(bench: Bench, middle: str, element: str) -> None:
    schema, file = a_list(bench)
    file = changed(file, lambda found: (renamed(found, "list", middle), renamed(found, "element", element)))
    with pytest.raises(Uncovered, match="a list with the levels"):
        bench.run(schema, [file])


def without_annotation(elements: list[Struct]) -> None:
    for key in (6, 10):
        elements[1].pop(key, None)


def two_level(elements: list[Struct]) -> None:
    """`repeated int64 element` right inside the group that is annotated as a list."""
    elements[3][3] = (I32, 2)
    del elements[2]


@pytest.mark.parametrize("change", [without_annotation, two_level])
def test_lists_in_other_forms_are_refused(bench: Bench, change: Any) -> None:
    schema, file = a_list(bench)
    with pytest.raises(Uncovered, match="column c"):
        bench.run(schema, [changed(file, change)])


def a_map(bench: Bench) -> tuple[Json, Input]:
    stored = pa.map_(identified(2, pa.string(), "key", nullable=False), identified(3, pa.int64(), "value"))
    kind = {"type": "map", "key-id": 2, "key": "string", "value-id": 3, "value": "long", "value-required": False}
    return schema_of(column(1, "c", kind)), file_of(bench, (identified(1, stored), [[("k", 1)], None]))


def optional_key(elements: list[Struct]) -> None:
    elements[3][3] = (I32, 1)


def annotated_as_key_value(elements: list[Struct]) -> None:
    without_annotation(elements)
    elements[1][6] = (I32, 2)


@pytest.mark.parametrize(
    "change",
    [
        optional_key,
        annotated_as_key_value,
        without_annotation,
        lambda found: renamed(found, "key_value", "map"),
        lambda found: renamed(found, "key", "k"),
    ],
    ids=["optional key", "MAP_KEY_VALUE", "no annotation", "map", "k"],
)
def test_maps_in_other_forms_are_refused(bench: Bench, change: Any) -> None:
    schema, file = a_map(bench)
    _, table = bench.run(schema, [file])
    assert table is not None
    with pytest.raises(Uncovered, match=r"column c|Map keys must be annotated as required"):
        bench.run(schema, [changed(file, change)])


def test_field_ids_must_be_there_for_all_that_is_read(bench: Bench) -> None:
    members = pa.struct([identified(2, pa.int64(), "x"), pa.field("y", pa.int64())])
    file = file_of(bench, (identified(1, members), [{"x": 1, "y": 2}]))
    schema = schema_of(column(1, "c", struct_of(column(2, "x", "long"))))
    with pytest.raises(Uncovered, match="without an id"):
        bench.run(schema, [file])
    file = file_of(bench, (identified(1, pa.list_(pa.int64())), [[1]]))
    with pytest.raises(Uncovered, match="other field ids"):
        bench.run(schema_of(column(1, "c", list_of(2, "long"))), [file])


def test_two_columns_of_one_id_are_refused(bench: Bench) -> None:
    file = file_of(bench, (identified(1, pa.int64(), "a"), [1]), (identified(1, pa.int64(), "b"), [2]))
    with pytest.raises(Uncovered, match="two columns of the same field id"):
        bench.run(schema_of(column(1, "c", "long")), [file])


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "brotli", "none"])
def test_codecs_on_the_list(bench: Bench, codec: str) -> None:
    file = file_of(bench, (identified(1, pa.int64()), [1]), compression=codec)
    written, _ = bench.run(schema_of(column(1, "c", "long")), [file])
    assert written.classes[0].description["codecs"] == ["UNCOMPRESSED" if codec == "none" else codec.upper()]


def test_codecs_that_are_not_on_it(bench: Bench) -> None:
    file = file_of(bench, (identified(1, pa.int64()), [1]), compression="lz4")
    with pytest.raises(Uncovered, match="the compression LZ4"):
        bench.run(schema_of(column(1, "c", "long")), [file])


ENCODED: list[tuple[pa.DataType, str, str, Any]] = [
    (pa.string(), "string", "DELTA_LENGTH_BYTE_ARRAY", "x"),
    (pa.string(), "string", "DELTA_BYTE_ARRAY", "x"),
    (pa.int64(), "long", "DELTA_BINARY_PACKED", 1),
    (pa.float64(), "double", "BYTE_STREAM_SPLIT", 1.5),
    (pa.bool_(), "boolean", "RLE", True),
]


@pytest.mark.parametrize(("stored", "kind", "encoding", "value"), ENCODED, ids=[row[2] for row in ENCODED])
def test_every_encoding_beside_files_that_have_dictionaries(
    bench: Bench, stored: pa.DataType, kind: str, encoding: str, value: Any
) -> None:
    options = {"use_dictionary": False, "column_encoding": {"c": encoding}, "data_page_version": "2.0"}
    encoded = file_of(bench, (identified(1, stored), [value, None] * 20), **options)
    usual = file_of(bench, (identified(1, stored), [value, None] * 20))
    for files in ([usual, encoded, usual], [encoded, usual, encoded], [usual, usual, encoded, usual, usual]):
        _, table = bench.run(schema_of(column(1, "c", kind)), files)
        assert table is not None
        assert table["c"].to_pylist() == [value, None] * 20 * len(files)


def test_encodings_that_nobody_has_thought_of_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from icepack.kernel.parquet import column_chunks

    monkeypatch.setattr(column_chunks, "ENCODINGS", column_chunks.ENCODINGS - {"RLE"})
    with pytest.raises(Uncovered, match="the encoding RLE"):
        bench.run(schema_of(column(1, "c", "long")), [file_of(bench, (identified(1, pa.int64()), [1]))])


@pytest.mark.parametrize("depth", ["alone", "struct", "list", "map"])
@pytest.mark.parametrize("null", ["the value", "what it lies in", "none"])
def test_nulls_in_a_column_that_has_become_required_are_refused(bench: Bench, depth: str, null: str) -> None:
    value = None if null == "the value" else "x"

    def made(required: bool) -> Json:
        leaf = column(5, "x", "string", required=required)
        kinds: dict[str, Any] = {
            "alone": "string",
            "struct": struct_of(leaf),
            "list": list_of(2, struct_of(leaf)),
            "map": {
                "type": "map",
                "key-id": 2,
                "key": "string",
                "value-id": 3,
                "value": struct_of(leaf),
                "value-required": False,
            },
        }
        return schema_of(column(1, "c", kinds[depth], required=required and depth == "alone"))

    inside = [{"x": value}, None] if null == "what it lies in" else [{"x": value}]
    values: dict[str, list[Any]] = {
        "alone": [value, "y"],
        "struct": inside,
        "list": [inside, None, []],
        "map": [[("k", part) for part in inside], None, []],
    }
    file = bench.write(made(required=False), {"c": values[depth]})
    if null == "the value" or (null == "what it lies in" and depth != "alone"):
        with pytest.raises(Uncovered, match="nulls in the required column"):
            bench.run(made(required=True), [file])
    else:
        _, table = bench.run(made(required=True), [file])
        assert table is not None
        assert table["c"].to_pylist() == values[depth]


def test_deletes_are_held_to_the_same_list(bench: Bench) -> None:
    schema = schema_of(column(1, "u", "uuid"), column(2, "id", "long"))
    data = bench.write(schema, {"u": [b"x" * 16, b"y" * 16], "id": [1, 2]})
    stored = file_of(bench, (identified(1, pa.binary(16), "u"), [b"x" * 16]), (identified(3, pa.uint8(), "z"), [1]))
    deletes = (DeleteFile(path=stored.path, bytes=stored.bytes, sequence_number=5, equality_ids=(1,)),)
    with pytest.raises(Uncovered, match="column u stored as FIXED_LEN_BYTE_ARRAY"):
        bench.run(schema, [data], equality_deletes=deletes)


@pytest.mark.parametrize("change", ["path", "position", "missing", "null"])
def test_position_deletes_are_held_to_it(bench: Bench, change: str) -> None:
    data = bench.write(schema_of(column(1, "id", "long")), {"id": [1, 2]})
    path = pa.field("file_path", pa.binary() if change == "path" else pa.string())
    position = pa.field("pos", pa.uint64() if change == "position" else pa.int64())
    values = [None if change == "null" else data.path]
    columns = [(path, values)] if change == "missing" else [(path, values), (position, [0])]
    stored = file_of(bench, *columns)
    item = Input(**{**{name: getattr(data, name) for name in data.__slots__}, "position_deletes": (0,)})
    deletes = (DeleteFile(path=stored.path, bytes=stored.bytes),)
    with pytest.raises(Uncovered, match="position deletes"):
        bench.run(schema_of(column(1, "id", "long")), [item], position_deletes=deletes)


def test_encrypted_files_are_refused(bench: Bench) -> None:
    file = file_of(bench, (identified(1, pa.int64()), [1]))
    path = Path(file.path.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:-4] + b"PARE")
    with pytest.raises(Uncovered, match="encrypted"):
        bench.run(schema_of(column(1, "c", "long")), [file])


def test_files_with_encrypted_columns_and_a_plain_footer_are_refused(bench: Bench) -> None:
    """PyArrow would end the whole process when it is asked for such a column."""
    file = file_of(bench, (identified(1, pa.int64()), [1]))
    path = Path(file.path.removeprefix("file://"))
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    signed = data[:-8] + b"s" * 28 + (length + 28).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(signed)
    with pytest.raises(Uncovered, match="encrypted"):
        bench.run(schema_of(column(1, "c", "long")), [replace(file, bytes=len(signed))])


def test_a_footer_longer_than_what_is_read_at_once(bench: Bench) -> None:
    fields = [identified(number, pa.int64(), f"column number {number}") for number in range(1, 1500)]
    file = file_of(bench, *((field, [number]) for number, field in enumerate(fields, 1)))
    _, table = bench.run(schema_of(column(700, "c", "long")), [file])
    assert table is not None
    assert table["c"].to_pylist() == [700]


def test_classes_of_files_are_counted(bench: Bench) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "word", "string"))
    rows = {"id": [1, 2], "word": ["a", "b"]}
    usual = [bench.write(schema, rows) for _ in range(3)]
    other = [bench.write(schema, rows, compression="gzip"), bench.write(schema, rows, use_dictionary=False)]
    older = bench.write(schema_of(column(1, "id", "int")), {"id": [1]})
    written, _ = bench.run(schema, [*usual, *other, older])
    assert json.loads(json.dumps([seen.description for seen in written.classes]))
    assert [(seen.files, seen.rows, seen.example) for seen in written.classes] == [
        (3, 6, usual[0].path),
        (1, 2, other[0].path),
        (1, 2, other[1].path),
        (1, 1, older.path),
    ]
    assert written.classes[0].description == {
        "schema": "optional INT64 id id=1; optional BYTE_ARRAY STRING word id=2",
        "writer": pq.ParquetFile(usual[0].path.removeprefix("file://")).metadata.created_by,
        "encodings": ["PLAIN", "RLE", "RLE_DICTIONARY"],
        "codecs": ["SNAPPY"],
        "has_field_ids": True,
        "library": f"pyarrow {pa.__version__}",
    }


@pytest.mark.parametrize("is_seen_before", [True, False])
def test_chunks_are_recognized_as_they_are_declared(bench: Bench, is_seen_before: bool) -> None:
    """Row groups of one file that differ, after files with the one form, the other and both."""
    field, other = identified(1, pa.string(), "a"), identified(2, pa.string(), "b")
    schema, files = pa.schema([field, other]), []
    plain, repeated = pa.array([f"{at:064d}" for at in range(40_000)]), pa.array(["x"] * 40_000)
    for kinds in ([repeated], [plain], [repeated, plain], [plain, repeated, plain]):
        path = bench.folder / f"groups-{len(files)}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd", dictionary_pagesize_limit=4096) as writer:
            for kind in kinds:
                writer.write_table(pa.table([kind, repeated], schema=schema))
        files.append(path)
    known = KnownSchemas()
    for path in files if is_seen_before else reversed(files):
        data = path.read_bytes()
        raw = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
        stored, metadata = known.of(raw), pq.read_metadata(path)
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        chunks = [group.column(at) for group in groups for at in range(2)]
        for _ in range(2):
            facts = known.chunks(stored).facts(raw, len(groups))
            assert facts.encodings == {encoding for chunk in chunks for encoding in chunk.encodings}
            assert facts.codecs == {"ZSTD"}


def test_a_file_that_is_opened_twice_is_counted_once(bench: Bench) -> None:
    schema = schema_of(column(1, "id", "long"))
    files = [bench.write(schema, {"id": [at, at + 1]}) for at in range(4)]
    order = {"kind": "sort", "keys": [{"field_id": 1, "descending": True, "nulls_first": True}]}
    written, _ = bench.run(schema, files, order=order)
    assert [(seen.files, seen.rows) for seen in written.classes] == [(4, 8)]


def test_schemas_that_begin_alike_are_told_apart(bench: Bench) -> None:
    short = schema_of(column(1, "a", "long"))
    long = schema_of(column(1, "a", "long"), column(2, "b", "long"))
    files = [bench.write(short, {"a": [1]}), bench.write(long, {"a": [2], "b": [3]}), bench.write(short, {"a": [4]})]
    _, table = bench.run(long, files)
    assert table is not None
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": 3}, {"a": 4, "b": None}]


def test_row_groups_and_statistics_survive_without_arrows_schema(bench: Bench) -> None:
    file = file_of(bench, (identified(1, pa.large_string()), ["a", "b"]), row_group_size=1)
    data = Path(file.path.removeprefix("file://")).read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    raw = data[-8 - length : -8]
    metadata = metadata_of(raw, parse_schema(raw))
    assert metadata.num_row_groups == len(footer(pa.py_buffer(data))[ROW_GROUPS][1][1]) == 2
    assert metadata.schema.to_arrow_schema().field(0).type == pa.string()


def test_more_rows_than_pyarrow_writes_at_once(bench: Bench) -> None:
    """Booleans take so few bytes that all of them would go into one row group."""
    count = 2**26 + 5
    table = pa.table([pa.repeat(pa.scalar(True), count)], schema=pa.schema([identified(1, pa.bool_())]))
    path = bench.folder / "booleans.parquet"
    pq.write_table(table, path, row_group_size=2**24, store_schema=False, compression="zstd")
    file = Input(path=path.as_uri(), bytes=path.stat().st_size, records=count, sequence_number=1)
    written, _ = bench.run(schema_of(column(1, "c", "boolean")), [file])
    assert written.rows_out == count
