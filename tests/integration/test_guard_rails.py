"""The guard rails on deletion: each test would lose data, or show how, if its rail were not there."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icepack.domain.actions import Compact, ComputeStats, ExpireSnapshots, RemoveOrphanFiles
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine import spark
from icepack.engine.actions import file_deletion, orphan_files
from icepack.engine.actions.file_deletion import unreferenced

from .lakes import Lake, age, files_below, local, stray

NO_AGE = timedelta(0)
FROM_NOW_ON = RemoveOrphanFiles(older_than=NO_AGE, override_age_floor=True, max_share=1.0)
EXPIRE_ALL = ExpireSnapshots(older_than=NO_AGE)


def refused(record: RunRecord, words: str) -> None:
    assert record.state is RunState.REFUSED, record.message
    assert words in record.message


def small_table(lake: Lake, **options: Any) -> TableId:
    table = lake.create(**options)
    lake.numbers(table, files=2, rows=3)
    return table


class TestAgeFloor:
    def test_a_young_file_may_belong_to_a_write_under_way(self, lake: Lake) -> None:
        table = small_table(lake)
        being_written = stray(lake.place(table) / "data", days=0.9)
        refused(lake.run(table, RemoveOrphanFiles(older_than=timedelta(hours=12))), "24h")
        assert being_written.exists()

    def test_only_what_is_older_than_asked_for_goes(self, lake: Lake) -> None:
        table = small_table(lake)
        young, old = stray(lake.place(table) / "data", days=2), stray(lake.place(table) / "data", days=8)
        record = lake.run(table, RemoveOrphanFiles())
        assert (record.state, record.effect.files_deleted, record.effect.bytes_deleted) == (RunState.SUCCEEDED, 1, 100)
        assert (young.exists(), old.exists()) == (True, False)


def commit_file(lake: Lake, table: TableId, path: Path, rows: str) -> None:
    """Writes a data file at the path and commits it, as a slow writer does."""
    builder = lake.iceberg.DataFiles.builder(lake.java(table).spec())
    frame = lake.sql(rows).coalesce(1)
    frame.write.mode("overwrite").parquet(f"file://{path}.tmp")
    (written,) = Path(f"{path}.tmp").glob("*.parquet")
    written.replace(path)
    builder.withPath(path.as_uri()).withFileSizeInBytes(path.stat().st_size).withRecordCount(1).withFormat("parquet")
    lake.java(table).newAppend().appendFile(builder.build()).commit()


def name_mapped(lake: Lake, **options: Any) -> TableId:
    table = small_table(lake, **options)
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["v"]}]'
    lake.java(table).updateProperties().set("schema.name-mapping.default", mapping).commit()
    return table


class TestCommitsInBetween:
    def test_a_file_committed_after_the_listing_is_kept(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        table = name_mapped(lake)
        path = stray(lake.place(table) / "data", "slow-writer.parquet")

        def commit_first(spark: Any, java_table: Any, paths: list[str]) -> list[str]:
            assert any(path.name in candidate for candidate in paths), "it was a candidate"
            commit_file(lake, table, path, "SELECT 77L AS id, 'slow' AS v")
            return unreferenced(spark, java_table, paths)

        monkeypatch.setattr(orphan_files, "unreferenced", commit_first)
        record = lake.run(table, FROM_NOW_ON)
        assert record.state is RunState.SUCCEEDED, record.message
        assert path.exists()
        assert "(77, 'slow')" in lake.main(table)

    def test_a_file_that_expiry_let_go_of_and_that_came_back_is_kept(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = small_table(lake)
        data_file = lake.inspector.files(table).files[0].path
        entry = lake.drop_file(table, data_file)
        lake.append(table)

        def commit_first(spark: Any, java_table: Any, paths: list[str]) -> list[str]:
            assert data_file in paths, "expiry let go of it"
            lake.java(table).newAppend().appendFile(entry).commit()
            return unreferenced(spark, java_table, paths)

        monkeypatch.setattr(spark, "unreferenced", commit_first)
        record = lake.run(table, EXPIRE_ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert local(data_file).exists()
        assert len(lake.main(table)) == 7


class TestCaps:
    def test_too_many_orphans_by_count(self, lake: Lake) -> None:
        table = small_table(lake)
        litter = [stray(lake.place(table) / "data") for _ in range(4)]
        refused(lake.run(table, RemoveOrphanFiles(max_files=3, max_share=1.0)), "4 orphans")
        assert all(path.exists() for path in litter)
        assert lake.run(table, RemoveOrphanFiles(max_files=4, max_share=1.0)).effect.files_deleted == 4

    def test_a_catalog_that_points_at_an_old_version_makes_most_files_look_orphaned(self, lake: Lake) -> None:
        """As after a restore of the catalog's database: what was written since is unknown to it, and must not go."""
        table = lake.create()
        lake.numbers(table, files=1)
        restored = lake.java(table).operations().current().metadataFileLocation()
        lake.numbers(table, files=6, start=100)
        newest = lake.java(table).operations().current().metadataFileLocation()
        rows = lake.main(table)
        for path in files_below(lake.place(table)):
            age(path, days=10)
        _repoint(lake, table, restored)
        refused(lake.run(table, RemoveOrphanFiles()), "look like orphans")
        _repoint(lake, table, newest)
        assert lake.main(table) == rows

    def test_a_dry_run_shows_what_the_caps_forbid(self, lake: Lake) -> None:
        table = small_table(lake)
        litter = [stray(lake.place(table) / "data") for _ in range(30)]
        refused(lake.run(table, RemoveOrphanFiles()), "--dry-run")
        record = _dry_run(lake, table, RemoveOrphanFiles(dry_run=True, max_files=1))
        assert (record.details or {})["would_delete_count"] == 30
        assert all(path.exists() for path in litter)


