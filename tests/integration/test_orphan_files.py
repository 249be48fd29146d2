"""The safety checks of orphan file removal: each test would lose data without its check."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from icepack.domain.actions import ComputeStats, ExpireSnapshots, RemoveOrphanFiles
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine.actions import file_deletion, orphan_files
from icepack.engine.actions.file_deletion import filter_unreferenced

from .lake import (
    Lake,
    assert_refused,
    create_orphan_file,
    create_small_table,
    list_files,
    set_age,
    to_local_path,
)

NO_AGE = timedelta(0)
ANY_AGE = RemoveOrphanFiles(older_than=NO_AGE, override_age_floor=True, max_share=1.0)
EXPIRE_ALL = ExpireSnapshots(older_than=NO_AGE)


class TestAgeFloor:
    def test_a_recent_file_may_belong_to_a_write_in_progress(self, lake: Lake) -> None:
        table = create_small_table(lake)
        being_written = create_orphan_file(lake.table_folder(table) / "data", days=0.9)
        assert_refused(lake.run(table, RemoveOrphanFiles(older_than=timedelta(hours=12))), "24h")
        assert being_written.exists()

    def test_only_files_older_than_the_requested_age_are_deleted(self, lake: Lake) -> None:
        table = create_small_table(lake)
        recent, old = (
            create_orphan_file(lake.table_folder(table) / "data", days=2),
            create_orphan_file(lake.table_folder(table) / "data", days=8),
        )
        record = lake.run(table, RemoveOrphanFiles())
        assert (record.state, record.effect.files_deleted, record.effect.bytes_deleted) == (RunState.SUCCEEDED, 1, 100)
        assert (recent.exists(), old.exists()) == (True, False)


def commit_file(lake: Lake, table: TableId, path: Path, rows: str) -> None:
    """Writes a data file to the path and commits it, as a slow writer does."""
    builder = lake.iceberg.DataFiles.builder(lake.java_table(table).spec())
    frame = lake.sql(rows).coalesce(1)
    frame.write.mode("overwrite").parquet(f"file://{path}.tmp")
    (written,) = Path(f"{path}.tmp").glob("*.parquet")
    written.replace(path)
    builder.withPath(path.as_uri()).withFileSizeInBytes(path.stat().st_size).withRecordCount(1).withFormat("parquet")
    lake.java_table(table).newAppend().appendFile(builder.build()).commit()


def create_table_with_name_mapping(lake: Lake, **options: Any) -> TableId:
    table = create_small_table(lake, **options)
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["v"]}]'
    lake.java_table(table).updateProperties().set("schema.name-mapping.default", mapping).commit()
    return table


class TestConcurrentCommits:
    def test_a_file_committed_after_the_listing_is_kept(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        table = create_table_with_name_mapping(lake)
        path = create_orphan_file(lake.table_folder(table) / "data", "slow-writer.parquet")

        def commit_first(spark: Any, java_table: Any, paths: list[str]) -> list[str]:
            assert any(path.name in candidate for candidate in paths), "the file was a candidate"
            commit_file(lake, table, path, "SELECT 77L AS id, 'slow' AS v")
            return filter_unreferenced(spark, java_table, paths)

        monkeypatch.setattr(orphan_files, "filter_unreferenced", commit_first)
        record = lake.run(table, ANY_AGE)
        assert record.state is RunState.SUCCEEDED, record.message
        assert path.exists()
        assert "(77, 'slow')" in lake.main_rows(table)


class TestLimits:
    def test_too_many_orphan_files_are_refused(self, lake: Lake) -> None:
        table = create_small_table(lake)
        orphans = [create_orphan_file(lake.table_folder(table) / "data") for _ in range(4)]
        assert_refused(lake.run(table, RemoveOrphanFiles(max_files=3, max_share=1.0)), "4 orphans")
        assert all(path.exists() for path in orphans)
        assert lake.run(table, RemoveOrphanFiles(max_files=4, max_share=1.0)).effect.files_deleted == 4

    def test_a_catalog_with_an_old_version_of_the_table_is_refused(self, lake: Lake) -> None:
        """After a restore of the catalog's database, newer files look like orphans and must not be deleted."""
        table = lake.create()
        lake.append_numbers(table, files=1)
        restored = lake.java_table(table).operations().current().metadataFileLocation()
        lake.append_numbers(table, files=6, start=100)
        newest = lake.java_table(table).operations().current().metadataFileLocation()
        rows = lake.main_rows(table)
        for path in list_files(lake.table_folder(table)):
            set_age(path, days=10)
        _register_again(lake, table, restored)
        assert_refused(lake.run(table, RemoveOrphanFiles()), "look like orphans")
        _register_again(lake, table, newest)
        assert lake.main_rows(table) == rows

    def test_a_dry_run_ignores_the_limits(self, lake: Lake) -> None:
        table = create_small_table(lake)
        orphans = [create_orphan_file(lake.table_folder(table) / "data") for _ in range(30)]
        assert_refused(lake.run(table, RemoveOrphanFiles()), "--dry-run")
        record = _dry_run(lake, table, RemoveOrphanFiles(dry_run=True, max_files=1))
        assert (record.details or {})["would_delete_count"] == 30
        assert all(path.exists() for path in orphans)


