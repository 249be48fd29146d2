"""Values that are not in the data file: those of identity partitions, and nested defaults."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import Compact, Layout
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId

from .lake import Lake, commit_equality_delete, read_rows
from .native_runs import REWRITE_ALL, list_data_files

# The folder name that Hive uses for null.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def get_engines(record: RunRecord) -> set[str]:
    assert record.state is RunState.SUCCEEDED, record.message
    return {str(group["engine"]) for group in (record.details or {})["groups"]}


def get_reasons(record: RunRecord) -> set[str]:
    return {str(group.get("why")) for group in (record.details or {})["groups"]}


def import_hive_table(lake: Lake, stored: str | None) -> TableId:
    """Imports a Hive-style folder with three partitions of two files each.

    `stored` is the value of the partition column in the files; None if they do not have the column.
    """
    table = lake.create("id BIGINT, v STRING, p STRING", partitioned_by="p", hint="hive")
    folder = lake.folder / f"hive-{table.name}"
    for index, partition in enumerate(("x", "y", HIVE_NULL)):
        partition_folder = folder / f"p={partition}"
        partition_folder.mkdir(parents=True)
        for file in range(2):
            first = 10 * index + 5 * file
            rows: dict[str, Any] = {"id": list(range(first, first + 5)), "v": ["v"] * 5}
            if stored is not None:
                rows["p"] = [stored] * 5
            pq.write_table(pa.table(rows), partition_folder / f"part-{file}.parquet")
    lake.sql(f"CALL lake.system.add_files('{table.short}', '`parquet`.`file://{folder}`')")
    return table


def read_with_pyiceberg(lake: Lake, table: TableId, **scan: Any) -> list[str]:
    found = lake.catalogs.load(table).scan(**scan).to_arrow()
    return sorted(repr(tuple(row[name] for name in ("id", "v", "p"))) for row in found.to_pylist())


class TestPartitionConstants:
    @pytest.mark.parametrize("stored", [None, "other"], ids=["absent", "another value"])
    def test_the_value_is_that_of_the_partition(self, lake: Lake, stored: str | None) -> None:
        table = import_hive_table(lake, stored)
        before = lake.main_rows(table)
        assert get_engines(lake.run(table, REWRITE_ALL)) == {"native"}
        assert lake.main_rows(table) == before
        for partition, expected in (("x", range(10)), ("y", range(10, 20))):
            found = lake.sql(f"SELECT id FROM {table} WHERE p = '{partition}' ORDER BY id").collect()
            assert [row["id"] for row in found] == list(expected)
        assert read_with_pyiceberg(lake, table) == before
        assert read_with_pyiceberg(lake, table, row_filter="p = 'x'") == [row for row in before if "'x'" in row]
        assert read_with_pyiceberg(lake, table, row_filter="p is null") == [row for row in before if "None" in row]
        bounds = {row["partition"]["p"]: row for row in lake.metadata(table, "files")}
        assert bytes(bounds["x"]["lower_bounds"][3]) == bytes(bounds["x"]["upper_bounds"][3]) == b"x"
        assert {name: row["null_value_counts"][3] for name, row in bounds.items()} == {"x": 0, "y": 0, None: 10}
        written = {frozenset(pq.read_table(path)["p"].to_pylist()) for path in list_data_files(lake, table)}
        assert written == {frozenset({"x"}), frozenset({"y"}), frozenset({None})}

    @pytest.mark.parametrize("stored", [None, "other"], ids=["absent", "another value"])
    def test_equality_deletes_use_the_value_of_the_partition(self, lake: Lake, stored: str | None) -> None:
        table = import_hive_table(lake, stored)
        commit_equality_delete(lake, table, ["id", "p"], [(1, "x"), (2, "y"), (3, "other")], "p=x")
        before = lake.main_rows(table)
        assert len(before) == 29
        assert get_engines(lake.run(table, REWRITE_ALL)) == {"native"}
        assert lake.main_rows(table) == before
        commit_equality_delete(lake, table, ["id", "p"], [(4, "x")], "p=x")
        assert lake.main_rows(table) == [row for row in before if not row.startswith("(4,")]

    @pytest.mark.parametrize("stored", [None, "other"], ids=["absent", "another value"])
    def test_sorting_uses_the_value_of_the_partition(self, lake: Lake, stored: str | None) -> None:
        table = import_hive_table(lake, stored)
        before = lake.main_rows(table)
        action = Compact(rewrite_all=True, layout=Layout.SORT, columns=("p", "id DESC"))
        assert get_engines(lake.run(table, action)) == {"native"}
        assert lake.main_rows(table) == before == read_with_pyiceberg(lake, table)
        for path in list_data_files(lake, table):
            ids = pq.read_table(path)["id"].to_pylist()
            assert ids == sorted(ids, reverse=True)

    def test_every_type_that_can_be_a_partition(self, lake: Lake) -> None:
        kinds = {
            "BOOLEAN": "true",
            "INT": "-7",
            "BIGINT": str(2**40),
            "FLOAT": "CAST(1.5 AS FLOAT)",
            "DOUBLE": "-0.25D",
            "STRING": "'ü, \"x\"'",
            "BINARY": "X'00FF10'",
            "DATE": "DATE '1969-02-28'",
            "TIMESTAMP": "TIMESTAMP '2024-02-29 12:34:56.789012'",
            "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '1900-01-01 00:00:00.000001'",
            "DECIMAL(9,2)": "-1234.50BD",
            "DECIMAL(38,10)": "1.0000000001BD",
        }
        columns = [f"c{index}" for index in range(len(kinds))]
        declared = ", ".join(f"{name} {kind}" for name, kind in zip(columns, kinds, strict=True))
        table = lake.create(f"id BIGINT, {declared}", partitioned_by=", ".join(columns))
        for number in range(2):
            lake.append(table, f"SELECT {number}, {', '.join(kinds.values())}")
            lake.append(table, f"SELECT {number}, {', '.join(['NULL'] * len(kinds))}")
        before = lake.main_rows(table)
        assert get_engines(lake.run(table, REWRITE_ALL)) == {"native"}
        assert lake.main_rows(table) == before
        written = [pq.read_table(path).select(columns).to_pylist() for path in list_data_files(lake, table)]
        assert sorted([row[0] == row[1] for row in written]) == [True, True]
        (without_nulls,) = [rows[0] for rows in written if rows[0]["c0"] is not None]
        assert None not in without_nulls.values()

    def test_an_identity_partition_on_a_nested_column_falls_back_to_spark(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, s STRUCT<x: STRING>", partitioned_by="s.x")
        for number in range(2):
            lake.append(table, f"SELECT {number}, named_struct('x', 'a')")
        before = lake.main_rows(table)
        record = lake.run(table, REWRITE_ALL)
        assert get_engines(record) == {"spark"}
        assert get_reasons(record) == {"an identity partition on a nested column"}
        assert lake.main_rows(table) == before


class TestNestedDefaults:
    def test_defaults_in_structs_lists_and_maps_at_any_depth(self, lake: Lake) -> None:
        inner = "STRUCT<x: INT>"
        table = lake.create(
            f"id BIGINT, s {inner}, l ARRAY<{inner}>, m MAP<STRING, {inner}>, "
            f"d ARRAY<STRUCT<k: INT, m: MAP<STRING, ARRAY<{inner}>>>>",
            version=3,
        )
        one = "named_struct('x', 1)"
        deep = f"array(named_struct('k', 1, 'm', map('a', array({one}, NULL), 'b', array())), NULL)"
        lake.append(table, f"SELECT 1, {one}, array({one}, NULL), map('k', {one}, 'n', NULL), {deep}")
        lake.append(table, "SELECT 2, NULL, NULL, NULL, NULL")
        lake.append(table, "SELECT 3, named_struct('x', CAST(NULL AS INT)), array(), map(), array()")
        types, literal = lake.iceberg.types.Types, lake.iceberg.expressions.Expressions.lit
        update = lake.java_table(table).updateSchema()
        for parent in ("s", "l.element", "m.value", "d.element", "d.element.m.value.element"):
            update.addColumn(parent, "word", types.StringType.get(), "", literal("nested"))
        update.commit()
        before = lake.main_rows(table)
        assert sum(row.count("word='nested'") for row in before) == 6, before
        assert get_engines(lake.run(table, REWRITE_ALL)) == {"native"}
        assert lake.main_rows(table) == before
        (path,) = list_data_files(lake, table)
        assert repr(pq.read_table(path).to_pylist()).count("'word': 'nested'") == 6


class TestChecksums:
    def test_spark_verifies_the_checksums_of_outputs(self, lake: Lake) -> None:
        """Covers encoded pages and pages that were merged without being decoded."""
        table = lake.create("id BIGINT, v STRING, l ARRAY<BIGINT>")
        # Spark writes expressions that cannot be null as required columns, even if the table column is optional.
        number = "IF(id < 0, NULL, id)"
        for first in (0, 40_000):
            rows = f"SELECT {number}, IF(id < 0, NULL, 'v' || id % 7), IF(id < 0, NULL, array({number}))"
            lake.append(table, f"{rows} FROM range({first}, {first + 40_000})")
        before = lake.main_rows(table)
        record = lake.run(table, REWRITE_ALL)
        assert get_engines(record) == {"native"}
        assert (record.details or {})["copied_bytes"] > 0
        hadoop = lake.spark.sparkContext._jsc.hadoopConfiguration()
        name = "parquet.page.verify-checksum.enabled"
        hadoop.set(name, "true")
        try:
            (path,) = list_data_files(lake, table)
            assert read_rows(lake.spark.read.parquet(path.as_uri()).select("id", "v", "l")) == before
            pages = pq.ParquetFile(path, page_checksum_verification=True)
            assert pages.read().num_rows == 80_000
            damaged = path.with_name("damaged.parquet")
            data = bytearray(path.read_bytes())
            position = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset + 500
            data[position] ^= 1
            damaged.write_bytes(data)
            with pytest.raises(Exception, match=r"(?i)crc|checksum"):
                lake.spark.read.parquet(damaged.as_uri()).select("id").collect()
        finally:
            hadoop.unset(name)
