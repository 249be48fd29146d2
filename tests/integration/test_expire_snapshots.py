"""Expiry deletes only files that no snapshot references any more, and its preview counts them exactly."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from icepack.domain.actions import Compact, ComputeStats, ExpireSnapshots
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.engine.actions import expire_snapshots
from icepack.engine.actions.file_deletion import filter_unreferenced

from .lake import Lake, assert_refused, create_orphan_file, create_small_table, list_files, to_local_path

NO_AGE = timedelta(0)
EXPIRE_ALL = ExpireSnapshots(older_than=NO_AGE)


class TestExpiry:
    def test_a_file_that_is_committed_again_during_expiry_is_kept(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = create_small_table(lake)
        data_file = lake.inspector.files(table).files[0].path
        entry = lake.remove_data_file(table, data_file)
        lake.append(table)

        def commit_first(spark: Any, java_table: Any, paths: list[str]) -> list[str]:
            assert data_file in paths, "expiry would delete it"
            lake.java_table(table).newAppend().appendFile(entry).commit()
            return filter_unreferenced(spark, java_table, paths)

        monkeypatch.setattr(expire_snapshots, "filter_unreferenced", commit_first)
        record = lake.run(table, EXPIRE_ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert to_local_path(data_file).exists()
        assert len(lake.main_rows(table)) == 7

    def test_a_table_with_garbage_collection_disabled_is_refused(self, lake: Lake) -> None:
        """Its files may be referenced by another table."""
        table = create_small_table(lake, properties={"gc.enabled": "false"})
        lake.sql(f"DELETE FROM {table} WHERE true")
        shared = create_orphan_file(lake.table_folder(table) / "data")
        before = list_files(lake.table_folder(table))
        assert_refused(lake.run(table, EXPIRE_ALL), "gc.enabled")
        assert list_files(lake.table_folder(table)) >= before
        assert shared.exists()

    def test_branches_and_tags_keep_their_files(self, lake: Lake) -> None:
        table = lake.create()
        lake.append_numbers(table, files=2)
        lake.sql(f"ALTER TABLE {table} CREATE TAG kept")
        lake.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
        lake.sql(f"DELETE FROM {table} WHERE id < 10")
        lake.append(table, branch="audit")
        lake.run(table, Compact(rewrite_all=True))
        rows = lake.rows_by_ref(table)
        assert sorted(map(len, rows.values())) == [10, 20, 21]
        record = lake.run(table, EXPIRE_ALL)
        assert record.effect.snapshots_removed > 0
        assert record.proofs[0].method == "heads of branches and tags"
        assert lake.rows_by_ref(table) == rows

    def test_a_file_that_was_removed_and_added_again_is_kept(self, lake: Lake) -> None:
        """Iceberg issue 17304: expiring the snapshot that removed the file must not delete it."""
        table = lake.create()
        lake.append_numbers(table, files=2, rows=3)
        path = lake.inspector.files(table).files[0].path
        entry = lake.remove_data_file(table, path)
        lake.java_table(table).newAppend().appendFile(entry).commit()
        lake.append(table)
        rows = lake.main_rows(table)
        assert len(rows) == 7
        record = lake.run(table, EXPIRE_ALL)
        assert record.effect.snapshots_removed == 4
        assert to_local_path(path).exists()
        assert lake.main_rows(table) == rows

    def test_the_current_snapshot_is_never_expired_even_by_id(self, lake: Lake) -> None:
        table = create_small_table(lake)
        head = lake.current_snapshot_id(table)
        record = lake.run(table, ExpireSnapshots(snapshot_ids=(head,)))
        assert record.state is RunState.FAILED
        assert "referenced" in record.message
        assert lake.current_snapshot_id(table) == head
        assert len(lake.main_rows(table)) == 6


def with_deletes(lake: Lake) -> TableId:
    table = lake.create(partitioned_by="bucket(2, id)", properties={"commit.manifest.min-count-to-merge": "3"})
    lake.append_numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id < 4")
    lake.run(table, Compact(rewrite_all=True, delete_file_threshold=1))
    return table


def with_refs(lake: Lake) -> TableId:
    table = lake.create()
    lake.append_numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} CREATE TAG kept")
    lake.sql(f"ALTER TABLE {table} CREATE TAG aged RETAIN 1 DAYS")
    lake.sql(f"DELETE FROM {table} WHERE id < 3")
    lake.sql(f"ALTER TABLE {table} CREATE BRANCH audit WITH SNAPSHOT RETENTION 2 SNAPSHOTS")
    lake.append(table, branch="audit")
    lake.append(table, branch="audit")
    lake.append(table, branch="audit")
    lake.run(table, Compact(rewrite_all=True))
    lake.append_numbers(table, files=1, start=100)
    return table


def with_vectors_and_statistics(lake: Lake) -> TableId:
    table = lake.create(version=3, partitioned_by="bucket(2, id)")
    lake.append_numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id % 10 = 1")
    lake.run(table, ComputeStats(partition_stats=True))
    lake.sql(f"DELETE FROM {table} WHERE id IN (2, 3)")
    lake.run(table, Compact(rewrite_all=True))
    lake.run(table, ComputeStats(partition_stats=True))
    return table


def with_old_refs(lake: Lake) -> TableId:
    """A table with a tag that has no age limit of its own, but is older than that of the table."""
    table = lake.create(properties={"history.expire.max-ref-age-ms": "1"})
    lake.append_numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} CREATE TAG old")
    lake.sql(f"DELETE FROM {table} WHERE id < 10")
    time.sleep(0.01)
    return table


class TestExpiryPreview:
    @pytest.mark.parametrize(
        ("build", "retain_last"),
        [(with_deletes, 1), (with_deletes, 3), (with_refs, 2), (with_vectors_and_statistics, 1), (with_old_refs, 1)],
    )
    def test_the_preview_counts_what_expiry_then_deletes(
        self, lake: Lake, build: Callable[[Lake], TableId], retain_last: int
    ) -> None:
        table = build(lake)
        action = ExpireSnapshots(older_than=NO_AGE, retain_last=retain_last)
        before = {path: path.stat().st_size for path in list_files(lake.table_folder(table))}
        snapshots = {entry.snapshot_id for entry in lake.status(table).snapshots.entries}
        preview = lake.inspector.preview_expiry(table, action, datetime.now(UTC))
        assert {path: path.stat().st_size for path in list_files(lake.table_folder(table))} == before
        record = lake.run(table, action)
        assert record.state is RunState.SUCCEEDED, record.message
        deleted = {path: size for path, size in before.items() if not path.exists()}
        lists = {path: size for path, size in deleted.items() if path.name.startswith("snap-")}
        remaining = {entry.snapshot_id for entry in lake.status(table).snapshots.entries}
        assert set(preview.snapshot_ids) == snapshots - remaining != set()
        assert preview.files == len(deleted) == record.effect.files_deleted
        assert preview.manifest_lists == len(lists)
        assert preview.manifests == sum(1 for path in deleted if path.suffix == ".avro") - len(lists)
        assert preview.bytes == sum(deleted.values()) - sum(lists.values())
        assert record.effect.bytes_deleted == sum(deleted.values())
        assert preview.data_files + preview.delete_files == sum(1 for path in deleted if "/data/" in str(path))

    def test_snapshots_can_be_expired_by_id(self, lake: Lake) -> None:
        table = create_small_table(lake)
        lake.append(table)
        first = min(lake.status(table).snapshots.entries, key=lambda entry: entry.committed_at).snapshot_id
        action = ExpireSnapshots(snapshot_ids=(first, 12345))
        preview = lake.inspector.preview_expiry(table, action, datetime.now(UTC))
        record = lake.run(table, action)
        assert preview.snapshot_ids == (first,)
        assert (preview.files, record.effect.snapshots_removed) == (record.effect.files_deleted, 1)
        assert preview.files == 1, "only its manifest list"
