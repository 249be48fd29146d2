"""What a rewrite gets wrong when it is careless, each as a table; and what is left to Spark, with the reason."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine.native import sizing
from icepack.kernel.parquet.chunk_writer import COLUMNS, OFFSET_INDEX, ROW_GROUPS, footer
from icepack.kernel.parquet.thrift import Reader

from .lakes import Lake, content, equality_delete, local

ALL = Compact(rewrite_all=True)
NAN, INFINITY = "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)"


def rewritten(lake: Lake, table: TableId, action: Compact = ALL) -> RunRecord:
    """By the kernel alone; the rows are what they were."""
    before = lake.main(table)
    record = lake.run(table, action)
    assert record.state is RunState.SUCCEEDED, record.message
    assert [group["engine"] for group in ways(record)] == ["native"] * len(ways(record)), record.details
    assert record.commits
    assert all(summary["icepack.engine"] == "native" for summary in lake.summaries(record))
    assert all(proof.holds for proof in record.proofs)
    assert lake.main(table) == before
    return record


def ways(record: RunRecord) -> list[dict[str, Any]]:
    return [dict(group) for group in (record.details or {})["groups"]]


def outputs(lake: Lake, table: TableId) -> list[Path]:
    """The live data files, in the order in which they were planned."""
    return sorted(local(row["file_path"]) for row in lake.sql(f"SELECT file_path FROM {table}.data_files").collect())


def live_deletes(lake: Lake, table: TableId) -> list[dict[str, Any]]:
    return [row for row in lake.metadata(table, "files") if row["content"] != 0]


def lineage(lake: Lake, table: TableId) -> list[str]:
    return content(lake.sql(f"SELECT *, _row_id, _last_updated_sequence_number FROM {table}"))


class TestTraps:
    def test_an_equality_delete_of_null_deletes_null_and_nothing_else(self, lake: Lake) -> None:
        table = lake.create()
        lake.append(table, "VALUES (1, 'a'), (NULL, 'b'), (3, NULL), (NULL, NULL)")
        lake.append(table, "VALUES (NULL, 'c'), (5, 'e')")
        equality_delete(lake, table, ["id"], [(None,)])
        lake.append(table, "VALUES (NULL, 'later')")
        equality_delete(lake, table, ["v", "id"], [(None, 3), ("e", None)])
        assert lake.main(table) == ["(1, 'a')", "(5, 'e')", "(None, 'later')"]
        record = rewritten(lake, table)
        assert lake.summaries(record)[0]["icepack.rows-dropped"] == "4"
        assert live_deletes(lake, table) == []

    def test_files_without_ids_are_read_by_name_and_not_by_position(self, lake: Lake) -> None:
        table = lake.create("a STRING, b STRING, s STRUCT<x: STRING, y: STRING>, l ARRAY<STRUCT<q: INT>>")
        lake.append(table, "SELECT 'a0', 'b0', named_struct('x', 'x0', 'y', 'y0'), array(named_struct('q', 0))")
        body = {
            "l": pa.array([[{"q": 1}], None], pa.list_(pa.struct([("q", pa.int32())]))),
            "stranger": ["?", "?"],
            "s": [{"y": "y1", "x": "x1"}, None],
            "b": ["b1", "b2"],
            "a": ["a1", None],
        }
        add_files(lake, table, pa.table(body))
        expected = "('a1', 'b1', Row(x='x1', y='y1'), [Row(q=1)])"
        assert expected in lake.main(table)
        lake.sql(f"ALTER TABLE {table} RENAME COLUMN a TO z")
        rewritten(lake, table)
        assert expected in lake.main(table)

    def test_row_ids_and_their_numbers_stay_with_their_rows(self, lake: Lake) -> None:
        table = lake.create(version=3)
        lake.numbers(table, files=2)
        lake.sql(f"UPDATE {table} SET v = 'new' WHERE id IN (1, 15)")
        lake.sql(f"DELETE FROM {table} WHERE id IN (2, 16)")
        before = lineage(lake, table)
        rewritten(lake, table)
        assert lineage(lake, table) == before
        lake.sql(f"UPDATE {table} SET v = 'newer' WHERE id = 3")
        lake.numbers(table, files=1, start=100)
        before = lineage(lake, table)
        rewritten(lake, table)
        assert lineage(lake, table) == before

    def test_row_ids_of_a_table_that_was_upgraded(self, lake: Lake) -> None:
        """Compacted before: the number that its file had when it was written is not the one of its rows."""
        table = lake.create()
        lake.numbers(table, files=2)
        rewritten(lake, table)
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
        lake.numbers(table, files=1, start=100)
        before = lineage(lake, table)
        rewritten(lake, table)
        assert lineage(lake, table) == before

    def test_vectors_that_share_a_puffin_file_are_told_apart(self, lake: Lake) -> None:
        table = lake.create(version=3, partitioned_by="truncate(100, id)")
        for first in (0, 10, 100, 110):
            lake.append(table, f"SELECT id, 'v' || id FROM range({first}, {first + 10})")
        lake.sql(f"DELETE FROM {table} WHERE id % 10 IN (0, 3, 9)")
        deletes = live_deletes(lake, table)
        assert (len(deletes), len({row["file_path"] for row in deletes})) == (4, 1)
        before = lineage(lake, table)
        rewritten(lake, table, Compact(rewrite_all=True, partition_filter="id < 100"))
        assert len(live_deletes(lake, table)) == 2, "the other partition's vectors are still needed"
        assert lineage(lake, table) == before
        rewritten(lake, table)
        assert live_deletes(lake, table) == []
        assert lineage(lake, table) == before

    def test_columns_changed_with_no_snapshot_after_it(self, lake: Lake) -> None:
        table = lake.create("id INT, a STRING, f FLOAT, d DECIMAL(5,2), s STRUCT<x: INT, y: STRING>")
        for number in range(2):
            lake.append(table, f"SELECT {number}, 'a{number}', {number}.5F, 1.25, named_struct('x', 1, 'y', 'y')")
        for change in (
            "RENAME COLUMN a TO b",
            "ADD COLUMN a BIGINT AFTER id",
            "ALTER COLUMN id TYPE BIGINT",
            "ALTER COLUMN f TYPE DOUBLE",
            "ALTER COLUMN d TYPE DECIMAL(20,2)",
            "RENAME COLUMN s.y TO z",
            "ADD COLUMN s.y INT",
            "ALTER COLUMN s.x TYPE BIGINT",
        ):
            lake.sql(f"ALTER TABLE {table} {change}")
        rewritten(lake, table)
        assert lake.main(table)[0] == "(0, None, 'a0', 0.5, Decimal('1.25'), Row(x=1, z='y', y=None))"

    def test_structs_that_lost_every_field_they_were_written_with(self, lake: Lake) -> None:
        """They are still there, and are not the same as none at all."""
        inside = "struct<a: INT>"
        table = lake.create(
            f"id BIGINT, s {inside}, d struct<k: INT, s: {inside}>, l array<{inside}>, ll array<array<{inside}>>, "
            f"e struct<s: {inside}>, m map<STRING, {inside}>"
        )
        full = "named_struct('a', 1)"
        made = [
            f"SELECT 1, {full}, named_struct('k', 2, 's', {full}), array({full}, NULL), array(array({full})), "
            f"named_struct('s', {full}), map('k', {full})",
            "SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL",
            "SELECT 3, named_struct('a', NULL), named_struct('k', NULL, 's', NULL), array(), array(array(), NULL), "
            "named_struct('s', NULL), map()",
        ]
        lake.append(table, " UNION ALL ".join(made))
        for place in ("s", "d.s", "l.element", "ll.element.element", "e.s", "m.value"):
            lake.sql(f"ALTER TABLE {table} ADD COLUMN {place}.b INT")
            lake.sql(f"ALTER TABLE {table} DROP COLUMN {place}.a")
        lake.append(table, "SELECT 4, named_struct('b', 7), NULL, array(named_struct('b', 8)), array(), NULL, NULL")
        assert lake.main(table)[0] == (
            "(1, Row(b=None), Row(k=2, s=Row(b=None)), [Row(b=None), None], [[Row(b=None)]], Row(s=Row(b=None)), "
            "{'k': Row(b=None)})"
        )
        rewritten(lake, table)

    @pytest.mark.parametrize("granularity", ["file", "partition"])
    def test_deletes_leave_the_metadata_with_the_rows(self, lake: Lake, granularity: str) -> None:
        """In the very commit, those that were committed last included."""
        table = lake.create(partitioned_by="bucket(2, id)", properties={"write.delete.granularity": granularity})
        lake.numbers(table, files=2)
        lake.sql(f"DELETE FROM {table} WHERE id < 4")
        lake.sql(f"DELETE FROM {table} WHERE id > 16")
        assert live_deletes(lake, table)
        record = rewritten(lake, table)
        assert len(record.commits) == 1
        assert live_deletes(lake, table) == []

    def test_a_delete_that_another_file_needs_stays(self, lake: Lake) -> None:
        """An equality delete without a partition is about all of them."""
        table = lake.create()
        lake.append(table, "VALUES (1, 'a'), (100, 'b')")
        equality_delete(lake, table, ["id"], [(1,), (100,)])
        lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD truncate(100, id)")
        lake.append(table, "VALUES (5, 'five'), (101, 'more')")
        for id in (6, 106):
            lake.append(table, f"VALUES ({id}, 'x')")
        assert lake.main(table) == ["(101, 'more')", "(106, 'x')", "(5, 'five')", "(6, 'x')"]
        rewritten(lake, table, Compact(min_input_files=2))
        assert lake.main(table) == ["(101, 'more')", "(106, 'x')", "(5, 'five')", "(6, 'x')"]
        assert len(live_deletes(lake, table)) == 1

    def test_in_batches_a_wide_delete_goes_with_the_last_of_its_files(self, lake: Lake) -> None:
        table = lake.create(partitioned_by="v", properties={"write.delete.granularity": "partition"})
        for first in (0, 10):
            lake.append(table, f"SELECT id, IF(id % 2 = 0, 'even', 'odd') FROM range({first}, {first + 10})")
        lake.sql(f"DELETE FROM {table} WHERE id IN (2, 3, 12, 13)")
        record = rewritten(lake, table, Compact(rewrite_all=True, partial_progress=True))
        assert len(record.commits) == 2
        assert [summary.get("icepack.part") for summary in lake.summaries(record)] == ["1 of 2 groups", None]
        assert live_deletes(lake, table) == []

    def test_no_tiny_tails_and_rows_as_they_were_written(self, lake: Lake) -> None:
        """Eleven files into five: none of the five is what was left over."""
        table = lake.create("id BIGINT, v STRING", properties={"write.parquet.compression-codec": "uncompressed"})
        for number in range(11):
            lake.append(
                table, f"SELECT id, repeat(md5(CAST(id AS STRING)), 4) FROM range({number}000, {number}000 + 100)"
            )
        total = sum(path.stat().st_size for path in outputs(lake, table))
        head = lake.head(table)
        found = []
        for _ in range(2):
            rewritten(lake, table, Compact(rewrite_all=True, target_file_bytes=total // 5 + 100))
            files = outputs(lake, table)
            sizes = [path.stat().st_size for path in files]
            assert len(sizes) == 5
            assert min(sizes) > max(sizes) / 2
            found.append([pq.read_table(path).to_pydict() for path in files])
            lake.java(table).manageSnapshots().rollbackTo(head).commit()
        assert found[0] == found[1], "the same from run to run"
        ids = [id for part in found[0] for id in part["id"]]
        assert ids == sorted(ids), "in the order in which they were written"

    @pytest.mark.parametrize("version", [2, 3])
    def test_one_large_file_becomes_several(self, lake: Lake, version: int) -> None:
        table = lake.create(
            version=version,
            properties={"write.parquet.row-group-size-bytes": "20000", "write.parquet.compression-codec": "gzip"},
        )
        lake.append(table, "SELECT id, repeat(md5(CAST(id AS STRING)), 3) FROM range(0, 3000)")
        lake.append(table, "SELECT id, md5(CAST(id AS STRING)) FROM range(5000, 5100)")
        lake.sql(f"DELETE FROM {table} WHERE id % 100 IN (0, 1, 99)")
        before = lineage(lake, table) if version == 3 else []
        total = sum(path.stat().st_size for path in outputs(lake, table))
        rewritten(lake, table, Compact(rewrite_all=True, target_file_bytes=total // 4 + 1))
        assert len(outputs(lake, table)) == 4
        assert live_deletes(lake, table) == []
        if version == 3:
            assert lineage(lake, table) == before
        ids = [id for path in outputs(lake, table) for id in pq.read_table(path)["id"].to_pylist()]
        assert ids == [id for id in [*range(3000), *range(5000, 5100)] if id % 100 not in (0, 1, 99)]

    def test_nothing_of_a_deleted_row_is_left_in_the_bytes(self, lake: Lake) -> None:
        """Not even as an entry of a dictionary that nothing refers to any more."""
        table = lake.create(properties={"write.parquet.compression-codec": "uncompressed"})
        lake.append(table, "SELECT id, IF(id = 7, 'a secret', 'v' || id % 3) FROM range(0, 50)")
        lake.append(table, "SELECT id, 'v' || id % 3 FROM range(50, 60)")
        assert any(b"a secret" in path.read_bytes() for path in outputs(lake, table))
        lake.sql(f"DELETE FROM {table} WHERE id = 7")
        rewritten(lake, table)
        assert not any(b"a secret" in path.read_bytes() for path in outputs(lake, table))

    def test_odd_names(self, lake: Lake) -> None:
        table = lake.create("`a b` STRING, a_b STRING, `1` STRING, `ä-é` STRING, `x.y` STRUCT<`p q`: INT, p_q: INT>")
        for number in range(2):
            lake.append(table, f"SELECT 'a{number}', 'b{number}', 'c', 'd', named_struct('p q', {number}, 'p_q', 9)")
        (written, _) = outputs(lake, table)
        for _ in range(2):
            rewritten(lake, table)
        (path,) = outputs(lake, table)
        assert leaf_ids(path) == leaf_ids(written), "the names are those that Iceberg's own writer gives"
        assert lake.main(table)[0] == "('a0', 'b0', 'c', 'd', Row(p q=0, p_q=9))"


def add_files(lake: Lake, table: TableId, rows: pa.Table) -> None:
    """A Parquet file without field ids, as another tool has written it."""
    folder = lake.folder / f"foreign-{table.name}"
    folder.mkdir()
    pq.write_table(rows, folder / "part.parquet", store_schema=False)
    lake.sql(f"CALL lake.system.add_files('{table.short}', '`parquet`.`file://{folder}`')")


class TestValues:
    def test_defaults_of_every_type_are_written_down(self, lake: Lake) -> None:
        table = lake.create(version=3)
        lake.numbers(table, files=2, rows=2)
        for name, (kind, literal) in defaults(lake).items():
            typed = lake.iceberg.expressions.Expressions.lit(literal).to(kind)
            lake.java(table).updateSchema().addColumn(name, kind, "", typed).commit()
        before = lake.main(table)
        rewritten(lake, table)
        (path,) = outputs(lake, table)
        stored = pq.read_table(path).slice(0, 1).to_pylist()[0]
        assert stored["d_string"] == "as ever"
        assert all(stored[name] is not None for name in defaults(lake)), stored
        assert lake.main(table) == before

    def test_a_default_inside_a_struct_is_written_down(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, s STRUCT<x: INT>", version=3)
        for _ in range(2):
            lake.append(table, "SELECT 1, named_struct('x', 1)")
        types = lake.iceberg.types.Types
        literal = lake.iceberg.expressions.Expressions.lit("inside")
        lake.java(table).updateSchema().addColumn("s", "y", types.StringType.get(), "", literal).commit()
        rewritten(lake, table)
        (path,) = outputs(lake, table)
        assert pq.read_table(path)["s"].to_pylist() == [{"x": 1, "y": "inside"}] * 2
        assert lake.main(table) == ["(1, Row(x=1, y='inside'))"] * 2

    def test_zeros_nans_and_infinities_keep_their_sign_and_their_metrics(self, lake: Lake) -> None:
        """Files of one value each: the bounds must be those that Iceberg's own writer gives."""
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
        head, before = lake.head(table), signed_rows(lake, table)
        rewritten(lake, table)
        assert signed_rows(lake, table) == before
        natively = metrics(lake, table)
        lake.java(table).manageSnapshots().rollbackTo(head).commit()
        lake.run(table, Compact(rewrite_all=True, engine=RewriteEngine.SPARK))
        by_spark = metrics(lake, table)
        assert natively.keys() == by_spark.keys()
        for partition, expected in by_spark.items():
            assert natively[partition] == expected, pairs[int(partition)]

    def test_long_values_have_bounds_too(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, s STRING, b BINARY", properties={"write.metadata.metrics.column.b": "full"})
        for letter in "xy":
            lake.append(table, f"SELECT 1, repeat('{letter}', 9000), CAST(repeat('{letter}', 5000) AS BINARY)")
        rewritten(lake, table)
        (file,) = lake.metadata(table, "files")
        lower, upper = file["lower_bounds"], file["upper_bounds"]
        assert (bytes(lower[2]), bytes(upper[2])) == (b"x" * 16, b"y" * 15 + b"z")
        assert (bytes(lower[3]), bytes(upper[3])) == (b"x" * 5000, b"y" * 5000)

    def test_empty_containers_are_neither_null_nor_gone(self, lake: Lake) -> None:
        table = lake.create("a ARRAY<ARRAY<INT>>, m MAP<STRING, ARRAY<STRING>>, s STRUCT<x: STRUCT<y: ARRAY<INT>>>")
        for row in (
            "array(), map(), named_struct('x', named_struct('y', array()))",
            "NULL, NULL, NULL",
            "array(NULL, array(), array(NULL)), map('k', NULL, 'l', array()), named_struct('x', NULL)",
            "array(array(1, NULL)), map('k', array('', NULL)), named_struct('x', named_struct('y', NULL))",
        ):
            lake.append(table, f"SELECT {row}")
        lake.sql(f"ALTER TABLE {table} ADD COLUMN s.x.z STRING")
        assert len(set(lake.main(table))) == 4
        rewritten(lake, table)

    def test_uuids_and_fixed(self, lake: Lake) -> None:
        from pyiceberg.schema import Schema
        from pyiceberg.types import FixedType, NestedField, TimeType, UUIDType

        table = lake.name("times")
        fields = (NestedField(1, "u", UUIDType()), NestedField(2, "f", FixedType(3)), NestedField(3, "t", TimeType()))
        made = lake.catalogs.open("lake").create_table((*table.namespace, table.name), Schema(*fields))
        arrow = pa.schema([("u", pa.uuid()), ("f", pa.binary(3)), ("t", pa.time64("us"))])
        for number in range(2):
            made.append(
                pa.table({"u": [UUID(int=number).bytes, None], "f": [b"a\0b", None], "t": [number, None]}, arrow)
            )
        before = sorted(map(repr, made.refresh().scan().to_arrow().to_pylist()))
        record = lake.run(table, ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert [group["engine"] for group in ways(record)] == ["native"]
        assert sorted(map(repr, made.refresh().scan().to_arrow().to_pylist())) == before


def defaults(lake: Lake) -> dict[str, tuple[Any, Any]]:
    types = lake.iceberg.types.Types
    return {
        "d_string": (types.StringType.get(), "as ever"),
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


def signed_rows(lake: Lake, table: TableId) -> list[str]:
    """Python shows -0.0 as such; NaN is like every other NaN."""
    return content(lake.sql(f"SELECT n, d, f, s, l FROM {table}"))


def metrics(lake: Lake, table: TableId) -> dict[str, dict[str, Any]]:
    names = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    return {
        str(row["partition"]["n"]): {name: as_plain(row[name]) for name in names}
        for row in lake.metadata(table, "files")
    }


def as_plain(values: Mapping[int, Any] | None) -> dict[int, Any]:
    found = {}
    for number, value in (values or {}).items():
        is_bytes = isinstance(value, bytes | bytearray)
        found[number] = repr(struct.unpack("<d" if len(value) == 8 else "<f", value)[0]) if is_bytes else value
    return found


class TestHowItIsWritten:
    @pytest.mark.parametrize(
        ("codec", "level", "expected"),
        [
            ("gzip", "9", "GZIP"),
            ("snappy", "5", "SNAPPY"),
            ("uncompressed", "1", "UNCOMPRESSED"),
            ("zstd", "12", "ZSTD"),
        ],
    )
    def test_codec_and_level(self, lake: Lake, codec: str, level: str, expected: str) -> None:
        table = lake.create()
        lake.numbers(table, files=2)
        said = f"'write.parquet.compression-codec' = '{codec}', 'write.parquet.compression-level' = '{level}'"
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({said})")
        rewritten(lake, table)
        (path,) = outputs(lake, table)
        group = pq.ParquetFile(path).metadata.row_group(0)
        assert {group.column(at).compression for at in range(2)} == {expected}

    def test_sizes_of_row_groups_and_pages(self, lake: Lake) -> None:
        table = lake.create(
            properties={
                "write.parquet.row-group-size-bytes": "16384",
                "write.parquet.page-row-limit": "100",
                "write.parquet.compression-codec": "uncompressed",
            }
        )
        for first in (0, 1000):
            lake.append(table, f"SELECT id, md5(CAST(id AS STRING)) FROM range({first}, {first + 1000})")
        rewritten(lake, table)
        (path,) = outputs(lake, table)
        metadata = pq.ParquetFile(path).metadata
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        assert len(groups) >= 4
        assert max(group.total_byte_size for group in groups) < 2 * 16384
        assert max(pages(path)) <= 100 // 8 + 3
        assert min(pages(path)) >= min(group.num_rows for group in groups) // 100
        (file,) = lake.metadata(table, "files")
        offsets = [group.column(0).dictionary_page_offset or group.column(0).data_page_offset for group in groups]
        assert file["split_offsets"] == offsets

    def test_columns_carry_the_ids_of_the_table_and_the_schema_beside(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, s STRUCT<x: INT, l: ARRAY<STRUCT<y: INT>>>, m MAP<STRING, INT>")
        for _ in range(2):
            lake.append(table, "SELECT 1, named_struct('x', 1, 'l', array(named_struct('y', 2))), map('k', 3)")
        (written, _) = outputs(lake, table)
        rewritten(lake, table)
        (path,) = outputs(lake, table)
        assert leaf_ids(path) == leaf_ids(written)
        assert b"iceberg.schema" in pq.ParquetFile(path).metadata.metadata
        assert shapes(path) == shapes(written)

    def test_pages_of_sparks_own_files_are_joined_and_found_by_their_indexes(self, lake: Lake) -> None:
        """Spark's reader of plain Parquet skips pages by what is told of them, and then has to find the same rows."""
        table = lake.create("id BIGINT, at TIMESTAMP, price DOUBLE, amount DECIMAL(12,2), word STRING, l ARRAY<BIGINT>")
        # Of what cannot be null Spark makes columns that are required, whatever the table says.
        values = ", ".join(
            f"IF(id < 0, NULL, {value})"
            for value in (
                "id",
                "timestamp_micros(id * 1000003)",
                "nullif(id, 7) * 1.1",
                "id * 7919 % 999983",
                "'word ' || id % 9",
                "array(id * 31, nullif(id * 37, -1))",
            )
        )
        for first in (0, 45_000, 75_000):
            lake.append(table, f"SELECT {values} FROM range({first}, {first + 30_000 + first % 2000})")
        before = content(lake.sql(f"SELECT id, at, price, amount, word, l FROM {table} WHERE id % 997 < 3"))
        bounds = lake.metadata(table, "files")
        record = lake.run(table, ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert all(proof.holds for proof in record.proofs)
        (path,) = outputs(lake, table)
        assert (record.details or {})["copied_bytes"] > path.stat().st_size / 2
        plain = lake.spark.read.parquet(str(path))
        assert content(plain.where("id % 997 < 3")) == before
        for where in (
            "id BETWEEN 50010 AND 50020",
            "amount = 7919",
            "price > 115000",
            "at < timestamp_micros(9000000)",
        ):
            # The sum is not told by any index, so that all pages are read for it.
            expected = content(plain.where(f"id + hash(word) * 0 IS NOT NULL AND ({where} OR rand() < -1)"))
            assert expected
            assert content(plain.where(where)) == expected, where
        (file,) = lake.metadata(table, "files")
        for kind, pick in (("lower_bounds", min), ("upper_bounds", max)):
            ends = [int.from_bytes(item[kind][1], "little") for item in bounds]
            assert int.from_bytes(file[kind][1], "little") == pick(ends)

    def test_metrics_as_the_properties_ask(self, lake: Lake) -> None:
        columns = ["none", "counts", "short", "all"]
        modes = {"none": "none", "counts": "counts", "short": "truncate(2)", "all": "full"}
        table = lake.create(
            ", ".join(f"{name} STRING" for name in columns),
            properties={f"write.metadata.metrics.column.{name}": mode for name, mode in modes.items()},
        )
        for letter in "ab":
            lake.append(table, "SELECT " + ", ".join([f"repeat('{letter}', 30)"] * 4))
        rewritten(lake, table)
        (file,) = lake.metadata(table, "files")
        assert file["value_counts"] == {2: 2, 3: 2, 4: 2}
        assert {number: bytes(raw) for number, raw in file["lower_bounds"].items()} == {3: b"aa", 4: b"a" * 30}
        assert {number: bytes(raw) for number, raw in file["upper_bounds"].items()} == {3: b"bc", 4: b"b" * 30}

    def test_partition_spec_and_order_are_stated(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, v STRING, d DATE")
        lake.append(table, "VALUES (0, 'old', DATE'2020-01-01')")
        lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD v")
        lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD months(d)")
        lake.sql(f"ALTER TABLE {table} WRITE ORDERED BY id")
        for id in (1, 2):
            lake.append(table, f"SELECT {id}, x, DATE'2024-02-01' FROM VALUES ('a/b'), (NULL), ('') AS t(x)")
        spec = lake.java(table).spec().specId()
        rewritten(lake, table, Compact(min_input_files=2))
        made = [row for row in lake.metadata(table, "files") if row["spec_id"] == spec]
        assert sorted(str(row["partition"]["v"]) for row in made) == ["", "None", "a/b"]
        assert {row["partition"]["d_month"] for row in made} == {649}
        assert {row["sort_order_id"] for row in made} == {0}, "they were put together, not sorted"
        assert {row["record_count"] for row in made} == {2}
        a_b = next(row["file_path"] for row in made if row["partition"]["v"] == "a/b")
        assert "/v=a%2Fb/d_month=2024-02/icepack-" in a_b

    def test_job_and_attempt_are_in_the_name(self, lake: Lake) -> None:
        table = lake.create()
        lake.numbers(table, files=2)
        record = rewritten(lake, table)
        (path,) = outputs(lake, table)
        assert path.name == f"icepack-{record.job_id}-1-1-00000-00000-0.parquet"

    def test_batches(self, lake: Lake) -> None:
        table = lake.create(partitioned_by="id")
        for _ in range(2):
            lake.append(table, "SELECT id, 'v' FROM range(5)")
        options = {"partial-progress.max-commits": "3"}
        record = rewritten(lake, table, Compact(rewrite_all=True, partial_progress=True, options=options))
        said = [summary.get("icepack.part", "all") for summary in lake.summaries(record)]
        assert said == ["2 of 5 groups", "4 of 5 groups", "all"]
        assert [proof.method for proof in record.proofs] == ["records"] * 3
        assert {summary["icepack.job-id"] for summary in lake.summaries(record)} == {str(record.job_id)}


def pages(path: Path) -> list[int]:
    """How many pages each column chunk has."""
    data = path.read_bytes()
    found = []
    for group in footer(pa.py_buffer(data))[ROW_GROUPS][1][1]:
        for chunk in group[COLUMNS][1][1]:
            found.append(len(Reader(data, chunk[OFFSET_INDEX][1]).struct()[1][1][1]))
    return found


def leaf_ids(path: Path) -> list[tuple[str, Any]]:
    def walk(field: pa.Field, name: str) -> Iterator[tuple[str, Any]]:
        yield name, (field.metadata or {}).get(b"PARQUET:field_id")
        for at in range(field.type.num_fields):
            child = field.type.field(at)
            yield from walk(child, f"{name}.{child.name}")

    return [pair for field in pq.read_schema(path) for pair in walk(field, field.name)]


def shapes(path: Path) -> list[tuple[Any, ...]]:
    """How each leaf lies in the file: its path, its types, and how often it is repeated."""
    schema = pq.ParquetFile(path).schema
    leaves = [schema.column(at) for at in range(len(schema))]
    return [(leaf.path, leaf.physical_type, str(leaf.logical_type), leaf.max_repetition_level) for leaf in leaves]


def orc(lake: Lake) -> TableId:
    table = lake.create(properties={"write.format.default": "orc"})
    lake.numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    return table


def new_files_in_avro(lake: Lake) -> TableId:
    table = lake.create()
    lake.numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = 'avro')")
    return table


def bloom_filters(lake: Lake) -> TableId:
    table = lake.create(properties={"write.parquet.bloom-filter-enabled.column.id": "true"})
    lake.numbers(table, files=2)
    return table


def old_spec(lake: Lake) -> TableId:
    table = lake.create()
    lake.numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    return table


def variant(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v VARIANT", version=3)
    for number in range(2):
        lake.append(table, f"SELECT {number}, parse_json('[1]')")
    return table


def deletes_in_avro(lake: Lake) -> TableId:
    table = lake.create(properties={"write.delete.format.default": "avro"})
    lake.numbers(table, files=2)
    lake.sql(f"DELETE FROM {table} WHERE id = 1")
    return table


def equality_on_a_double(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, d DOUBLE")
    for _ in range(2):
        lake.append(table, "VALUES (1, 0.5D), (2, 1.5D)")
    double_delete(lake, table, 1.5)
    return table


def no_ids_and_no_names(lake: Lake) -> TableId:
    """Seen only when the file is opened: the table goes to Spark all the same."""
    table = lake.create()
    lake.numbers(table, files=1, rows=2)
    add_files(lake, table, pa.table({"id": pa.array([7], pa.int64()), "v": ["x"]}))
    lake.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('schema.name-mapping.default')")
    return table


def read_by_name_with_no_field_left(lake: Lake) -> TableId:
    """The mapping is that of the schema as it is now, as a tool that takes files into a table writes it."""
    table = lake.create("id BIGINT, s struct<k: INT, d: struct<a: INT>>")
    inside = pa.struct([("k", pa.int32()), ("d", pa.struct([("a", pa.int32())]))])
    rows = pa.table({"id": [1, 2, 3], "s": pa.array([{"k": 1, "d": {"a": 1}}, {"k": 1, "d": None}, None], inside)})
    add_files(lake, table, rows)
    lake.sql(f"ALTER TABLE {table} ADD COLUMN s.d.b INT")
    lake.sql(f"ALTER TABLE {table} DROP COLUMN s.d.a")
    java = lake.java(table)
    mapping = lake.iceberg.mapping.NameMappingParser.toJson(lake.iceberg.mapping.MappingUtil.create(java.schema()))
    java.updateProperties().set("schema.name-mapping.default", mapping).commit()
    return table


UNCOVERED: list[tuple[Callable[[Lake], TableId], str, str]] = [
    (orc, "ORC files", ""),
    (new_files_in_avro, "new files in avro", ""),
    (bloom_filters, "property write.parquet.bloom-filter-enabled.column.id", ""),
    (old_spec, "files of an older partition spec", ""),
    (variant, "column v of a type", ""),
    (deletes_in_avro, "deletes in AVRO files", ""),
    (equality_on_a_double, "equality deletes on a column of type double", ""),
    (no_ids_and_no_names, "without field ids", ""),
    (read_by_name_with_no_field_left, "has lost every field", ""),
    (old_spec, "option max-file-size-bytes", "max-file-size-bytes"),
]


class TestWhatIsLeftToSpark:
    @pytest.mark.parametrize(
        ("build", "why", "option"),
        UNCOVERED,
        ids=[f"{build.__name__}-{at}" for at, (build, *_) in enumerate(UNCOVERED)],
    )
    def test_the_record_says_why(self, lake: Lake, build: Callable[[Lake], TableId], why: str, option: str) -> None:
        table = build(lake)
        before = lake.main(table)
        record = lake.run(table, Compact(rewrite_all=True, options={option: "1000000000"} if option else {}))
        assert record.state is RunState.SUCCEEDED, record.message
        assert {group["engine"] for group in ways(record)} == {"spark"}
        assert all(why in group["why"] for group in ways(record)), ways(record)
        assert (record.details or {})["spark_groups"] == len(ways(record))
        assert lake.main(table) == before
        assert len(outputs(lake, table)) <= 2

    def test_asked_for_it_is_all_sparks(self, lake: Lake) -> None:
        table = lake.create()
        lake.numbers(table, files=2)
        record = lake.run(table, Compact(rewrite_all=True, engine=RewriteEngine.SPARK))
        (summary,) = lake.summaries(record)
        assert "icepack.engine" not in summary
        assert "groups" not in (record.details or {})

    def test_deletes_that_do_not_fit_into_memory(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        table = lake.create()
        lake.numbers(table, files=2)
        lake.sql(f"DELETE FROM {table} WHERE id IN (1, 2, 15)")
        before = lake.main(table)
        monkeypatch.setattr(sizing, "MOST_TASK_BYTES", 100)
        record = lake.run(table, ALL)
        assert ways(record)[0]["why"] == "deletes that do not fit into a task's memory"
        assert lake.main(table) == before

    def test_of_two_partitions_one_may_go_each_way(self, lake: Lake) -> None:
        table = lake.create(partitioned_by="v", properties={"write.format.default": "orc"})
        for id in range(2):
            lake.append(table, f"VALUES ({id}, 'orc')")
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = 'parquet')")
        for id in range(2):
            lake.append(table, f"VALUES ({id}, 'parquet')")
        before = lake.main(table)
        record = lake.run(table, Compact(min_input_files=2))
        assert record.state is RunState.SUCCEEDED, record.message
        found = {group["partition"]: group["engine"] for group in ways(record)}
        assert found == {"v=orc": "spark", "v=parquet": "native"}
        assert len(record.commits) == 2
        assert lake.main(table) == before
        assert {row["file_format"] for row in lake.metadata(table, "files")} == {"PARQUET"}
        assert len(outputs(lake, table)) == 2


def double_delete(lake: Lake, table: TableId, value: float) -> None:
    java = lake.java(table)
    field = java.schema().findField("d")
    schema = pa.schema([pa.field("d", pa.float64(), metadata={"PARQUET:field_id": str(field.fieldId())})])
    path = lake.place(table) / "data" / "eq-double.parquet"
    pq.write_table(pa.table({"d": [value]}, schema), path)
    context = lake.spark.sparkContext
    ids = context._gateway.new_array(context._jvm.int, 1)
    ids[0] = field.fieldId()
    builder = lake.iceberg.FileMetadata.deleteFileBuilder(java.spec()).ofEqualityDeletes(ids).withFormat("parquet")
    builder.withPath(path.as_uri()).withFileSizeInBytes(path.stat().st_size).withRecordCount(1)
    java.newRowDelta().addDeletes(builder.build()).commit()
