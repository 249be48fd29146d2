"""Columns whose value the partition says: it wins over whatever the file holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.arrow_schema import Uncovered
from icepack.kernel.task import DeleteFile, Writing

from .kernels import Bench, Json, column, schema_of

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


@pytest.mark.parametrize(("kind", "said", "expected"), VALUES, ids=[f"{kind}-{said}" for kind, said, _ in VALUES])
@pytest.mark.parametrize("order", [None, {"kind": "sort", "keys": [{"field_id": 1, "descending": True}]}])
def test_values_of_every_type(bench: Bench, kind: str, said: Any, expected: Any, order: Json | None) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "p", kind))
    if order is not None:
        order = {"kind": "sort", "keys": [{"field_id": 2, "descending": True, "nulls_first": True}]}
    files = [replace(bench.write(WITHOUT, {"id": [at, at + 1]}), constants={2: said}) for at in (0, 2)]
    _, table = bench.run(schema, files, order=order)
    assert table is not None
    assert table.to_pylist() == [{"id": at, "p": expected} for at in range(4)]


@pytest.mark.parametrize("said", ["x", None])
@pytest.mark.parametrize("stored", [["other", None], ["x", "x"], [None, None]])
def test_it_wins_over_what_the_file_holds(bench: Bench, said: str | None, stored: list[Any]) -> None:
    file = replace(bench.write(SCHEMA, {"id": [1, 2], "p": stored}), constants={2: said})
    _, table = bench.run(SCHEMA, [file])
    assert table is not None
    assert table["p"].to_pylist() == [said, said]


def test_the_files_own_column_may_be_of_any_type(bench: Bench) -> None:
    """It is not read, so it need not be in a form that is on the list."""
    ids = [{"PARQUET:field_id": str(number)} for number in (1, 2)]
    fields = [pa.field("id", pa.int64(), metadata=ids[0]), pa.field("p", pa.uint16(), metadata=ids[1])]
    file = bench.add(pa.table([[1], pa.array([5], pa.uint16())], schema=pa.schema(fields)))
    _, table = bench.run(SCHEMA, [replace(file, constants={2: "x"})])
    assert table is not None
    assert table["p"].to_pylist() == ["x"]


def test_statistics_are_those_of_the_constant(bench: Bench) -> None:
    file = replace(bench.write(SCHEMA, {"id": [1, 2], "p": ["other", None]}), constants={2: "x"})
    written, _ = bench.run(SCHEMA, [file])
    found = pq.ParquetFile(written.files[0].path.removeprefix("file://")).metadata.row_group(0).column(1).statistics
    assert (found.min, found.max, found.null_count) == ("x", "x", 0)


@pytest.mark.parametrize("stored", [["other"] * 3, None])
def test_equality_deletes_are_compared_with_it(bench: Bench, stored: list[Any] | None) -> None:
    rows = {"id": [1, 2, 3]} | ({} if stored is None else {"p": stored})
    file = replace(bench.write(WITHOUT if stored is None else SCHEMA, rows), constants={2: "x"})
    keys = bench.write(SCHEMA, {"id": [1, 2, 3], "p": ["x", "other", None]})
    deletes = (DeleteFile(path=keys.path, bytes=keys.bytes, sequence_number=9, equality_ids=(1, 2)),)
    written, table = bench.run(SCHEMA, [file], equality_deletes=deletes)
    assert table is not None
    assert table.to_pylist() == [{"id": 2, "p": "x"}, {"id": 3, "p": "x"}]
    assert written.rows_dropped == 1


@pytest.mark.parametrize(
    ("kind", "stored", "said", "is_copied"),
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
def test_it_is_copied_only_where_it_is_surely_equal(
    bench: Bench, kind: str, stored: Any, said: Any, is_copied: bool
) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "p", kind))
    options: dict[str, Any] = {"compression": "zstd", "write_page_index": True}
    rows = {"id": list(range(20_000)), "p": [stored] * 20_000}
    writing = Writing(codec="zstd", as_found=True, row_group_bytes=60_000)
    whole = bench.write(schema, rows, **options)
    usual, _ = bench.run(schema, [whole], writing=writing)
    assert usual.copied_bytes > 0
    written, table = bench.run(schema, [replace(whole, constants={2: said})], writing=writing)
    assert table is not None
    assert set(map(str, table["p"].unique().to_pylist())) == {str(said).replace("T", " ")}
    assert written.copied_bytes > 0
    assert (written.copied_bytes == usual.copied_bytes) is is_copied


def test_a_null_for_a_required_column_is_refused(bench: Bench) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "p", "string", required=True))
    with pytest.raises(Uncovered, match="required column p is null"):
        bench.run(schema, [replace(bench.write(WITHOUT, {"id": [1]}), constants={2: None})])


@pytest.mark.parametrize(
    ("kind", "said"), [("timestamp", "+12024-01-01T00:00:00"), ("int", "x"), ("decimal(3,1)", "x")]
)
def test_a_value_that_cannot_be_read_is_refused(bench: Bench, kind: str, said: Any) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "p", kind))
    with pytest.raises(Uncovered, match="the value"):
        bench.run(schema, [replace(bench.write(WITHOUT, {"id": [1]}), constants={2: said})])


DEFAULT = column(9, "added", "string", **{"initial-default": "inside"})


def nested(*members: Json) -> Json:
    inner = {"type": "struct", "fields": [column(3, "x", "int"), *members]}
    of_list = {"type": "list", "element-id": 4, "element": inner, "element-required": False}
    of_map = {"type": "map", "key-id": 5, "key": "string", "value-id": 6, "value": of_list, "value-required": False}
    return schema_of(column(1, "c", of_map))


def test_defaults_are_filled_in_inside_maps_of_lists_of_structs(bench: Bench) -> None:
    rows: list[Any] = [[("k", [{"x": 1}, None, {"x": None}]), ("n", None), ("e", [])], None, []]
    _, table = bench.run(nested(DEFAULT), [bench.write(nested(), {"c": rows})])
    assert table is not None
    filled = [{"x": 1, "added": "inside"}, None, {"x": None, "added": "inside"}]
    assert table["c"].to_pylist() == [[("k", filled), ("n", None), ("e", [])], None, []]


def test_a_required_default_inside_is_filled_in_too(bench: Bench) -> None:
    required = {**DEFAULT, "required": True}
    rows: list[Any] = [[("k", [{"x": 1}, None])]]
    _, table = bench.run(nested(required), [bench.write(nested(), {"c": rows})])
    assert table is not None
    assert table["c"].to_pylist() == [[("k", [{"x": 1, "added": "inside"}, None])]]
