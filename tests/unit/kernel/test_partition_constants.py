"""Partition values override the values of identity partition columns in the files."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.task import DeleteFile, WriteProperties

from .harness import Json, KernelHarness, column, schema_of

SCHEMA = schema_of(column(1, "id", "long"), column(2, "p", "string"))
WITHOUT = schema_of(column(1, "id", "long"))
VALUES: list[tuple[Any, Any, Any]] = [
    ("string", "ü", "ü"),
    ("string", "", ""),
    ("boolean", False, False),
    ("int", -7, -7),
    ("long", 2**40, 2**40),
    ("float", 1.5, 1.5),
    ("double", -0.25, -0.25),
    ("double", "Infinity", float("inf")),
    ("date", "1969-02-28", date(1969, 2, 28)),
    ("time", "12:34:56.789012", time(12, 34, 56, 789012)),
    ("timestamp", "1900-01-01T00:00:00.000001", datetime(1900, 1, 1, 0, 0, 0, 1)),
    ("timestamptz", "2024-02-29T12:34:56.789012+00:00", datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=UTC)),
    ("decimal(9,2)", "-1234.50", Decimal("-1234.50")),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
    ("fixed[2]", "00ff", b"\x00\xff"),
    ("binary", "00FF10", b"\x00\xff\x10"),
    ("long", None, None),
    ("string", None, None),
]


@pytest.mark.parametrize(("kind", "value", "expected"), VALUES, ids=[f"{kind}-{value}" for kind, value, _ in VALUES])
@pytest.mark.parametrize("order", [None, {"kind": "sort", "keys": [{"field_id": 1, "descending": True}]}])
def test_values_of_every_type(harness: KernelHarness, kind: str, value: Any, expected: Any, order: Json | None) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "p", kind))
    if order is not None:
        order = {"kind": "sort", "keys": [{"field_id": 2, "descending": True, "nulls_first": True}]}
    files = [replace(harness.write(WITHOUT, {"id": [at, at + 1]}), constants={2: value}) for at in (0, 2)]
    _, table = harness.run(schema, files, sort_order=order)
    assert table is not None
    assert table.to_pylist() == [{"id": at, "p": expected} for at in range(4)]


@pytest.mark.parametrize("value", ["x", None])
@pytest.mark.parametrize("stored", [["other", None], ["x", "x"], [None, None]])
def test_it_overrides_the_values_in_the_file(harness: KernelHarness, value: str | None, stored: list[Any]) -> None:
    file = replace(harness.write(SCHEMA, {"id": [1, 2], "p": stored}), constants={2: value})
    _, table = harness.run(SCHEMA, [file])
    assert table is not None
    assert table["p"].to_pylist() == [value, value]


def test_the_column_in_the_file_may_have_any_type(harness: KernelHarness) -> None:
    """It is not read, so its type need not be supported."""
    ids = [{"PARQUET:field_id": str(number)} for number in (1, 2)]
    fields = [pa.field("id", pa.int64(), metadata=ids[0]), pa.field("p", pa.uint16(), metadata=ids[1])]
    file = harness.add(pa.table([[1], pa.array([5], pa.uint16())], schema=pa.schema(fields)))
    _, table = harness.run(SCHEMA, [replace(file, constants={2: "x"})])
    assert table is not None
    assert table["p"].to_pylist() == ["x"]


def test_statistics_are_those_of_the_constant(harness: KernelHarness) -> None:
    file = replace(harness.write(SCHEMA, {"id": [1, 2], "p": ["other", None]}), constants={2: "x"})
    written, _ = harness.run(SCHEMA, [file])
    found = pq.ParquetFile(written.files[0].path.removeprefix("file://")).metadata.row_group(0).column(1).statistics
    assert (found.min, found.max, found.null_count) == ("x", "x", 0)


@pytest.mark.parametrize("stored", [["other"] * 3, None])
def test_equality_deletes_are_compared_with_it(harness: KernelHarness, stored: list[Any] | None) -> None:
    rows = {"id": [1, 2, 3]} | ({} if stored is None else {"p": stored})
    file = replace(harness.write(WITHOUT if stored is None else SCHEMA, rows), constants={2: "x"})
    keys = harness.write(SCHEMA, {"id": [1, 2, 3], "p": ["x", "other", None]})
    deletes = (DeleteFile(path=keys.path, bytes=keys.bytes, sequence_number=9, equality_ids=(1, 2)),)
    written, table = harness.run(SCHEMA, [file], equality_deletes=deletes)
    assert table is not None
    assert table.to_pylist() == [{"id": 2, "p": "x"}, {"id": 3, "p": "x"}]
    assert written.rows_dropped == 1


@pytest.mark.parametrize(
    ("kind", "stored", "value", "is_copied"),
    [
        ("string", "x", "x", True),
        ("string", "other", "x", False),
        ("string", None, "x", False),
        ("string", "x", None, False),
        ("string", None, None, True),
        ("long", 7, 7, True),
        ("long", 8, 7, False),
        ("date", date(2024, 2, 29), "2024-02-29", True),
        ("date", date(2024, 2, 28), "2024-02-29", False),
        ("timestamp", datetime(2024, 2, 29), "2024-02-29T00:00:00", True),
        ("double", 0.5, 0.5, False),
    ],
)
def test_the_column_is_copied_only_if_statistics_prove_it_equal(
    harness: KernelHarness, kind: str, stored: Any, value: Any, is_copied: bool
) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "p", kind))
    options: dict[str, Any] = {"compression": "zstd", "write_page_index": True}
    rows = {"id": list(range(20_000)), "p": [stored] * 20_000}
    write_properties = WriteProperties(codec="zstd", may_copy_chunks=True, row_group_bytes=60_000)
    whole = harness.write(schema, rows, **options)
    usual, _ = harness.run(schema, [whole], write_properties=write_properties)
    assert usual.copied_bytes > 0
    written, table = harness.run(schema, [replace(whole, constants={2: value})], write_properties=write_properties)
    assert table is not None
    assert set(map(str, table["p"].unique().to_pylist())) == {str(value).replace("T", " ")}
    assert written.copied_bytes > 0
    assert (written.copied_bytes == usual.copied_bytes) is is_copied


def test_a_null_for_a_required_column_is_unsupported(harness: KernelHarness) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "p", "string", required=True))
    with pytest.raises(UnsupportedByKernel, match="required column p is null"):
        harness.run(schema, [replace(harness.write(WITHOUT, {"id": [1]}), constants={2: None})])


@pytest.mark.parametrize(
    ("kind", "value"), [("timestamp", "+12024-01-01T00:00:00"), ("int", "x"), ("decimal(3,1)", "x")]
)
def test_a_value_that_cannot_be_parsed_is_unsupported(harness: KernelHarness, kind: str, value: Any) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "p", kind))
    with pytest.raises(UnsupportedByKernel, match="the value"):
        harness.run(schema, [replace(harness.write(WITHOUT, {"id": [1]}), constants={2: value})])


DEFAULT = column(9, "added", "string", **{"initial-default": "inside"})


def nested(*members: Json) -> Json:
    inner = {"type": "struct", "fields": [column(3, "x", "int"), *members]}
    of_list = {"type": "list", "element-id": 4, "element": inner, "element-required": False}
    of_map = {"type": "map", "key-id": 5, "key": "string", "value-id": 6, "value": of_list, "value-required": False}
    return schema_of(column(1, "c", of_map))


def test_defaults_are_filled_in_inside_maps_of_lists_of_structs(harness: KernelHarness) -> None:
    rows: list[Any] = [[("k", [{"x": 1}, None, {"x": None}]), ("n", None), ("e", [])], None, []]
    _, table = harness.run(nested(DEFAULT), [harness.write(nested(), {"c": rows})])
    assert table is not None
    filled = [{"x": 1, "added": "inside"}, None, {"x": None, "added": "inside"}]
    assert table["c"].to_pylist() == [[("k", filled), ("n", None), ("e", [])], None, []]


def test_a_required_default_inside_is_filled_in_too(harness: KernelHarness) -> None:
    required = {**DEFAULT, "required": True}
    rows: list[Any] = [[("k", [{"x": 1}, None])]]
    _, table = harness.run(nested(required), [harness.write(nested(), {"c": rows})])
    assert table is not None
    assert table["c"].to_pylist() == [[("k", [{"x": 1, "added": "inside"}, None])]]