def _repoint(lake: Lake, table: TableId, metadata_location: str) -> None:
    catalog = lake.catalogs.open("lake")
    catalog.drop_table((*table.namespace, table.name))
    catalog.register_table((*table.namespace, table.name), metadata_location)


def _dry_run(lake: Lake, table: TableId, action: RemoveOrphanFiles) -> RunRecord:
    """Not through `lake.run`: a dry run leaves nothing in the history."""
    from icepack.service.maintenance import MaintenanceRunner, RunRequest

    return MaintenanceRunner(lake.tools).run(RunRequest(table=table, action=action))


class TestGarbageCollectionDisabled:
    @pytest.mark.parametrize("action", [FROM_NOW_ON, EXPIRE_ALL], ids=["orphans", "expiry"])
    def test_files_of_a_table_that_shares_them_are_left_alone(self, lake: Lake, action: Any) -> None:
        """A snapshot of another table refers to that table's files: removing them would break the other one."""
        table = small_table(lake, properties={"gc.enabled": "false"})
        lake.sql(f"DELETE FROM {table} WHERE true")
        shared = stray(lake.place(table) / "data")
        before = files_below(lake.place(table))
        refused(lake.run(table, action), "gc.enabled")
        assert files_below(lake.place(table)) >= before
        assert shared.exists()


class TestNeighbours:
    def test_a_table_inside_this_ones_folder_that_the_catalog_knows(self, lake: Lake) -> None:
        outer = small_table(lake, hint="outer")
        inner = small_table(lake, hint="inner", location=f"{lake.java(outer).location()}/data/inner")
        rows = lake.main(inner)
        refused(lake.run(outer, FROM_NOW_ON), str(inner))
        refused(lake.run(inner, FROM_NOW_ON), str(outer))
        assert lake.main(inner) == rows
        lake.sql(f"DROP TABLE {inner}")

    def test_another_tables_data_path_inside_this_ones_folder(self, lake: Lake) -> None:
        """Its location is elsewhere; only the property says where its files are."""
        host = small_table(lake, hint="host")
        guest = small_table(
            lake, hint="guest", properties={"write.data.path": f"{lake.java(host).location()}/data/guest"}
        )
        rows = lake.main(guest)
        refused(lake.run(host, FROM_NOW_ON), str(guest))
        assert lake.main(guest) == rows
        lake.sql(f"DROP TABLE {guest}")

    @pytest.mark.parametrize("metadata_age_days", [10, 0], ids=["old", "young"])
    def test_a_table_that_no_catalog_knows(self, lake: Lake, metadata_age_days: float) -> None:
        """Found by its metadata file, which may be young although the data is old."""
        outer = small_table(lake, hint="outer")
        unknown = small_table(lake, hint="unknown", location=f"{lake.java(outer).location()}/data/unknown")
        place, metadata = lake.place(unknown), lake.java(unknown).operations().current().metadataFileLocation()
        rows = lake.main(unknown)
        lake.catalogs.open("lake").drop_table((*unknown.namespace, unknown.name))
        for path in files_below(place):
            age(path, metadata_age_days if path.name.endswith(".metadata.json") else 10)
        refused(lake.run(outer, RemoveOrphanFiles(max_share=1.0)), "another table inside")
        lake.catalogs.open("lake").register_table((*unknown.namespace, unknown.name), metadata)
        assert lake.main(unknown) == rows
        lake.sql(f"DROP TABLE {unknown}")

    def test_a_narrower_search_is_allowed_where_only_this_table_lies(self, lake: Lake) -> None:
        outer = small_table(lake, hint="outer")
        inner = small_table(lake, hint="inner", location=f"{lake.java(outer).location()}/nested/inner")
        litter = stray(lake.place(outer) / "data")
        refused(lake.run(outer, FROM_NOW_ON), str(inner))
        own = RemoveOrphanFiles(location=f"{lake.java(outer).location()}/data", max_share=1.0)
        assert lake.run(outer, own).effect.files_deleted == 1
        assert not litter.exists()
        assert len(lake.main(inner)) == 6
        lake.sql(f"DROP TABLE {inner}")


