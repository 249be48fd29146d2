"""Which Parquet columns are rewritten: those that are stored in a supported way, and no others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.parquet.file_schema import SchemaNode
from icepack.kernel.supported_files import is_supported_leaf
from icepack.kernel.task import DeleteFile, InputFile

from .harness import Json, KernelHarness, column, schema_of
from .parquet_files import field_with_id, file_of, list_of, struct_of

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
    ("long", [(pa.struct([field_with_id(2, pa.int64())]), {"c": 1}), (pa.list_(pa.int64()), [1])]),
]
CASES = [(kind, stored, value) for kind, pairs in NOT_ALLOWED for stored, value in pairs]


@pytest.mark.parametrize(("kind", "stored", "value"), CASES, ids=[f"{kind}-{stored}" for kind, stored, _ in CASES])
def test_a_column_stored_as_another_type_is_unsupported_at_any_depth(
    harness: KernelHarness, kind: str, stored: pa.DataType, value: Any
) -> None:
    alone = file_of(harness, (field_with_id(1, stored), [value]))
    with pytest.raises(UnsupportedByKernel, match=r"column c stored as|column c: "):
        harness.run(schema_of(column(1, "c", kind)), [alone])
    member = pa.StructArray.from_arrays([pa.array([value], stored)], fields=[field_with_id(3, stored)])
    kind_of_list = pa.list_(field_with_id(2, member.type, "element"))
    deep = file_of(
        harness, (field_with_id(1, kind_of_list), pa.ListArray.from_arrays([0, 1], member, type=kind_of_list))
    )
    with pytest.raises(UnsupportedByKernel, match=r"column c.element.c"):
        harness.run(schema_of(column(1, "c", list_of(2, struct_of(column(3, "c", kind))))), [deep])


@pytest.mark.parametrize("kind", PRIMITIVES)
@pytest.mark.parametrize("physical", ["INT32", "INT64", "INT96", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"])
@pytest.mark.parametrize(
    "annotation", ["", "ENUM", "JSON", "BSON", "INTERVAL", "UNKNOWN", "LOGICAL_99", "CONVERTED_99"]
)
def test_unknown_annotations_are_unsupported(kind: str, physical: str, annotation: str) -> None:
    length = 16 if physical == "FIXED_LEN_BYTE_ARRAY" else 0
    node = SchemaNode("c", 0, physical, length, annotation, 1, ())
    allowed = {
        ("int", "INT32"),
        ("long", "INT32"),
        ("long", "INT64"),
        ("binary", "BYTE_ARRAY"),
        ("fixed[16]", "FIXED_LEN_BYTE_ARRAY"),
    }
    assert is_supported_leaf(node, kind) is (not annotation and (kind, physical) in allowed)


def test_decimals_in_byte_arrays_are_unsupported() -> None:
    def stored(physical: str, precision: int, length: int = 0) -> SchemaNode:
        return SchemaNode("c", 0, physical, length, f"DECIMAL({precision},2)", 1, (), precision, 2)

    assert is_supported_leaf(stored("INT32", 9), "decimal(9,2)")
    assert is_supported_leaf(stored("INT64", 9), "decimal(38,2)")
    assert is_supported_leaf(stored("FIXED_LEN_BYTE_ARRAY", 38, 16), "decimal(38,2)")
    assert not is_supported_leaf(stored("BYTE_ARRAY", 9), "decimal(9,2)")
    assert not is_supported_leaf(stored("INT32", 10), "decimal(38,2)")
    assert not is_supported_leaf(stored("FIXED_LEN_BYTE_ARRAY", 38, 17), "decimal(38,2)")


def test_int96_timestamps_are_unsupported(harness: KernelHarness) -> None:
    file = file_of(harness, (field_with_id(1, pa.timestamp("us")), [1]), use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedByKernel, match="stored as INT96"):
        harness.run(schema_of(column(1, "c", "timestamp")), [file])


def test_a_dropped_column_may_be_stored_as_any_type(harness: KernelHarness) -> None:
    dropped = field_with_id(2, pa.timestamp("ms"), "dropped")
    file = file_of(harness, (dropped, [1]), (field_with_id(1, pa.int64()), [7]))
    _, table = harness.run(schema_of(column(1, "c", "long")), [file])
    assert table is not None
    assert table.to_pylist() == [{"c": 7}]


ARROW_TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(field_with_id(2, pa.int64(), "element"), 2), [[1, 2], [3, 4]]),
    (pa.list_view(field_with_id(2, pa.int64(), "element")), [[1], None]),
    (pa.large_list(field_with_id(2, pa.int64(), "element")), [[1, None], []]),
]


@pytest.mark.parametrize(("stored", "values"), ARROW_TYPES, ids=[str(kind) for kind, _ in ARROW_TYPES])
def test_arrow_list_types_are_lists(harness: KernelHarness, stored: pa.DataType, values: list[Any]) -> None:
    file = file_of(harness, (field_with_id(1, stored), values), (field_with_id(3, pa.int64(), "after"), [8, 9]))
    assert pq.read_schema(file.path.removeprefix("file://")).field(0).type == stored
    _, table = harness.run(schema_of(column(1, "c", list_of(2, "long")), column(3, "after", "long")), [file])
    assert table is not None
    assert table.to_pydict() == {"c": values, "after": [8, 9]}


MEMBERS = pa.struct([field_with_id(3, pa.int64(), "x"), field_with_id(4, pa.int64(), "y")])
WITH_STRUCTS = [
    pa.list_(field_with_id(2, MEMBERS, "element"), 1),
    pa.list_view(field_with_id(2, MEMBERS, "element")),
    pa.large_list(field_with_id(2, MEMBERS, "element")),
]


@pytest.mark.parametrize("stored", WITH_STRUCTS, ids=map(str, WITH_STRUCTS))
@pytest.mark.parametrize("is_used", [True, False])
def test_columns_after_a_list_of_structs_keep_their_values(
    harness: KernelHarness, stored: pa.DataType, is_used: bool
) -> None:
    values = [[{"x": 1, "y": 2}], [{"x": 3, "y": 4}]]
    columns = [(field_with_id(1, stored, "a"), values), (field_with_id(5, pa.int64(), "b"), [10, 11])]
    file = file_of(harness, *columns, (field_with_id(6, pa.int64(), "c"), [7, 8]))
    inside = list_of(2, struct_of(column(3, "x", "long"), column(4, "y", "long")))
    wanted = [column(1, "a", inside)] if is_used else []
    _, table = harness.run(schema_of(*wanted, column(5, "b", "long"), column(6, "c", "long")), [file])
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
def test_other_arrow_types_are_read_as_parquet_types(
    harness: KernelHarness, stored: pa.DataType, kind: str, value: Any
) -> None:
    file = file_of(harness, (field_with_id(1, stored), [value, None]))
    _, table = harness.run(schema_of(column(1, "c", kind)), [file])
    assert table is not None
    expected = 5 if kind in ("long", "timestamptz") and value == 5 else value
    found = table["c"].cast(pa.int64()) if kind == "timestamptz" else table["c"]
    assert found.to_pylist() == [expected, None]


def test_all_fields_that_are_read_need_field_ids(harness: KernelHarness) -> None:
    members = pa.struct([field_with_id(2, pa.int64(), "x"), pa.field("y", pa.int64())])
    file = file_of(harness, (field_with_id(1, members), [{"x": 1, "y": 2}]))
    schema = schema_of(column(1, "c", struct_of(column(2, "x", "long"))))
    with pytest.raises(UnsupportedByKernel, match="without an id"):
        harness.run(schema, [file])
    file = file_of(harness, (field_with_id(1, pa.list_(pa.int64())), [[1]]))
    with pytest.raises(UnsupportedByKernel, match="other field ids"):
        harness.run(schema_of(column(1, "c", list_of(2, "long"))), [file])


def test_two_columns_of_one_field_id_are_unsupported(harness: KernelHarness) -> None:
    file = file_of(harness, (field_with_id(1, pa.int64(), "a"), [1]), (field_with_id(1, pa.int64(), "b"), [2]))
    with pytest.raises(UnsupportedByKernel, match="two columns of the same field id"):
        harness.run(schema_of(column(1, "c", "long")), [file])


@pytest.mark.parametrize("depth", ["alone", "struct", "list", "map"])
@pytest.mark.parametrize("null", ["the value", "its parent", "none"])
def test_nulls_in_a_column_that_became_required_are_unsupported(harness: KernelHarness, depth: str, null: str) -> None:
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

    inside = [{"x": value}, None] if null == "its parent" else [{"x": value}]
    values: dict[str, list[Any]] = {
        "alone": [value, "y"],
        "struct": inside,
        "list": [inside, None, []],
        "map": [[("k", part) for part in inside], None, []],
    }
    file = harness.write(made(required=False), {"c": values[depth]})
    if null == "the value" or (null == "its parent" and depth != "alone"):
        with pytest.raises(UnsupportedByKernel, match="nulls in the required column"):
            harness.run(made(required=True), [file])
    else:
        _, table = harness.run(made(required=True), [file])
        assert table is not None
        assert table["c"].to_pylist() == values[depth]


def test_equality_delete_files_must_be_supported(harness: KernelHarness) -> None:
    schema = schema_of(column(1, "u", "uuid"), column(2, "id", "long"))
    data = harness.write(schema, {"u": [b"x" * 16, b"y" * 16], "id": [1, 2]})
    stored = file_of(
        harness, (field_with_id(1, pa.binary(16), "u"), [b"x" * 16]), (field_with_id(3, pa.uint8(), "z"), [1])
    )
    deletes = (DeleteFile(path=stored.path, bytes=stored.bytes, sequence_number=5, equality_ids=(1,)),)
    with pytest.raises(UnsupportedByKernel, match="column u stored as FIXED_LEN_BYTE_ARRAY"):
        harness.run(schema, [data], equality_deletes=deletes)


@pytest.mark.parametrize("change", ["path", "position", "missing", "null"])
def test_position_delete_files_must_be_supported(harness: KernelHarness, change: str) -> None:
    data = harness.write(schema_of(column(1, "id", "long")), {"id": [1, 2]})
    path = pa.field("file_path", pa.binary() if change == "path" else pa.string())
    position = pa.field("pos", pa.uint64() if change == "position" else pa.int64())
    values = [None if change == "null" else data.path]
    columns = [(path, values)] if change == "missing" else [(path, values), (position, [0])]
    stored = file_of(harness, *columns)
    item = InputFile(**{**{name: getattr(data, name) for name in data.__slots__}, "position_deletes": (0,)})
    deletes = (DeleteFile(path=stored.path, bytes=stored.bytes),)
    with pytest.raises(UnsupportedByKernel, match="position deletes"):
        harness.run(schema_of(column(1, "id", "long")), [item], position_deletes=deletes)