def _register_again(lake: Lake, table: TableId, metadata_location: str) -> None:
    catalog = lake.catalogs.open("lake")
    catalog.drop_table((*table.namespace, table.name))
    catalog.register_table((*table.namespace, table.name), metadata_location)


def _dry_run(lake: Lake, table: TableId, action: RemoveOrphanFiles) -> RunRecord:
    """Does not use `lake.run`, because a dry run is not stored in the history."""
    from icepack.service.maintenance import MaintenanceRunner
    from icepack.service.runs.request import RunRequest

    return MaintenanceRunner(lake.dependencies).run(RunRequest(table=table, action=action))


class TestGarbageCollectionDisabled:
    def test_a_table_with_shared_files_is_refused(self, lake: Lake) -> None:
        """Its files may be referenced by another table, which would lose them."""
        table = create_small_table(lake, properties={"gc.enabled": "false"})
        lake.sql(f"DELETE FROM {table} WHERE true")
        shared = create_orphan_file(lake.table_folder(table) / "data")
        before = list_files(lake.table_folder(table))
        assert_refused(lake.run(table, ANY_AGE), "gc.enabled")
        assert list_files(lake.table_folder(table)) >= before
        assert shared.exists()


class TestOtherTables:
    def test_a_table_inside_the_folder_of_this_table_is_refused(self, lake: Lake) -> None:
        outer = create_small_table(lake, hint="outer")
        inner = create_small_table(lake, hint="inner", location=f"{lake.java_table(outer).location()}/data/inner")
        rows = lake.main_rows(inner)
        assert_refused(lake.run(outer, ANY_AGE), str(inner))
        assert_refused(lake.run(inner, ANY_AGE), str(outer))
        assert lake.main_rows(inner) == rows
        lake.sql(f"DROP TABLE {inner}")

    def test_a_data_path_of_another_table_inside_the_folder_is_refused(self, lake: Lake) -> None:
        """The location of the other table is elsewhere; only its property has the path of its files."""
        host = create_small_table(lake, hint="host")
        guest = create_small_table(
            lake, hint="guest", properties={"write.data.path": f"{lake.java_table(host).location()}/data/guest"}
        )
        rows = lake.main_rows(guest)
        assert_refused(lake.run(host, ANY_AGE), str(guest))
        assert lake.main_rows(guest) == rows
        lake.sql(f"DROP TABLE {guest}")

    @pytest.mark.parametrize("metadata_age_days", [10, 0], ids=["old", "recent"])
    def test_a_table_inside_the_folder_that_no_catalog_lists_is_refused(
        self, lake: Lake, metadata_age_days: float
    ) -> None:
        """It is found by its metadata file, which may be recent although the data is old."""
        outer = create_small_table(lake, hint="outer")
        unknown = create_small_table(lake, hint="unknown", location=f"{lake.java_table(outer).location()}/data/unknown")
        folder, metadata = (
            lake.table_folder(unknown),
            lake.java_table(unknown).operations().current().metadataFileLocation(),
        )
        rows = lake.main_rows(unknown)
        lake.catalogs.open("lake").drop_table((*unknown.namespace, unknown.name))
        for path in list_files(folder):
            set_age(path, metadata_age_days if path.name.endswith(".metadata.json") else 10)
        assert_refused(lake.run(outer, RemoveOrphanFiles(max_share=1.0)), "another table inside")
        lake.catalogs.open("lake").register_table((*unknown.namespace, unknown.name), metadata)
        assert lake.main_rows(unknown) == rows
        lake.sql(f"DROP TABLE {unknown}")

    def test_a_search_can_be_restricted_to_a_folder_of_this_table(self, lake: Lake) -> None:
        outer = create_small_table(lake, hint="outer")
        inner = create_small_table(lake, hint="inner", location=f"{lake.java_table(outer).location()}/nested/inner")
        orphan = create_orphan_file(lake.table_folder(outer) / "data")
        assert_refused(lake.run(outer, ANY_AGE), str(inner))
        own = RemoveOrphanFiles(location=f"{lake.java_table(outer).location()}/data", max_share=1.0)
        assert lake.run(outer, own).effect.files_deleted == 1
        assert not orphan.exists()
        assert len(lake.main_rows(inner)) == 6
        lake.sql(f"DROP TABLE {inner}")


