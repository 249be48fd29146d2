"""Compares the status of the inspector with Spark's metadata tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from icepack.catalog import manifests
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifest_cache import FileManifestCache, MemoryManifestCache
from icepack.catalog.manifests import ManifestReader
from icepack.clock import utc_now
from icepack.domain.actions import Compact, PartitionSelection, RewriteEngine, RewriteManifests
from icepack.domain.plan.expression import parse_filter
from icepack.domain.serialization import from_json_text, to_json_text
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.engine.java.expressions import JavaExpressions

from .lake import Lake, commit_equality_delete

DATA, POSITION, EQUALITY = 0, 1, 2


def check_against_spark(lake: Lake, table: TableId) -> TableStatus:
    """Compares all values that Spark's metadata tables have; returns the status for further checks."""
    status = lake.status(table)
    files = lake.metadata(table, "files")
    check_files(status, files)
    check_manifests(status, lake.metadata(table, "manifests"))
    check_snapshots(status, lake.metadata(table, "snapshots"), lake.metadata(table, "refs"))
    check_partitions(status, files)
    assert from_json_text(TableStatus, to_json_text(status)) == status
    return status


def check_files(status: TableStatus, files: list[dict[str, Any]]) -> None:
    data = [file for file in files if file["content"] == DATA]
    assert status.data.count == len(data)
    assert status.data.bytes == sum(file["file_size_in_bytes"] for file in data)
    assert status.data.records == sum(file["record_count"] for file in data)
    assert sum(bucket.count for bucket in status.data.histogram) == len(data)
    position = [file for file in files if file["content"] == POSITION and file["file_format"] != "PUFFIN"]
    vectors = [file for file in files if file["content"] == POSITION and file["file_format"] == "PUFFIN"]
    equality = [file for file in files if file["content"] == EQUALITY]
    for kind, found, size in (
        (status.deletes.position, position, "file_size_in_bytes"),
        (status.deletes.vectors, vectors, "content_size_in_bytes"),
        (status.deletes.equality, equality, "file_size_in_bytes"),
    ):
        assert kind.files == len(found)
        assert kind.records == sum(file["record_count"] for file in found)
        assert kind.bytes == sum(file[size] for file in found)


def check_manifests(status: TableStatus, found: list[dict[str, Any]]) -> None:
    assert status.manifests.count == len(found)
    assert status.manifests.bytes == sum(manifest["length"] for manifest in found)
    assert status.manifests.delete_manifests == sum(1 for manifest in found if manifest["content"] == 1)
    kinds = ("added_data_files", "existing_data_files", "added_delete_files", "existing_delete_files")
    assert status.manifests.entries == sum(manifest[f"{kind}_count"] for manifest in found for kind in kinds)


def check_snapshots(status: TableStatus, snapshots: list[dict[str, Any]], refs: list[dict[str, Any]]) -> None:
    assert {(entry.snapshot_id, entry.parent_id, entry.operation) for entry in status.snapshots.entries} == {
        (row["snapshot_id"], row["parent_id"], row["operation"]) for row in snapshots
    }
    assert status.snapshots.count == len(snapshots)
    assert {(ref.name, ref.kind.upper(), ref.snapshot_id) for ref in status.snapshots.refs} == {
        (row["name"], row["type"], row["snapshot_id"]) for row in refs
    }
    assert {(ref.name, ref.max_ref_age_ms, ref.min_snapshots_to_keep) for ref in status.snapshots.refs} == {
        (row["name"], row["max_reference_age_in_ms"], row["min_snapshots_to_keep"]) for row in refs
    }