class TestLocation:
    @pytest.mark.parametrize("detour", ["", "/../{}"], ids=["plain", "dotted"])
    def test_a_place_outside_the_table_is_refused(self, lake: Lake, detour: str) -> None:
        table, other = small_table(lake), small_table(lake)
        rows = lake.main(other)
        location = lake.java(table).location() + detour.format(other.name) if detour else lake.java(other).location()
        refused(lake.run(table, RemoveOrphanFiles(location=location, max_share=1.0)), "own location")
        assert lake.main(other) == rows

    @pytest.mark.parametrize(
        ("spelling", "asked_for"),
        [("file:{}", "{}/data"), ("file://{}", None), ("{}", None), ("file://{}", "file:{}/data")],
    )
    def test_spellings_of_the_same_place_are_the_same(self, lake: Lake, spelling: str, asked_for: str | None) -> None:
        """The catalog has one spelling, the listing another: no referenced file may look like an orphan."""
        table = lake.name("spelled")
        place = lake.folder / "warehouse" / "db" / table.name
        lake.create(table=table, location=spelling.format(place), partitioned_by="bucket(2, id)")
        lake.numbers(table, files=2)
        lake.sql(f"DELETE FROM {table} WHERE id = 1")
        for path in files_below(place):
            age(path, days=10)
        litter = stray(place / "data")
        rows = lake.main(table)
        record = lake.run(table, RemoveOrphanFiles(location=asked_for and asked_for.format(place)))
        assert record.state is RunState.SUCCEEDED, record.message
        assert not litter.exists()
        assert lake.main(table) == rows

    def test_the_same_spelling_by_another_table_still_overlaps(self, lake: Lake) -> None:
        outer = small_table(lake, location=f"file:{lake.folder}/warehouse/db/spelled_outer")
        inner = small_table(lake, location=f"{lake.folder}/warehouse/db/spelled_outer/data/inner")
        refused(lake.run(outer, FROM_NOW_ON), str(inner))
        assert len(lake.main(inner)) == 6
        lake.sql(f"DROP TABLE {inner}")

    def test_paths_under_another_authority_are_refused_once_and_not_retried(self, lake: Lake) -> None:
        """The metadata says file://somewhere/…, the listing file:/…: nobody can tell whether they are the same."""
        table = small_table(lake)
        data_file = local(lake.inspector.files(table).files[0].path)
        builder = lake.iceberg.DataFiles.builder(lake.java(table).spec())
        builder.withPath(f"file://nas{data_file}").withFileSizeInBytes(1).withRecordCount(1).withFormat("parquet")
        lake.drop_file(table, lake.inspector.files(table).files[0].path)
        lake.java(table).newAppend().appendFile(builder.build()).commit()
        lake.run(table, EXPIRE_ALL)
        record = lake.run(table, FROM_NOW_ON)
        assert data_file.exists()
        refused(record, "authorities")
        assert record.attempts == 1


