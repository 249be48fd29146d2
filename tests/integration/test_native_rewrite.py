"""The native rewrite on tables that are difficult to rewrite."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import Compact

from .lake import Lake, commit_equality_delete
from .native_runs import (
    add_files,
    list_data_files,
    list_deletes,
    read_field_ids,
    read_with_lineage,
    rewrite_natively,
)


class TestDifficultTables:
    def test_an_equality_delete_of_null_deletes_only_null(self, lake: Lake) -> None:
        table = lake.create()
        lake.append(table, "VALUES (1, 'a'), (NULL, 'b'), (3, NULL), (NULL, NULL)")
        lake.append(table, "VALUES (NULL, 'c'), (5, 'e')")
        commit_equality_delete(lake, table, ["id"], [(None,)])
        lake.append(table, "VALUES (NULL, 'later')")
        commit_equality_delete(lake, table, ["v", "id"], [(None, 3), ("e", None)])
        assert lake.main_rows(table) == ["(1, 'a')", "(5, 'e')", "(None, 'later')"]
        record = rewrite_natively(lake, table)
        assert lake.summaries(record)[0]["icepack.rows-dropped"] == "4"
        assert list_deletes(lake, table) == []

    def test_files_without_ids_are_read_by_name_and_not_by_position(self, lake: Lake) -> None:
        table = lake.create("a STRING, b STRING, s STRUCT<x: STRING, y: STRING>, l ARRAY<STRUCT<q: INT>>")
        lake.append(table, "SELECT 'a0', 'b0', named_struct('x', 'x0', 'y', 'y0'), array(named_struct('q', 0))")
        body = {
            "l": pa.array([[{"q": 1}], None], pa.list_(pa.struct([("q", pa.int32())]))),
            "extra": ["?", "?"],
            "s": [{"y": "y1", "x": "x1"}, None],
            "b": ["b1", "b2"],
            "a": ["a1", None],
        }
        add_files(lake, table, pa.table(body))
        expected = "('a1', 'b1', Row(x='x1', y='y1'), [Row(q=1)])"
        assert expected in lake.main_rows(table)
        lake.sql(f"ALTER TABLE {table} RENAME COLUMN a TO z")
        rewrite_natively(lake, table)
        assert expected in lake.main_rows(table)

    def test_rows_keep_their_ids_and_sequence_numbers(self, lake: Lake) -> None:
        table = lake.create(version=3)
        lake.append_numbers(table, files=2)
        lake.sql(f"UPDATE {table} SET v = 'new' WHERE id IN (1, 15)")
        lake.sql(f"DELETE FROM {table} WHERE id IN (2, 16)")
        before = read_with_lineage(lake, table)
        rewrite_natively(lake, table)
        assert read_with_lineage(lake, table) == before
        lake.sql(f"UPDATE {table} SET v = 'newer' WHERE id = 3")
        lake.append_numbers(table, files=1, start=100)
        before = read_with_lineage(lake, table)
        rewrite_natively(lake, table)
        assert read_with_lineage(lake, table) == before

    def test_rows_of_an_upgraded_table_keep_their_ids(self, lake: Lake) -> None:
        """The table was compacted before, so the sequence number of its file is not that of its rows."""
        table = lake.create()
        lake.append_numbers(table, files=2)
        rewrite_natively(lake, table)
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
        lake.append_numbers(table, files=1, start=100)
        before = read_with_lineage(lake, table)
        rewrite_natively(lake, table)
        assert read_with_lineage(lake, table) == before

    def test_vectors_in_the_same_puffin_file_are_distinguished(self, lake: Lake) -> None:
        table = lake.create(version=3, partitioned_by="truncate(100, id)")
        for first in (0, 10, 100, 110):
            lake.append(table, f"SELECT id, 'v' || id FROM range({first}, {first + 10})")
        lake.sql(f"DELETE FROM {table} WHERE id % 10 IN (0, 3, 9)")
        deletes = list_deletes(lake, table)
        assert (len(deletes), len({row["file_path"] for row in deletes})) == (4, 1)
        before = read_with_lineage(lake, table)
        rewrite_natively(lake, table, Compact(rewrite_all=True, partition_filter="id < 100"))
        assert len(list_deletes(lake, table)) == 2, "the vectors of the other partition are still needed"
        assert read_with_lineage(lake, table) == before
        rewrite_natively(lake, table)
        assert list_deletes(lake, table) == []
        assert read_with_lineage(lake, table) == before

    def test_schema_changes_without_a_later_snapshot(self, lake: Lake) -> None:
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
        rewrite_natively(lake, table)
        assert lake.main_rows(table)[0] == "(0, None, 'a0', 0.5, Decimal('1.25'), Row(x=1, z='y', y=None))"

    def test_structs_without_any_of_their_original_fields(self, lake: Lake) -> None:
        """Such a struct is not null."""
        nested = "struct<a: INT>"
        table = lake.create(
            f"id BIGINT, s {nested}, d struct<k: INT, s: {nested}>, l array<{nested}>, ll array<array<{nested}>>, "
            f"e struct<s: {nested}>, m map<STRING, {nested}>"
        )
        full = "named_struct('a', 1)"
        rows = [
            f"SELECT 1, {full}, named_struct('k', 2, 's', {full}), array({full}, NULL), array(array({full})), "
            f"named_struct('s', {full}), map('k', {full})",
            "SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL",
            "SELECT 3, named_struct('a', NULL), named_struct('k', NULL, 's', NULL), array(), array(array(), NULL), "
            "named_struct('s', NULL), map()",
        ]
        lake.append(table, " UNION ALL ".join(rows))
        for path in ("s", "d.s", "l.element", "ll.element.element", "e.s", "m.value"):
            lake.sql(f"ALTER TABLE {table} ADD COLUMN {path}.b INT")
            lake.sql(f"ALTER TABLE {table} DROP COLUMN {path}.a")
        lake.append(table, "SELECT 4, named_struct('b', 7), NULL, array(named_struct('b', 8)), array(), NULL, NULL")
        assert lake.main_rows(table)[0] == (
            "(1, Row(b=None), Row(k=2, s=Row(b=None)), [Row(b=None), None], [[Row(b=None)]], Row(s=Row(b=None)), "
            "{'k': Row(b=None)})"
        )
        rewrite_natively(lake, table)

    @pytest.mark.parametrize("granularity", ["file", "partition"])
    def test_deletes_are_removed_together_with_their_rows(self, lake: Lake, granularity: str) -> None:
        """They are removed in the same commit, including the latest deletes."""
        table = lake.create(partitioned_by="bucket(2, id)", properties={"write.delete.granularity": granularity})
        lake.append_numbers(table, files=2)
        lake.sql(f"DELETE FROM {table} WHERE id < 4")
        lake.sql(f"DELETE FROM {table} WHERE id > 16")
        assert list_deletes(lake, table)
        record = rewrite_natively(lake, table)
        assert len(record.commits) == 1
        assert list_deletes(lake, table) == []

    def test_a_delete_that_applies_to_another_file_is_kept(self, lake: Lake) -> None:
        """An equality delete without a partition applies to all partitions."""
        table = lake.create()
        lake.append(table, "VALUES (1, 'a'), (100, 'b')")
        commit_equality_delete(lake, table, ["id"], [(1,), (100,)])
        lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD truncate(100, id)")
        lake.append(table, "VALUES (5, 'five'), (101, 'more')")
        for id in (6, 106):
            lake.append(table, f"VALUES ({id}, 'x')")
        assert lake.main_rows(table) == ["(101, 'more')", "(106, 'x')", "(5, 'five')", "(6, 'x')"]
        rewrite_natively(lake, table, Compact(min_input_files=2))
        assert lake.main_rows(table) == ["(101, 'more')", "(106, 'x')", "(5, 'five')", "(6, 'x')"]
        assert len(list_deletes(lake, table)) == 1

    def test_a_delete_is_removed_with_the_last_of_its_files_in_batches(self, lake: Lake) -> None:
        table = lake.create(partitioned_by="v", properties={"write.delete.granularity": "partition"})
        for first in (0, 10):
            lake.append(table, f"SELECT id, IF(id % 2 = 0, 'even', 'odd') FROM range({first}, {first + 10})")
        lake.sql(f"DELETE FROM {table} WHERE id IN (2, 3, 12, 13)")
        record = rewrite_natively(lake, table, Compact(rewrite_all=True, partial_progress=True))
        assert len(record.commits) == 2
        assert [summary.get("icepack.part") for summary in lake.summaries(record)] == ["1 of 2 groups", None]
        assert list_deletes(lake, table) == []

    def test_outputs_have_similar_sizes_and_rows_keep_their_order(self, lake: Lake) -> None:
        """Eleven files become five, none of which is small."""
        table = lake.create("id BIGINT, v STRING", properties={"write.parquet.compression-codec": "uncompressed"})
        for number in range(11):
            lake.append(
                table, f"SELECT id, repeat(md5(CAST(id AS STRING)), 4) FROM range({number}000, {number}000 + 100)"
            )
        total = sum(path.stat().st_size for path in list_data_files(lake, table))
        head = lake.current_snapshot_id(table)
        found = []
        for _ in range(2):
            rewrite_natively(lake, table, Compact(rewrite_all=True, target_file_bytes=total // 5 + 100))
            files = list_data_files(lake, table)
            sizes = [path.stat().st_size for path in files]
            assert len(sizes) == 5
            assert min(sizes) > max(sizes) / 2
            found.append([pq.read_table(path).to_pydict() for path in files])
            lake.java_table(table).manageSnapshots().rollbackTo(head).commit()
        assert found[0] == found[1], "the result is deterministic"
        ids = [id for part in found[0] for id in part["id"]]
        assert ids == sorted(ids), "rows are in the order in which they were written"

    @pytest.mark.parametrize("version", [2, 3])
    def test_a_large_file_is_split(self, lake: Lake, version: int) -> None:
        table = lake.create(
            version=version,
            properties={"write.parquet.row-group-size-bytes": "20000", "write.parquet.compression-codec": "gzip"},
        )
        lake.append(table, "SELECT id, repeat(md5(CAST(id AS STRING)), 3) FROM range(0, 3000)")
        lake.append(table, "SELECT id, md5(CAST(id AS STRING)) FROM range(5000, 5100)")
        lake.sql(f"DELETE FROM {table} WHERE id % 100 IN (0, 1, 99)")
        before = read_with_lineage(lake, table) if version == 3 else []
        total = sum(path.stat().st_size for path in list_data_files(lake, table))
        rewrite_natively(lake, table, Compact(rewrite_all=True, target_file_bytes=total // 4 + 1))
        assert len(list_data_files(lake, table)) == 4
        assert list_deletes(lake, table) == []
        if version == 3:
            assert read_with_lineage(lake, table) == before
        ids = [id for path in list_data_files(lake, table) for id in pq.read_table(path)["id"].to_pylist()]
        assert ids == [id for id in [*range(3000), *range(5000, 5100)] if id % 100 not in (0, 1, 99)]

    def test_no_bytes_of_a_deleted_row_remain(self, lake: Lake) -> None:
        """Its value is not even in a dictionary."""
        table = lake.create(properties={"write.parquet.compression-codec": "uncompressed"})
        lake.append(table, "SELECT id, IF(id = 7, 'a secret', 'v' || id % 3) FROM range(0, 50)")
        lake.append(table, "SELECT id, 'v' || id % 3 FROM range(50, 60)")
        assert any(b"a secret" in path.read_bytes() for path in list_data_files(lake, table))
        lake.sql(f"DELETE FROM {table} WHERE id = 7")
        rewrite_natively(lake, table)
        assert not any(b"a secret" in path.read_bytes() for path in list_data_files(lake, table))

    def test_unusual_column_names(self, lake: Lake) -> None:
        table = lake.create("`a b` STRING, a_b STRING, `1` STRING, `ä-é` STRING, `x.y` STRUCT<`p q`: INT, p_q: INT>")
        for number in range(2):
            lake.append(table, f"SELECT 'a{number}', 'b{number}', 'c', 'd', named_struct('p q', {number}, 'p_q', 9)")
        (written, _) = list_data_files(lake, table)
        for _ in range(2):
            rewrite_natively(lake, table)
        (path,) = list_data_files(lake, table)
        assert read_field_ids(path) == read_field_ids(written), "the names are those of Iceberg's own writer"
        assert lake.main_rows(table)[0] == "('a0', 'b0', 'c', 'd', Row(p q=0, p_q=9))"