def check_partitions(status: TableStatus, files: list[dict[str, Any]]) -> None:
    """Compares partitions by their files, because Spark's partition tuples have the fields of all specs."""
    data = [file for file in files if file["content"] == DATA]
    groups = Counter((file["spec_id"], repr(file.get("partition"))) for file in data)
    assert Counter((row.key.spec_id, row.data_files) for row in status.partitions) == Counter(
        (spec_id, count) for (spec_id, _), count in groups.items()
    )
    assert len({row.key for row in status.partitions}) == len(status.partitions)
    assert sum(row.bytes for row in status.partitions) == status.data.bytes
    assert sum(row.records for row in status.partitions) == status.data.records


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_empty_table(lake: Lake, version: int) -> None:
    status = check_against_spark(lake, lake.create(hint="empty", version=version))
    assert status.format_version == version
    assert (status.snapshot_id, status.data.count, status.partitions) == (None, 0, ())


def test_a_version_1_table(lake: Lake) -> None:
    table = lake.create(version=1, partitioned_by="bucket(2, id)")
    lake.append_numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id < 5")
    status = check_against_spark(lake, table)
    assert status.format_version == 1
    assert status.data.records == 25


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes(lake: Lake, granularity: str) -> None:
    table = lake.create(partitioned_by="bucket(2, id)", properties={"write.delete.granularity": granularity})
    lake.append_numbers(table, files=2)
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 2, 3, 11, 12, 13)")
    status = check_against_spark(lake, table)
    assert status.deletes.position.records == 6
    assert status.deletes.dangling_files == 0
    files = lake.inspector.files(table).files
    assert all(file.position_delete_files for file in files)
    assert sum(file.deleted_records for file in files) == (6 if granularity == "file" else 0)
    assert sum(row.files_with_deletes for row in status.partitions) == len(files) == 4
    assert sum(row.position_delete_files for row in status.partitions) == status.deletes.position.files


def test_equality_deletes_apply_only_to_older_files(lake: Lake) -> None:
    table = lake.create(partitioned_by="id")
    lake.append(table, "VALUES (1, 'a'), (2, 'b')")
    commit_equality_delete(lake, table, ["v"], [("a",), (None,)], partition="id=1")
    lake.append(table, "VALUES (1, 'a')")
    status = check_against_spark(lake, table)
    assert status.deletes.equality.records == 2
    files = lake.inspector.files(table).files
    delete_counts = {(file.partition.path, file.sequence_number): file.equality_delete_files for file in files}
    assert delete_counts == {("id=1", 1): 1, ("id=2", 1): 0, ("id=1", 3): 0}
    by_partition = {row.key.path: (row.equality_delete_files, row.files_with_deletes) for row in status.partitions}
    assert by_partition == {"id=1": (1, 1), "id=2": (0, 0)}
    assert status.deletes.dangling_files == 0


def test_equality_deletes_without_a_partition_apply_to_every_partition(lake: Lake) -> None:
    table = lake.create()
    lake.append(table, "VALUES (1, 'a')")
    commit_equality_delete(lake, table, ["id"], [(1,), (2,)])
    lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD v")
    lake.append(table, "VALUES (2, 'b')")
    status = check_against_spark(lake, table)
    assert [(row.key.spec_id, row.equality_delete_files) for row in status.partitions] == [(0, 1), (1, 0)]
    assert len(lake.main_rows(table)) == 1, "a row written after the delete is not deleted"


def test_deletion_vectors_in_the_same_puffin_file(lake: Lake) -> None:
    table = lake.create(version=3)
    lake.append_numbers(table, files=4)
    lake.sql(f"DELETE FROM {table} WHERE id % 10 < 3")
    files = [file for file in lake.metadata(table, "files") if file["content"] == POSITION]
    assert len({file["file_path"] for file in files}) < len(files), "several vectors should be in one file"
    status = check_against_spark(lake, table)
    assert (status.deletes.vectors.files, status.deletes.vectors.records) == (4, 12)
    assert [file.deleted_records for file in lake.inspector.files(table).files] == [3, 3, 3, 3]


