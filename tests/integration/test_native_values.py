"""The native rewrite keeps defaults, special floating point values, long values and empty containers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.run import RunState
from icepack.domain.table import TableId

from .lake import Lake, read_rows
from .native_runs import REWRITE_ALL, group_details, list_data_files, rewrite_natively

NAN, INFINITY = "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)"


class TestValues:
    def test_defaults_of_every_type_are_written(self, lake: Lake) -> None:
        table = lake.create(version=3)
        lake.append_numbers(table, files=2, rows=2)
        for name, (kind, literal) in defaults(lake).items():
            typed = lake.iceberg.expressions.Expressions.lit(literal).to(kind)
            lake.java_table(table).updateSchema().addColumn(name, kind, "", typed).commit()
        before = lake.main_rows(table)
        rewrite_natively(lake, table)
        (path,) = list_data_files(lake, table)
        stored = pq.read_table(path).slice(0, 1).to_pylist()[0]
        assert stored["d_string"] == "a default"
        assert all(stored[name] is not None for name in defaults(lake)), stored
        assert lake.main_rows(table) == before

    def test_a_nested_default_is_written(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, s STRUCT<x: INT>", version=3)
        for _ in range(2):
            lake.append(table, "SELECT 1, named_struct('x', 1)")
        types = lake.iceberg.types.Types
        literal = lake.iceberg.expressions.Expressions.lit("nested")
        lake.java_table(table).updateSchema().addColumn("s", "y", types.StringType.get(), "", literal).commit()
        rewrite_natively(lake, table)
        (path,) = list_data_files(lake, table)
        assert pq.read_table(path)["s"].to_pylist() == [{"x": 1, "y": "nested"}] * 2
        assert lake.main_rows(table) == ["(1, Row(x=1, y='nested'))"] * 2

    def test_zeros_nans_and_infinities_keep_their_sign_and_metrics(self, lake: Lake) -> None:
        """Compares the bounds of files with one value each with those of Iceberg's own writer."""
        kinds = ["0.0D", "-0.0D", NAN, INFINITY, f"-{INFINITY}", "NULL", "1.5D"]
        pairs = [("0.0D", "0.0D"), ("-0.0D", "-0.0D"), ("-0.0D", "0.0D"), (NAN, "NULL"), (NAN, NAN), ("NULL", "NULL")]
        pairs += pairwise(kinds)
        table = lake.create("n INT, d DOUBLE, f FLOAT, s STRUCT<d: DOUBLE>, l ARRAY<DOUBLE>", partitioned_by="n")
        for side in (0, 1):
            rows = [
                "({0}, {1}, CAST({1} AS FLOAT), named_struct('d', {1}), array({1}))".format(number, pair[side])
                for number, pair in enumerate(pairs)
            ]
            lake.append(table, f"SELECT * FROM VALUES {', '.join(rows)}")
        head, before = lake.current_snapshot_id(table), read_signed_rows(lake, table)
        rewrite_natively(lake, table)
        assert read_signed_rows(lake, table) == before
        native = read_metrics(lake, table)
        lake.java_table(table).manageSnapshots().rollbackTo(head).commit()
        lake.run(table, Compact(rewrite_all=True, engine=RewriteEngine.SPARK))
        by_spark = read_metrics(lake, table)
        assert native.keys() == by_spark.keys()
        for partition, expected in by_spark.items():
            assert native[partition] == expected, pairs[int(partition)]

    def test_long_values_have_bounds_too(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, s STRING, b BINARY", properties={"write.metadata.metrics.column.b": "full"})
        for letter in "xy":
            lake.append(table, f"SELECT 1, repeat('{letter}', 9000), CAST(repeat('{letter}', 5000) AS BINARY)")
        rewrite_natively(lake, table)
        (file,) = lake.metadata(table, "files")
        lower, upper = file["lower_bounds"], file["upper_bounds"]
        assert (bytes(lower[2]), bytes(upper[2])) == (b"x" * 16, b"y" * 15 + b"z")
        assert (bytes(lower[3]), bytes(upper[3])) == (b"x" * 5000, b"y" * 5000)

    def test_empty_containers_are_not_null(self, lake: Lake) -> None:
        table = lake.create("a ARRAY<ARRAY<INT>>, m MAP<STRING, ARRAY<STRING>>, s STRUCT<x: STRUCT<y: ARRAY<INT>>>")
        for row in (
            "array(), map(), named_struct('x', named_struct('y', array()))",
            "NULL, NULL, NULL",
            "array(NULL, array(), array(NULL)), map('k', NULL, 'l', array()), named_struct('x', NULL)",
            "array(array(1, NULL)), map('k', array('', NULL)), named_struct('x', named_struct('y', NULL))",
        ):
            lake.append(table, f"SELECT {row}")
        lake.sql(f"ALTER TABLE {table} ADD COLUMN s.x.z STRING")
        assert len(set(lake.main_rows(table))) == 4
        rewrite_natively(lake, table)

    def test_uuids_and_fixed(self, lake: Lake) -> None:
        from pyiceberg.schema import Schema
        from pyiceberg.types import FixedType, NestedField, TimeType, UUIDType

        table = lake.new_table_id("times")
        fields = (NestedField(1, "u", UUIDType()), NestedField(2, "f", FixedType(3)), NestedField(3, "t", TimeType()))
        created = lake.catalogs.open("lake").create_table((*table.namespace, table.name), Schema(*fields))
        arrow = pa.schema([("u", pa.uuid()), ("f", pa.binary(3)), ("t", pa.time64("us"))])
        for number in range(2):
            created.append(
                pa.table({"u": [UUID(int=number).bytes, None], "f": [b"a\0b", None], "t": [number, None]}, arrow)
            )
        before = sorted(map(repr, created.refresh().scan().to_arrow().to_pylist()))
        record = lake.run(table, REWRITE_ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert [group["engine"] for group in group_details(record)] == ["native"]
        assert sorted(map(repr, created.refresh().scan().to_arrow().to_pylist())) == before


def defaults(lake: Lake) -> dict[str, tuple[Any, Any]]:
    types = lake.iceberg.types.Types
    return {
        "d_string": (types.StringType.get(), "a default"),
        "d_int": (types.IntegerType.get(), 7),
        "d_long": (types.LongType.get(), 2**40),
        "d_float": (types.FloatType.get(), 1.5),
        "d_double": (types.DoubleType.get(), -0.25),
        "d_boolean": (types.BooleanType.get(), True),
        "d_date": (types.DateType.get(), "2024-02-29"),
        "d_timestamp": (types.TimestampType.withoutZone(), "2024-02-29T12:34:56.789012"),
        "d_timestamptz": (types.TimestampType.withZone(), "2024-02-29T12:34:56.789012+00:00"),
        "d_decimal": (types.DecimalType.of(9, 2), "-1234.50"),
        "d_uuid": (types.UUIDType.get(), "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        "d_fixed": (types.FixedType.ofLength(2), bytearray(b"\x00\xff")),
        "d_binary": (types.BinaryType.get(), bytearray(b"\x00\xff\x10")),
    }


def read_signed_rows(lake: Lake, table: TableId) -> list[str]:
    """Reads rows in a form that distinguishes -0.0 from 0.0, and treats all NaNs alike."""
    return read_rows(lake.sql(f"SELECT n, d, f, s, l FROM {table}"))


def read_metrics(lake: Lake, table: TableId) -> dict[str, dict[str, Any]]:
    names = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    return {
        str(row["partition"]["n"]): {name: decode_values(row[name]) for name in names}
        for row in lake.metadata(table, "files")
    }


def decode_values(values: Mapping[int, Any] | None) -> dict[int, Any]:
    found = {}
    for number, value in (values or {}).items():
        is_bytes = isinstance(value, bytes | bytearray)
        found[number] = repr(struct.unpack("<d" if len(value) == 8 else "<f", value)[0]) if is_bytes else value
    return found
