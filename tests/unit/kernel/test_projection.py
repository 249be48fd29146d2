"""Columns are projected by field id, however the schema evolved since the file was written."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from icepack.kernel.arrow_schema import UnsupportedByKernel, is_supported_type, sanitize_name, to_arrow_schema
from icepack.kernel.task import WriteProperties

from .harness import Json, KernelHarness, column, schema_of


def struct(*parts: Json) -> Json:
    return {"type": "struct", "fields": list(parts)}


def list_of(number: int, kind: Any, *, required: bool = False) -> Json:
    return {"type": "list", "element-id": number, "element": kind, "element-required": required}


def map_of(key_id: int, key: Any, value_id: int, value: Any) -> Json:
    return {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value, "value-required": False}


def rewritten(
    harness: KernelHarness, old: Json, rows: dict[str, list[Any]], new: Json, **more: Any
) -> list[dict[str, Any]]:
    """Rows of a file with the old schema after a rewrite with the new one."""
    _, table = harness.run(new, [harness.write(old, rows)], **more)
    assert table is not None
    assert table.schema.equals(to_arrow_schema(new), check_metadata=False)
    return table.to_pylist()


def test_renamed_reordered_added_and_dropped(harness: KernelHarness) -> None:
    old = schema_of(column(1, "a", "long"), column(2, "b", "string"), column(3, "c", "string"))
    new = schema_of(column(4, "a", "string"), column(3, "b", "string"), column(1, "z", "long"))
    rows = {"a": [1, None], "b": ["b1", "b2"], "c": ["c1", None]}
    assert rewritten(harness, old, rows, new) == [{"a": None, "b": "c1", "z": 1}, {"a": None, "b": None, "z": None}]


@pytest.mark.parametrize("other", ["long", struct(column(4, "x", "string")), list_of(5, "string")])
def test_a_string_that_is_a_dictionary_in_some_files_and_missing_or_another_column_in_others(
    harness: KernelHarness, other: Any
) -> None:
    """Dictionaries are requested by name, and a file may lack the name or use it for another column."""
    text = column(2, "word", "string")
    older = harness.write(schema_of(column(1, "id", "long")), {"id": [1]})
    named_alike = harness.write(
        schema_of(column(1, "id", "long"), column(3, "word", other)), {"id": [2], "word": [None]}
    )
    newer = harness.write(schema_of(column(1, "id", "long"), text), {"id": [3] * 50, "word": ["w"] * 50})
    for files in ([older, named_alike, newer], [newer, older, named_alike]):
        _, table = harness.run(schema_of(column(1, "id", "long"), text), files)
        assert table is not None
        assert sorted(table.to_pylist(), key=str) == [
            {"id": 1, "word": None},
            {"id": 2, "word": None},
            *[{"id": 3, "word": "w"}] * 50,
        ]


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        ("int", "long", [1, None, -(2**31)]),
        ("float", "double", [0.5, None, -0.0]),
        ("decimal(5,2)", "decimal(9,2)", [Decimal("1.25"), None]),
        ("decimal(9,2)", "decimal(20,2)", [Decimal("-1.25"), None]),
        ("decimal(18,2)", "decimal(38,2)", [Decimal("1.25"), None]),
    ],
)
def test_promotion_at_any_depth(harness: KernelHarness, before: str, after: str, values: list[Any]) -> None:
    def made(kind: str) -> Json:
        inside = struct(column(3, "x", kind), column(4, "l", list_of(5, kind)))
        return schema_of(column(1, "c", kind), column(2, "s", inside), column(6, "m", map_of(7, "string", 8, kind)))

    rows = {
        "c": values,
        "s": [{"x": value, "l": [value, None]} for value in values],
        "m": [[("k", value)] for value in values],
    }
    found = rewritten(harness, made(before), rows, made(after))
    assert [repr(row["c"]) for row in found] == [repr(value) for value in values]
    assert [repr(row["s"]) for row in found] == [repr(value) for value in rows["s"]]
    assert [row["m"] for row in found] == rows["m"]


def test_structs_lists_and_maps_whose_fields_changed(harness: KernelHarness) -> None:
    old_inside = struct(column(3, "x", "int"), column(4, "y", "string"))
    new_inside = struct(column(9, "y", "long"), column(4, "z", "string"))
    old = schema_of(column(1, "l", list_of(2, old_inside)), column(5, "m", map_of(6, "string", 7, list_of(8, "int"))))
    new = schema_of(column(5, "m", map_of(6, "string", 7, list_of(8, "long"))), column(1, "l", list_of(2, new_inside)))
    rows = {
        "l": [[{"x": 1, "y": "a"}, None], None, [], [{"x": None, "y": None}]],
        "m": [[("k", [1, None])], [], None, [("k", None), ("l", [])]],
    }
    assert rewritten(harness, old, rows, new) == [
        {"m": [("k", [1, None])], "l": [{"y": None, "z": "a"}, None]},
        {"m": [], "l": None},
        {"m": None, "l": []},
        {"m": [("k", None), ("l", [])], "l": [{"y": None, "z": None}]},
    ]


@pytest.mark.parametrize("start", [0, 1, 7, 9])
def test_slices_of_nested_columns(harness: KernelHarness, start: int) -> None:
    """Offsets and nulls of rows before the slice must not affect it."""
    from dataclasses import replace

    inside = struct(column(3, "x", "int"), column(4, "l", list_of(5, "string")))
    old = schema_of(column(1, "s", inside), column(6, "m", map_of(7, "string", 8, inside_of(9))))
    new = schema_of(
        column(1, "s", struct(column(3, "x", "long"), column(4, "l", list_of(5, "string")))),
        column(6, "m", map_of(7, "string", 8, struct(column(9, "q", "long")))),
    )
    rows = {
        "s": [None if at % 3 == 0 else {"x": at, "l": None if at % 2 else [str(at)] * at} for at in range(10)],
        "m": [None if at % 4 == 1 else [(str(at), {"q": at})] * (at % 3) for at in range(10)],
    }
    whole = harness.write(old, rows, row_group_size=4)
    _, table = harness.run(new, [replace(whole, start=start, stop=None)])
    assert table is not None
    assert table.to_pydict() == {name: values[start:] for name, values in rows.items()}


def inside_of(number: int) -> Json:
    return struct(column(number, "q", "int"))


DEFAULTS: list[tuple[Any, Any, Any]] = [
    ("string", "as ever", "as ever"),
    ("int", 7, 7),
    ("long", 2**40, 2**40),
    ("float", 1.5, 1.5),
    ("double", -0.25, -0.25),
    ("double", 1, 1.0),
    ("boolean", False, False),
    ("date", "2024-02-29", date(2024, 2, 29)),
    ("time", "12:34:56.789012", time(12, 34, 56, 789012)),
    ("timestamp", "2024-02-29T12:34:56.789012", datetime(2024, 2, 29, 12, 34, 56, 789012)),
    ("timestamp", "1969-12-31T23:59:59", datetime(1969, 12, 31, 23, 59, 59)),
    ("timestamptz", "2024-02-29T12:34:56.789012+00:00", datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=UTC)),
    ("decimal(9,2)", "-1234.50", Decimal("-1234.50")),
    ("decimal(38,10)", "1.0000000001", Decimal("1.0000000001")),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
    ("fixed[2]", "00ff", b"\x00\xff"),
    ("binary", "00FF10", b"\x00\xff\x10"),
]


@pytest.mark.parametrize(
    ("kind", "default", "expected"), DEFAULTS, ids=[f"{kind}-{default}" for kind, default, _ in DEFAULTS]
)
def test_rows_older_than_a_column_have_its_initial_default(
    harness: KernelHarness, kind: str, default: Any, expected: Any
) -> None:
    old = schema_of(column(1, "id", "long"))
    new = schema_of(column(1, "id", "long"), column(2, "c", kind, required=True, **{"initial-default": default}))
    assert rewritten(harness, old, {"id": [1, 2]}, new) == [{"id": 1, "c": expected}, {"id": 2, "c": expected}]


def test_a_stored_null_is_not_replaced_by_the_default(harness: KernelHarness) -> None:
    schema = schema_of(column(1, "c", "string", **{"initial-default": "x"}))
    assert rewritten(harness, schema, {"c": [None, "a"]}, schema) == [{"c": None}, {"c": "a"}]


def test_a_missing_required_column_is_unsupported(harness: KernelHarness) -> None:
    new = schema_of(column(1, "id", "long"), column(2, "c", "string", required=True))
    with pytest.raises(UnsupportedByKernel, match="without a required column"):
        rewritten(harness, schema_of(column(1, "id", "long")), {"id": [1]}, new)
    assert not (harness.folder / "out.parquet").exists()


def test_a_type_that_cannot_be_promoted_is_unsupported(harness: KernelHarness) -> None:
    with pytest.raises(UnsupportedByKernel, match="stored as"):
        rewritten(harness, schema_of(column(1, "c", "long")), {"c": [1]}, schema_of(column(1, "c", "int")))


NAMES: list[dict[str, Any]] = [
    {"field-id": 1, "names": ["a", "formerly"]},
    {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]},
    {
        "field-id": 4,
        "names": ["l"],
        "fields": [{"field-id": 5, "names": ["element"], "fields": [{"field-id": 6, "names": ["q"]}]}],
    },
    {"field-id": 7, "names": ["m"], "fields": [{"field-id": 8, "names": ["key"]}, {"field-id": 9, "names": ["value"]}]},
    {"names": ["unmapped"]},
]


def test_files_without_field_ids_use_the_name_mapping(harness: KernelHarness) -> None:
    schema = schema_of(
        column(1, "z", "string"),
        column(2, "s", struct(column(3, "renamed", "long"))),
        column(4, "l", list_of(5, struct(column(6, "q", "long")))),
        column(7, "m", map_of(8, "string", 9, "int")),
    )
    rows = {
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        "l": [[{"q": 1, "r": 2}], []],
        "unknown": ["?", "?"],
        "formerly": ["a1", None],
        "s": [{"y": 0, "x": 5}, None],
        "unmapped": [1, 2],
    }
    _, table = harness.run(schema, [harness.add(pa.table(rows))], name_mapping=NAMES)
    assert table is not None
    assert table.to_pylist() == [
        {"z": "a1", "s": {"renamed": 5}, "l": [{"q": 1}], "m": [("k", 1)]},
        {"z": None, "s": None, "l": [], "m": None},
    ]


def test_files_without_field_ids_and_name_mapping_are_unsupported(harness: KernelHarness) -> None:
    with pytest.raises(UnsupportedByKernel, match="name mapping"):
        harness.run(schema_of(column(1, "a", "string")), [harness.add(pa.table({"a": ["x"]}))])


def test_two_columns_of_the_same_name(harness: KernelHarness) -> None:
    fields = [pa.field("same", pa.string(), metadata={"PARQUET:field_id": str(number)}) for number in (1, 2)]
    file = harness.add(pa.table([pa.array(["one"]), pa.array(["two"])], schema=pa.schema(fields)))
    _, table = harness.run(schema_of(column(2, "b", "string"), column(1, "a", "string")), [file])
    assert table is not None
    assert table.to_pylist() == [{"b": "two", "a": "one"}]


def test_files_with_different_schemas_are_read_by_several_threads(harness: KernelHarness) -> None:
    """A projection that one thread built must not be used by another for a different file."""
    schema = schema_of(column(1, "a", "string"), column(2, "b", "string"))
    turned = schema_of(column(2, "b", "string"), column(1, "a", "string"))
    inputs = [
        harness.write(turned if at % 2 else schema, {"a": [f"a{at}"] * 50, "b": [f"b{at}"] * 50}) for at in range(40)
    ]
    _, table = harness.run(schema, inputs, threads=8)
    assert table is not None
    assert table["a"].to_pylist() == [f"a{at}" for at in range(40) for _ in range(50)]
    assert table["b"].to_pylist() == [f"b{at}" for at in range(40) for _ in range(50)]


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "uncompressed"])
@pytest.mark.parametrize("level", [None, 5])
def test_every_codec_takes_or_ignores_a_level(harness: KernelHarness, codec: str, level: int | None) -> None:
    schema = schema_of(column(1, "a", "string"))
    file = harness.write(schema, {"a": ["x"]})
    written, _ = harness.run(schema, [file], write_properties=WriteProperties(codec=codec, level=level))
    assert written.rows_out == 1


def test_which_types_are_supported() -> None:
    assert all(is_supported_type(kind) for kind, *_ in DEFAULTS)
    assert all(is_supported_type(kind) for kind in ("timestamp_ns", "timestamptz_ns", struct(column(1, "a", "int"))))
    assert not any(
        is_supported_type(kind) for kind in ("variant", "unknown", "geometry(OGC:CRS84)", list_of(1, "variant"))
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a b", "a_x20b"), ("1a", "_1a"), ("a1", "a1"), ("_", "_"), ("a-é", "a_x2Dé"), ("", "_"), ("ß", "ß")],
)
def test_names_are_sanitized_as_by_icebergs_writers(name: str, expected: str) -> None:
    assert sanitize_name(name) == expected