def test_dangling_deletes_are_counted_in_every_scope(lake: Lake) -> None:
    table = lake.create(partitioned_by="v", properties={"write.delete.granularity": "partition"})
    lake.append(table, "VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, 'b'), (5, 'c')")
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 3)")
    commit_equality_delete(lake, table, ["id"], [(2,)], partition="v=a")
    assert lake.status(table).deletes.dangling_files == 0
    (removed,) = [file.path for file in lake.inspector.files(table).files if file.partition.path == "v=a"]
    lake.remove_data_file(table, removed)
    lake.append(table, "VALUES (9, 'a')")
    status = check_against_spark(lake, table)
    assert (status.deletes.position.files, status.deletes.equality.files) == (2, 1)
    assert status.deletes.dangling_files == 2, "both deletes of partition a, and not that of b"


def test_deletes_of_a_removed_file_are_dangling(lake: Lake) -> None:
    table = lake.create(properties={"write.delete.granularity": "file"})
    lake.append_numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 11, 21)")
    lake.run(table, Compact(rewrite_all=True, engine=RewriteEngine.SPARK))
    status = check_against_spark(lake, table)
    assert (status.deletes.position.files, status.deletes.dangling_files) == (3, 3), "Spark keeps them"


def test_partition_evolution(lake: Lake) -> None:
    table = lake.create("id BIGINT, v STRING, d DATE, gone STRING", partitioned_by="v, gone")
    lake.append(table, "VALUES (1, 'a', DATE'2024-01-01', 'x'), (2, 'b', NULL, NULL)")
    lake.sql(f"ALTER TABLE {table} DROP PARTITION FIELD v")
    lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD months(d)")
    lake.append(table, "VALUES (3, 'a', DATE'2024-01-01', 'x'), (4, 'a', DATE'2024-02-01', 'x')")
    lake.sql(f"ALTER TABLE {table} DROP PARTITION FIELD gone")
    lake.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD d_month WITH bucket(8, id) AS shard")
    lake.append(table, "VALUES (5, 'c', DATE'2024-03-01', 'z')")
    lake.sql(f"ALTER TABLE {table} DROP PARTITION FIELD shard")
    lake.append(table, "VALUES (6, 'c', DATE'2024-03-01', 'z')")
    status = check_against_spark(lake, table)
    assert Counter(row.key.spec_id for row in status.partitions) == {0: 2, 2: 2, 4: 1, 5: 1}
    assert "v=a/gone=x" in {row.key.path for row in status.partitions}
    check_selections(lake, table)
    january = parse_filter("d < '2024-02-01'", utc_now())
    excluded = {row.key for row in status.partitions} - lake.inspector.matching_partitions(table, january)
    assert {key.path for key in excluded} == {"gone=x/d_month=2024-02"}


def test_a_dropped_column_of_old_partitions(lake: Lake) -> None:
    """Partitions cannot be selected by that column any more, but the table can be read."""
    table = lake.create("id BIGINT, v STRING", partitioned_by="v", version=1)
    lake.append(table, "VALUES (1, 'a'), (2, 'b')")
    lake.sql(f"ALTER TABLE {table} DROP PARTITION FIELD v")
    lake.append(table, "VALUES (3, 'a')")
    lake.sql(f"ALTER TABLE {table} DROP COLUMN v")
    status = lake.status(table)
    assert (status.data.count, status.data.records) == (3, 3)
    assert [row.values for row in status.partitions] == [(), (), ()]
    assert len(lake.inspector.files(table, parse_filter("id = 1", utc_now())).files) == 3