class TestNeverDeleted:
    def test_metadata_files_and_version_hints(self, lake: Lake) -> None:
        table = small_table(lake)
        folder = lake.place(table) / "metadata"
        names = ("00099-a.metadata.json", "00099-a.gz.metadata.json", "v7.metadata.json.gz", "version-hint.text")
        kept = [stray(folder, name) for name in names]
        litter = stray(folder, "snap-1-2-3.avro")
        record = lake.run(table, RemoveOrphanFiles())
        assert (record.effect.files_deleted, litter.exists()) == (1, False)
        assert all(path.exists() for path in kept)

    def test_statistics_files(self, lake: Lake) -> None:
        table = small_table(lake, partitioned_by="bucket(2, id)")
        assert lake.run(table, ComputeStats(partition_stats=True)).state is RunState.SUCCEEDED
        before = files_below(lake.place(table))
        assert {path.suffix for path in before} >= {".stats"}
        record = lake.run(table, FROM_NOW_ON)
        assert record.changed_nothing, record.effect
        assert files_below(lake.place(table)) >= before
        assert lake.status(table).metadata.statistics_snapshot_ids == (lake.head(table),)

    def test_anything_in_a_dry_run(self, lake: Lake) -> None:
        table = small_table(lake)
        litter = stray(lake.place(table) / "data")
        before = files_below(lake.place(table))
        record = _dry_run(lake, table, RemoveOrphanFiles(dry_run=True))
        assert record.state is RunState.SUCCEEDED
        assert [Path(path).name for path in (record.details or {})["would_delete"]] == [litter.name]
        assert record.effect.files_deleted == 0
        assert files_below(lake.place(table)) == before


class TestDeletionThatFails:
    @pytest.mark.parametrize("in_bulk", [True, False])
    def test_what_could_not_be_deleted_is_told_and_not_counted(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch, in_bulk: bool
    ) -> None:
        """A folder that is not empty stands for the file: even root cannot delete it like one."""
        table = small_table(lake)
        litter = stray(lake.place(table) / "data", size=70)
        stubborn = lake.place(table) / "data" / "stubborn.parquet"
        stray(stubborn, "inside")
        monkeypatch.setattr(file_deletion, "_is_bulk", lambda *_: in_bulk)
        deletion = file_deletion.delete(lake.spark, lake.java(table), [litter.as_uri(), stubborn.as_uri()])
        assert (deletion.files, deletion.bytes) == (1, 70)
        (failure,) = deletion.failures
        assert failure.startswith(f"{stubborn.as_uri()}: ")
        assert (litter.exists(), stubborn.exists()) == (False, True)

    def test_the_run_fails_but_says_what_it_did(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        table = small_table(lake)
        stray(lake.place(table) / "data")
        partly = file_deletion.Deletion(1, 100, ("file:/x: Permission denied",))
        monkeypatch.setattr(orphan_files, "delete", lambda *_: partly)
        record = lake.run(table, RemoveOrphanFiles())
        assert (record.state, record.effect.files_deleted) == (RunState.FAILED, 1)
        assert "Permission denied" in record.message


class TestExpiry:
    def test_branches_and_tags_keep_what_they_need(self, lake: Lake) -> None:
        table = lake.create()
        lake.numbers(table, files=2)
        lake.sql(f"ALTER TABLE {table} CREATE TAG kept")
        lake.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
        lake.sql(f"DELETE FROM {table} WHERE id < 10")
        lake.append(table, branch="audit")
        lake.run(table, Compact(rewrite_all=True))
        rows = lake.rows(table)
        assert sorted(map(len, rows.values())) == [10, 20, 21]
        record = lake.run(table, EXPIRE_ALL)
        assert record.effect.snapshots_removed > 0
        assert record.proofs[0].method == "heads of branches and tags"
        assert lake.rows(table) == rows

    def test_a_file_that_was_removed_and_added_again(self, lake: Lake) -> None:
        """ice#17304: the snapshot that removed it expires, and must not take the file along."""
        table = lake.create()
        lake.numbers(table, files=2, rows=3)
        path = lake.inspector.files(table).files[0].path
        entry = lake.drop_file(table, path)
        lake.java(table).newAppend().appendFile(entry).commit()
        lake.append(table)
        rows = lake.main(table)
        assert len(rows) == 7
        record = lake.run(table, EXPIRE_ALL)
        assert record.effect.snapshots_removed == 4
        assert local(path).exists()
        assert lake.main(table) == rows

    def test_the_head_is_never_expired_even_by_name(self, lake: Lake) -> None:
        table = small_table(lake)
        head = lake.head(table)
        record = lake.run(table, ExpireSnapshots(snapshot_ids=(head,)))
        assert record.state is RunState.FAILED
        assert "referenced" in record.message
        assert lake.head(table) == head
        assert len(lake.main(table)) == 6


def plain(lake: Lake) -> TableId:
    table = lake.create(partitioned_by="bucket(2, id)", properties={"commit.manifest.min-count-to-merge": "3"})
    lake.numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id < 4")
    lake.run(table, Compact(rewrite_all=True, delete_file_threshold=1))
    return table


def with_refs(lake: Lake) -> TableId:
    table = lake.create()
    lake.numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} CREATE TAG kept")
    lake.sql(f"ALTER TABLE {table} CREATE TAG aged RETAIN 1 DAYS")
    lake.sql(f"DELETE FROM {table} WHERE id < 3")
    lake.sql(f"ALTER TABLE {table} CREATE BRANCH audit WITH SNAPSHOT RETENTION 2 SNAPSHOTS")
    lake.append(table, branch="audit")
    lake.append(table, branch="audit")
    lake.append(table, branch="audit")
    lake.run(table, Compact(rewrite_all=True))
    lake.numbers(table, files=1, start=100)
    return table


