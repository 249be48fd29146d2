"""What the inspector says of a table, beside what Spark's metadata tables say of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from icepack.catalog import manifests
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifests import FileManifestCache, ManifestReader, MemoryManifestCache
from icepack.domain.actions import Compact, PartitionSelection, RewriteManifests
from icepack.domain.expression import parse_filter
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.domain.wire import from_json_text, to_json_text
from icepack.service.maintenance import utc_now

from .lakes import Lake, equality_delete

DATA, POSITION, EQUALITY = 0, 1, 2


def check_against_spark(lake: Lake, table: TableId) -> TableStatus:
    """Every figure that Spark's own metadata tables also have; returns the status for what they lack."""
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
    """Spark's tuples are widened to all specs, so partitions are compared by what is in them."""
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
    lake.numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id < 5")
    status = check_against_spark(lake, table)
    assert status.format_version == 1
    assert status.data.records == 25


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes(lake: Lake, granularity: str) -> None:
    table = lake.create(partitioned_by="bucket(2, id)", properties={"write.delete.granularity": granularity})
    lake.numbers(table, files=2)
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 2, 3, 11, 12, 13)")
    status = check_against_spark(lake, table)
    assert status.deletes.position.records == 6
    assert status.deletes.dangling_files == 0
    listed = lake.inspector.files(table).files
    assert all(file.position_delete_files for file in listed)
    assert sum(file.deleted_records for file in listed) == (6 if granularity == "file" else 0)
    assert sum(row.files_with_deletes for row in status.partitions) == len(listed) == 4
    assert sum(row.position_delete_files for row in status.partitions) == status.deletes.position.files


def test_equality_deletes_weigh_on_older_files_only(lake: Lake) -> None:
    table = lake.create(partitioned_by="id")
    lake.append(table, "VALUES (1, 'a'), (2, 'b')")
    equality_delete(lake, table, ["v"], [("a",), (None,)], partition="id=1")
    lake.append(table, "VALUES (1, 'a')")
    status = check_against_spark(lake, table)
    assert status.deletes.equality.records == 2
    weighed = {file.partition.path: file.equality_delete_files for file in lake.inspector.files(table).files[::-1]}
    by_partition = {row.key.path: (row.equality_delete_files, row.files_with_deletes) for row in status.partitions}
    assert by_partition == {"id=1": (1, 1), "id=2": (0, 0)}
    assert weighed.keys() == {"id=1", "id=2"}
    assert status.deletes.dangling_files == 0
    lake.sql(f"DELETE FROM {table} WHERE id = 1")
    assert lake.status(table).deletes.dangling_files == lake.status(table).deletes.equality.files


def test_deletion_vectors_that_share_a_puffin_file(lake: Lake) -> None:
    table = lake.create(version=3)
    lake.numbers(table, files=4)
    lake.sql(f"DELETE FROM {table} WHERE id % 10 < 3")
    files = [file for file in lake.metadata(table, "files") if file["content"] == POSITION]
    assert len({file["file_path"] for file in files}) < len(files), "several vectors should lie in one file"
    status = check_against_spark(lake, table)
    assert (status.deletes.vectors.files, status.deletes.vectors.records) == (4, 12)
    assert [file.deleted_records for file in lake.inspector.files(table).files] == [3, 3, 3, 3]


def test_dangling_deletes_are_counted(lake: Lake) -> None:
    table = lake.create(partitioned_by="bucket(1, id)", properties={"write.delete.granularity": "partition"})
    lake.numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 11, 21)")
    lake.numbers(table, files=1, start=100)
    assert lake.status(table).deletes.dangling_files == 0
    lake.run(table, Compact(rewrite_all=True))
    status = check_against_spark(lake, table)
    assert status.deletes.position.files == status.deletes.dangling_files == 1


def test_partition_evolution(lake: Lake) -> None:
    table = lake.create("id BIGINT, v STRING, d DATE, gone STRING", partitioned_by="v, gone", version=2)
    lake.append(table, "VALUES (1, 'a', DATE'2024-01-01', 'x'), (2, 'b', NULL, NULL)")
    lake.sql(f"ALTER TABLE {table} DROP PARTITION FIELD v")
    lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD months(d)")
    lake.append(table, "VALUES (3, 'a', DATE'2024-01-01', 'x'), (4, 'a', DATE'2024-02-01', 'x')")
    lake.sql(f"ALTER TABLE {table} DROP PARTITION FIELD gone")
    lake.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD months(d) WITH bucket(8, id) AS shard")
    lake.append(table, "VALUES (5, 'c', DATE'2024-03-01', 'z')")
    lake.sql(f"ALTER TABLE {table} DROP PARTITION FIELD shard")
    lake.append(table, "VALUES (6, 'c', DATE'2024-03-01', 'z')")
    status = check_against_spark(lake, table)
    assert {row.key.spec_id: row.key.path for row in status.partitions}[3 if len(status.partitions) < 0 else 0]
    assert len({row.key.spec_id for row in status.partitions}) == 4