class TestLocation:
    @pytest.mark.parametrize("detour", ["", "/../{}"], ids=["plain", "dotted"])
    def test_a_location_outside_the_table_is_refused(self, lake: Lake, detour: str) -> None:
        table, other = create_small_table(lake), create_small_table(lake)
        rows = lake.main_rows(other)
        location = (
            lake.java_table(table).location() + detour.format(other.name)
            if detour
            else lake.java_table(other).location()
        )
        assert_refused(
            lake.run(table, RemoveOrphanFiles(location=location, max_share=1.0)), "not inside the table's location"
        )
        assert lake.main_rows(other) == rows

    @pytest.mark.parametrize(
        ("spelling", "requested"),
        [("file:{}", "{}/data"), ("file://{}", None), ("{}", None), ("file://{}", "file:{}/data")],
    )
    def test_spellings_of_the_same_location_are_equal(self, lake: Lake, spelling: str, requested: str | None) -> None:
        """The catalog and the listing spell locations differently: no referenced file may look like an orphan."""
        table = lake.new_table_id("spelled")
        folder = lake.folder / "warehouse" / "db" / table.name
        lake.create(table=table, location=spelling.format(folder), partitioned_by="bucket(2, id)")
        lake.append_numbers(table, files=2)
        lake.sql(f"DELETE FROM {table} WHERE id = 1")
        for path in list_files(folder):
            set_age(path, days=10)
        orphan = create_orphan_file(folder / "data")
        rows = lake.main_rows(table)
        record = lake.run(table, RemoveOrphanFiles(location=requested and requested.format(folder)))
        assert record.state is RunState.SUCCEEDED, record.message
        assert not orphan.exists()
        assert lake.main_rows(table) == rows

    def test_another_spelling_of_the_location_still_overlaps(self, lake: Lake) -> None:
        outer = create_small_table(lake, location=f"file:{lake.folder}/warehouse/db/spelled_outer")
        inner = create_small_table(lake, location=f"{lake.folder}/warehouse/db/spelled_outer/data/inner")
        assert_refused(lake.run(outer, ANY_AGE), str(inner))
        assert len(lake.main_rows(inner)) == 6
        lake.sql(f"DROP TABLE {inner}")

    def test_paths_with_another_authority_are_refused_without_a_retry(self, lake: Lake) -> None:
        """The metadata has file://somewhere/…, the listing file:/…: it is unknown whether they are the same."""
        table = create_small_table(lake)
        data_file = to_local_path(lake.inspector.files(table).files[0].path)
        builder = lake.iceberg.DataFiles.builder(lake.java_table(table).spec())
        builder.withPath(f"file://nas{data_file}").withFileSizeInBytes(1).withRecordCount(1).withFormat("parquet")
        lake.remove_data_file(table, lake.inspector.files(table).files[0].path)
        lake.java_table(table).newAppend().appendFile(builder.build()).commit()
        lake.run(table, EXPIRE_ALL)
        record = lake.run(table, ANY_AGE)
        assert data_file.exists()
        assert_refused(record, "authorities")
        assert record.attempts == 1