def with_vectors_and_statistics(lake: Lake) -> TableId:
    table = lake.create(version=3, partitioned_by="bucket(2, id)")
    lake.numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id % 10 = 1")
    lake.run(table, ComputeStats(partition_stats=True))
    lake.sql(f"DELETE FROM {table} WHERE id IN (2, 3)")
    lake.run(table, Compact(rewrite_all=True))
    lake.run(table, ComputeStats(partition_stats=True))
    return table


def with_old_refs(lake: Lake) -> TableId:
    """A tag without an age of its own, which the table's property has aged out."""
    table = lake.create(properties={"history.expire.max-ref-age-ms": "1"})
    lake.numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} CREATE TAG forgotten")
    lake.sql(f"DELETE FROM {table} WHERE id < 10")
    time.sleep(0.01)
    return table


class TestExpiryPreview:
    @pytest.mark.parametrize(
        ("build", "retain_last"),
        [(plain, 1), (plain, 3), (with_refs, 2), (with_vectors_and_statistics, 1), (with_old_refs, 1)],
    )
    def test_it_says_what_expiry_then_deletes(
        self, lake: Lake, build: Callable[[Lake], TableId], retain_last: int
    ) -> None:
        table = build(lake)
        action = ExpireSnapshots(older_than=NO_AGE, retain_last=retain_last)
        before = {path: path.stat().st_size for path in files_below(lake.place(table))}
        snapshots = {entry.snapshot_id for entry in lake.status(table).snapshots.entries}
        preview = lake.inspector.preview_expiry(table, action, datetime.now(UTC))
        assert {path: path.stat().st_size for path in files_below(lake.place(table))} == before
        record = lake.run(table, action)
        assert record.state is RunState.SUCCEEDED, record.message
        gone = {path: size for path, size in before.items() if not path.exists()}
        lists = {path: size for path, size in gone.items() if path.name.startswith("snap-")}
        left = {entry.snapshot_id for entry in lake.status(table).snapshots.entries}
        assert set(preview.snapshot_ids) == snapshots - left != set()
        assert preview.files == len(gone) == record.effect.files_deleted
        assert preview.manifest_lists == len(lists)
        assert preview.manifests == sum(1 for path in gone if path.suffix == ".avro") - len(lists)
        assert preview.bytes == sum(gone.values()) - sum(lists.values())
        assert record.effect.bytes_deleted == sum(gone.values())
        assert preview.data_files + preview.delete_files == sum(1 for path in gone if "/data/" in str(path))

    def test_snapshots_named_by_hand(self, lake: Lake) -> None:
        table = small_table(lake)
        lake.append(table)
        first = min(lake.status(table).snapshots.entries, key=lambda entry: entry.committed_at).snapshot_id
        action = ExpireSnapshots(snapshot_ids=(first, 12345))
        preview = lake.inspector.preview_expiry(table, action, datetime.now(UTC))
        record = lake.run(table, action)
        assert preview.snapshot_ids == (first,)
        assert (preview.files, record.effect.snapshots_removed) == (record.effect.files_deleted, 1)
        assert preview.files == 1, "only its manifest list"