TRANSFORMS = {
    "bucket(4, id)": "BIGINT",
    "bucket(4, s)": "STRING",
    "truncate(3, s)": "STRING",
    "truncate(10, id)": "BIGINT",
    "truncate(100, dec)": "DECIMAL(9,2)",
    "years(ts)": "TIMESTAMP",
    "months(ts)": "TIMESTAMP",
    "days(ts)": "TIMESTAMP",
    "hours(ntz)": "TIMESTAMP_NTZ",
    "ts": "TIMESTAMP",
    "ntz": "TIMESTAMP_NTZ",
    "days(d)": "DATE",
    "d": "DATE",
    "id": "BIGINT",
    "s": "STRING",
    "dec": "DECIMAL(9,2)",
    "f": "FLOAT",
    "flag": "BOOLEAN",
    "bin": "BINARY",
    "truncate(2, bin)": "BINARY",
}
VALUES = {
    "BIGINT": ["1", "25", "-7", str(2**40)],
    "STRING": ["'abcdef'", "'a/b=c d%20é'", "''", "'null'"],
    "DECIMAL(9,2)": ["1.25", "-1.25", "1234567.89"],
    "TIMESTAMP": ["TIMESTAMP'2024-01-31 23:59:59.999999'", "TIMESTAMP'1969-12-31 23:00:00'", "TIMESTAMP'2024-02-01'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'2024-01-31 23:59:59.999999'", "TIMESTAMP_NTZ'1969-12-31 23:00:00'"],
    "DATE": ["DATE'2024-01-31'", "DATE'1969-12-31'", "DATE'9999-12-31'"],
    "FLOAT": ["CAST(1.1 AS FLOAT)", "CAST('NaN' AS FLOAT)", "CAST(-0.5 AS FLOAT)"],
    "BOOLEAN": ["true", "false"],
    "BINARY": ["X'00FF'", "X'616263'"],
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_partitions_of_every_transform_can_be_formatted_and_selected(lake: Lake, transform: str) -> None:
    kind = TRANSFORMS[transform]
    column = transform.rstrip(")").rsplit(" ", 1)[-1].rsplit("(", 1)[-1]
    table = lake.create(f"{column} {kind}", hint="transform", partitioned_by=transform)
    lake.append(table, "VALUES " + ", ".join(f"({value})" for value in [*VALUES[kind], "NULL"]))
    status = check_against_spark(lake, table)
    assert any(row.key.path.endswith("=null") for row in status.partitions)
    is_unsupported = kind in ("BINARY", "FLOAT")
    assert any(not row.values for row in status.partitions) == is_unsupported, "JSON does not support bytes and NaN"
    check_selections(lake, table)


def plan_files(java_table: Any, row_filter: Any) -> set[str]:
    tasks = java_table.newScan().filter(row_filter).ignoreResiduals().planFiles().iterator()
    found = set()
    while tasks.hasNext():
        found.add(str(tasks.next().file().location()))
    return found


def check_selections(lake: Lake, table: TableId) -> None:
    """Checks that the values of each partition select exactly its files in a scan by Iceberg."""
    java_table = lake.java_table(table)
    expressions = JavaExpressions(lake.spark.sparkContext._jvm, java_table.schema())
    files = lake.inspector.files(table).files
    for row in lake.status(table).partitions:
        row_filter = expressions.partitions([PartitionSelection(row.key, row.values)])
        if row_filter is None:
            assert row.values == ()
            continue
        planned = plan_files(java_table, row_filter)
        own = {file.path for file in files if file.partition == row.key}
        other_specs = {file.path for file in files if file.partition.spec_id != row.key.spec_id}
        assert own <= planned <= own | other_specs


def test_filters_find_the_partitions_that_iceberg_plans(lake: Lake) -> None:
    table = lake.create("id BIGINT, s STRING, ts TIMESTAMP", partitioned_by="days(ts), truncate(1, s), bucket(2, id)")
    lake.append(
        table,
        "SELECT id, substr('abc', 1 + id % 3, 1) || 'x', timestampadd(HOUR, 10 * id, TIMESTAMP'2024-01-01') "
        "FROM range(8) UNION ALL SELECT NULL, NULL, NULL",
    )
    java_table = lake.java_table(table)
    expressions = JavaExpressions(lake.spark.sparkContext._jvm, java_table.schema())
    all_files = lake.inspector.files(table).files
    for text in (
        "ts >= '2024-01-02'",
        "ts BETWEEN '2024-01-02T00:00:00' AND timestamp '2024-01-02 23:59:59'",
        "ts = timestamp '2024-01-01 10:00:00'",
        "s = 'ax'",
        "s LIKE 'b%' OR s IS NULL",
        "s IN ('ax', 'cx') AND id = 3",
        "NOT (s LIKE 'a%' OR s LIKE 'c%')",
        "id = 4 AND s IS NOT NULL",
        "ts > current_date - 7",
    ):
        where = parse_filter(text, utc_now())
        chosen = {file.path for file in lake.inspector.files(table, where).files}
        planned = plan_files(java_table, expressions.filter(where))
        assert planned <= chosen, text
        assert len(chosen) < len(all_files), text


def test_branches_and_tags(lake: Lake) -> None:
    table = lake.create()
    lake.append(table)
    lake.sql(f"ALTER TABLE {table} CREATE TAG first RETAIN 5 DAYS")
    lake.sql(f"ALTER TABLE {table} CREATE BRANCH audit RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS")
    lake.append(table, branch="audit")
    lake.append(table)
    status = check_against_spark(lake, table)
    assert (status.snapshots.branches, status.snapshots.tags) == (("audit", "main"), ("first",))
    assert status.data.count == 2, "the status is that of main"
    audit = next(ref for ref in status.snapshots.refs if ref.name == "audit")
    day = 86_400_000
    assert (audit.max_ref_age_ms, audit.max_snapshot_age_ms, audit.min_snapshots_to_keep) == (7 * day, 3 * day, 2)


def test_merged_manifests_keep_the_sequence_numbers_of_their_files(lake: Lake) -> None:
    table = lake.create(properties={"commit.manifest.min-count-to-merge": "2"})
    lake.append_numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id = 1")
    lake.run(table, RewriteManifests())
    lake.append_numbers(table, files=1, start=100)
    status = check_against_spark(lake, table)
    spark = {
        row["data_file"]["file_path"]: row["sequence_number"]
        for row in lake.metadata(table, "entries")
        if row["data_file"]["content"] == DATA and row["status"] != 2
    }
    assert {file.path: file.sequence_number for file in lake.inspector.files(table).files} == spark
    assert status.manifests.count < 4


def test_a_table_with_variants_can_be_inspected(lake: Lake) -> None:
    table = lake.create("id BIGINT, v VARIANT, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>", version=3)
    lake.append(table, "SELECT id, parse_json('{}'), array(parse_json('1')), map('a', parse_json('2')) FROM range(3)")
    assert check_against_spark(lake, table).data.records == 3


def test_a_second_inspection_reads_only_new_manifests(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create()
    lake.append_numbers(table, files=4)
    opened: list[str] = []
    read = manifests.read_manifest

    def read_and_record(io: Any, manifest: Any) -> Any:
        opened.append(manifest.manifest_path)
        return read(io, manifest)

    monkeypatch.setattr(manifests, "read_manifest", read_and_record)
    inspector = PyIcebergInspector(lake.catalogs, ManifestReader(MemoryManifestCache()))
    first = inspector.inspect(table)
    assert (first.data.count, len(opened)) == (4, 4)
    assert inspector.inspect(table).data == first.data
    assert len(opened) == 4
    lake.append(table)
    assert inspector.inspect(table).data.count == 5
    assert len(opened) == len(set(opened)) == 5


def test_the_manifest_cache_is_shared_between_processes(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create(partitioned_by="bucket(2, id)")
    lake.append_numbers(table, files=2)
    first = PyIcebergInspector(lake.catalogs, ManifestReader(FileManifestCache(tmp_path / "cache.db"))).inspect(table)
    monkeypatch.setattr(manifests, "read_manifest", None)
    second = PyIcebergInspector(lake.catalogs, ManifestReader(FileManifestCache(tmp_path / "cache.db"))).inspect(table)
    assert second.partitions == first.partitions


def test_a_broken_manifest_cache_does_not_fail_an_inspection(lake: Lake, tmp_path: Path) -> None:
    table = lake.create()
    lake.append_numbers(table, files=2)
    cache = FileManifestCache(tmp_path / "cache.db")
    inspector = PyIcebergInspector(lake.catalogs, ManifestReader(cache))
    cache._connection.execute("DROP TABLE manifests")
    assert inspector.inspect(table).data.count == 2