class TestNeverDeleted:
    def test_metadata_files_and_version_hints_are_kept(self, lake: Lake) -> None:
        table = create_small_table(lake)
        folder = lake.table_folder(table) / "metadata"
        names = ("00099-a.metadata.json", "00099-a.gz.metadata.json", "v7.metadata.json.gz", "version-hint.text")
        kept = [create_orphan_file(folder, name) for name in names]
        orphan = create_orphan_file(folder, "snap-1-2-3.avro")
        record = lake.run(table, RemoveOrphanFiles())
        assert (record.effect.files_deleted, orphan.exists()) == (1, False)
        assert all(path.exists() for path in kept)

    def test_statistics_files_are_kept(self, lake: Lake) -> None:
        table = create_small_table(lake, partitioned_by="bucket(2, id)")
        assert lake.run(table, ComputeStats(partition_stats=True)).state is RunState.SUCCEEDED
        before = list_files(lake.table_folder(table))
        assert {path.suffix for path in before} >= {".stats"}
        record = lake.run(table, ANY_AGE)
        assert record.changed_nothing, record.effect
        assert list_files(lake.table_folder(table)) >= before
        assert lake.status(table).metadata.statistics_snapshot_ids == (lake.current_snapshot_id(table),)

    def test_a_dry_run_deletes_nothing(self, lake: Lake) -> None:
        table = create_small_table(lake)
        orphan = create_orphan_file(lake.table_folder(table) / "data")
        before = list_files(lake.table_folder(table))
        record = _dry_run(lake, table, RemoveOrphanFiles(dry_run=True))
        assert record.state is RunState.SUCCEEDED
        assert [Path(path).name for path in (record.details or {})["would_delete"]] == [orphan.name]
        assert record.effect.files_deleted == 0
        assert list_files(lake.table_folder(table)) == before


class TestFailedDeletion:
    @pytest.mark.parametrize("in_bulk", [True, False])
    def test_files_that_could_not_be_deleted_are_reported_and_not_counted(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch, in_bulk: bool
    ) -> None:
        """Uses a folder that is not empty in place of a file, because not even root can delete it like a file."""
        table = create_small_table(lake)
        orphan = create_orphan_file(lake.table_folder(table) / "data", size=70)
        undeletable = lake.table_folder(table) / "data" / "undeletable.parquet"
        create_orphan_file(undeletable, "inside")
        monkeypatch.setattr(file_deletion, "_supports_bulk", lambda *_: in_bulk)
        result = file_deletion.delete_files(lake.spark, lake.java_table(table), [orphan.as_uri(), undeletable.as_uri()])
        assert (result.files, result.bytes) == (1, 70)
        (failure,) = result.failures
        assert failure.startswith(f"{undeletable.as_uri()}: ")
        assert (orphan.exists(), undeletable.exists()) == (False, True)

    def test_the_run_fails_and_reports_what_was_deleted(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        table = create_small_table(lake)
        create_orphan_file(lake.table_folder(table) / "data")
        partial = file_deletion.DeletionResult(1, 100, ("file:/x: Permission denied",))
        monkeypatch.setattr(orphan_files, "delete_files", lambda *_: partial)
        record = lake.run(table, RemoveOrphanFiles())
        assert (record.state, record.effect.files_deleted) == (RunState.FAILED, 1)
        assert "Permission denied" in record.message
