"""Values that a data file does not hold: the partition's, and defaults inside lists and maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import Compact, Layout
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId

from .lakes import Lake, content, equality_delete, local

ALL = Compact(rewrite_all=True)
NULL = "__HIVE_DEFAULT_PARTITION__"


def engines(record: RunRecord) -> set[str]:
    assert record.state is RunState.SUCCEEDED, record.message
    return {str(group["engine"]) for group in (record.details or {})["groups"]}


def reasons(record: RunRecord) -> set[str]:
    return {str(group.get("why")) for group in (record.details or {})["groups"]}


def imported(lake: Lake, inside: str | None) -> TableId:
    """A Hive-style folder of three partitions with two files each, taken in as it is.

    `inside` is what the files themselves have for the partition's column; None where they do not have it.
    """
    table = lake.create("id BIGINT, v STRING, p STRING", partitioned_by="p", hint="hive")
    folder = lake.folder / f"hive-{table.name}"
    for at, partition in enumerate(("x", "y", NULL)):
        place = folder / f"p={partition}"
        place.mkdir(parents=True)
        for file in range(2):
            first = 10 * at + 5 * file
            rows: dict[str, Any] = {"id": list(range(first, first + 5)), "v": ["v"] * 5}
            if inside is not None:
                rows["p"] = [inside] * 5
            pq.write_table(pa.table(rows), place / f"part-{file}.parquet")
    lake.sql(f"CALL lake.system.add_files('{table.short}', '`parquet`.`file://{folder}`')")
    return table


def by_pyiceberg(lake: Lake, table: TableId, **scan: Any) -> list[str]:
    found = lake.catalogs.load(table).scan(**scan).to_arrow()
    return sorted(repr(tuple(row[name] for name in ("id", "v", "p"))) for row in found.to_pylist())


def outputs(lake: Lake, table: TableId) -> list[Path]:
    return [local(row["file_path"]) for row in lake.metadata(table, "files") if row["content"] == 0]


class TestPartitionConstants:
    @pytest.mark.parametrize("inside", [None, "other"], ids=["absent", "another value"])
    def test_the_partition_says_the_value(self, lake: Lake, inside: str | None) -> None:
        table = imported(lake, inside)
        before = lake.main(table)
        assert engines(lake.run(table, ALL)) == {"native"}
        assert lake.main(table) == before
        for partition, expected in (("x", range(10)), ("y", range(10, 20))):
            found = lake.sql(f"SELECT id FROM {table} WHERE p = '{partition}' ORDER BY id").collect()
            assert [row["id"] for row in found] == list(expected)
        assert by_pyiceberg(lake, table) == before
        assert by_pyiceberg(lake, table, row_filter="p = 'x'") == [row for row in before if "'x'" in row]
        assert by_pyiceberg(lake, table, row_filter="p is null") == [row for row in before if "None" in row]
        bounds = {row["partition"]["p"]: row for row in lake.metadata(table, "files")}
        assert bytes(bounds["x"]["lower_bounds"][3]) == bytes(bounds["x"]["upper_bounds"][3]) == b"x"
        assert {name: row["null_value_counts"][3] for name, row in bounds.items()} == {"x": 0, "y": 0, None: 10}
        stored = {frozenset(pq.read_table(path)["p"].to_pylist()) for path in outputs(lake, table)}
        assert stored == {frozenset({"x"}), frozenset({"y"}), frozenset({None})}

    @pytest.mark.parametrize("inside", [None, "other"], ids=["absent", "another value"])
    def test_equality_deletes_see_it(self, lake: Lake, inside: str | None) -> None:
        table = imported(lake, inside)
        equality_delete(lake, table, ["id", "p"], [(1, "x"), (2, "y"), (3, "other")], "p=x")
        before = lake.main(table)
        assert len(before) == 29
        assert engines(lake.run(table, ALL)) == {"native"}
        assert lake.main(table) == before
        equality_delete(lake, table, ["id", "p"], [(4, "x")], "p=x")
        assert lake.main(table) == [row for row in before if not row.startswith("(4,")]

    @pytest.mark.parametrize("inside", [None, "other"], ids=["absent", "another value"])
    def test_sorting_sees_it(self, lake: Lake, inside: str | None) -> None:
        table = imported(lake, inside)
        before = lake.main(table)
        action = Compact(rewrite_all=True, layout=Layout.SORT, columns=("p", "id DESC"))
        assert engines(lake.run(table, action)) == {"native"}
        assert lake.main(table) == before == by_pyiceberg(lake, table)
        for path in outputs(lake, table):
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
        columns = [f"c{at}" for at in range(len(kinds))]
        declared = ", ".join(f"{name} {kind}" for name, kind in zip(columns, kinds, strict=True))
        table = lake.create(f"id BIGINT, {declared}", partitioned_by=", ".join(columns))
        for number in range(2):
            lake.append(table, f"SELECT {number}, {', '.join(kinds.values())}")
            lake.append(table, f"SELECT {number}, {', '.join(['NULL'] * len(kinds))}")
        before = lake.main(table)
        assert engines(lake.run(table, ALL)) == {"native"}
        assert lake.main(table) == before
        stored = [pq.read_table(path).select(columns).to_pylist() for path in outputs(lake, table)]
        assert sorted([row[0] == row[1] for row in stored]) == [True, True]
        (filled,) = [rows[0] for rows in stored if rows[0]["c0"] is not None]
        assert None not in filled.values()

    def test_the_identity_of_a_nested_column_is_left_to_spark(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, s STRUCT<x: STRING>", partitioned_by="s.x")
        for number in range(2):
            lake.append(table, f"SELECT {number}, named_struct('x', 'a')")
        before = lake.main(table)
        record = lake.run(table, ALL)
        assert engines(record) == {"spark"}
        assert reasons(record) == {"a partition by the identity of a nested column"}
        assert lake.main(table) == before


class TestNestedDefaults:
    def test_inside_structs_lists_and_maps_at_any_depth(self, lake: Lake) -> None:
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
        update = lake.java(table).updateSchema()
        for parent in ("s", "l.element", "m.value", "d.element", "d.element.m.value.element"):
            update.addColumn(parent, "word", types.StringType.get(), "", literal("inside"))
        update.commit()
        before = lake.main(table)
        assert sum(row.count("word='inside'") for row in before) == 6, before
        assert engines(lake.run(table, ALL)) == {"native"}
        assert lake.main(table) == before
        (path,) = outputs(lake, table)
        assert repr(pq.read_table(path).to_pylist()).count("'word': 'inside'") == 6


class TestChecksums:
    def test_spark_verifies_those_of_the_outputs(self, lake: Lake) -> None:
        """Encoded anew, and joined as Spark has written them."""
        table = lake.create("id BIGINT, v STRING, l ARRAY<BIGINT>")
        # Of what cannot be null Spark makes columns that are required, whatever the table says.
        number = "IF(id < 0, NULL, id)"
        for first in (0, 40_000):
            rows = f"SELECT {number}, IF(id < 0, NULL, 'v' || id % 7), IF(id < 0, NULL, array({number}))"
            lake.append(table, f"{rows} FROM range({first}, {first + 40_000})")
        before = lake.main(table)
        record = lake.run(table, ALL)
        assert engines(record) == {"native"}
        assert (record.details or {})["copied_bytes"] > 0
        hadoop = lake.spark.sparkContext._jsc.hadoopConfiguration()
        name = "parquet.page.verify-checksum.enabled"
        hadoop.set(name, "true")
        try:
            (path,) = outputs(lake, table)
            assert content(lake.spark.read.parquet(path.as_uri()).select("id", "v", "l")) == before
            pages = pq.ParquetFile(path, page_checksum_verification=True)
            assert pages.read().num_rows == 80_000
            damaged = path.with_name("damaged.parquet")
            data = bytearray(path.read_bytes())
            at = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset + 500
            data[at] ^= 1
            damaged.write_bytes(data)
            with pytest.raises(Exception, match=r"(?i)crc|checksum"):
                lake.spark.read.parquet(damaged.as_uri()).select("id").collect()
        finally:
            hadoop.unset(name)
