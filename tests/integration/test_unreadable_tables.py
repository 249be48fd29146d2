"""With a table that cannot be read, all others are maintained, and none of its files is removed as an orphan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from icepack.catalog.catalog import Catalogs
from icepack.catalog.commits import SnapshotCommitReader
from icepack.catalog.discovery import PolarisDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifest_cache import MemoryManifestCache
from icepack.catalog.manifests import ManifestReader
from icepack.clock import utc_now
from icepack.domain.actions import ActionKind, RemoveOrphanFiles
from icepack.domain.health import assess_health
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import Policy
from icepack.domain.ports.table_cache import CachedTable
from icepack.domain.recommendation import Recommendation
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.service.advice import PolicyResolver
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.runs.table_locations import TableLocator
from icepack.service.service import CompactionService
from icepack.store.backend import open_stores

from .lake import Lake, assert_refused, create_orphan_file, create_small_table, list_files, to_local_path

REMOVE, SUCCEEDED = ActionKind.REMOVE_ORPHAN_FILES, RunState.SUCCEEDED
ANY_AGE = RemoveOrphanFiles(older_than=timedelta(0), override_age_floor=True, max_share=1.0)


def metadata_file(lake: Lake, table: TableId) -> Path:
    return to_local_path(lake.catalogs.load(table).metadata_location)


def find_metadata(lake: Lake, table: TableId) -> list[Path]:
    return [metadata_file(lake, table)]


def find_manifest_list(lake: Lake, table: TableId) -> list[Path]:
    return [to_local_path(lake.java_table(table).currentSnapshot().manifestListLocation())]


def find_manifests(lake: Lake, table: TableId) -> list[Path]:
    return [to_local_path(row["path"]) for row in lake.metadata(table, "manifests")]


# What is damaged, and which share of each file remains.
DAMAGES = {
    "missing metadata": (find_metadata, None),
    "truncated metadata": (find_metadata, 0.5),
    "missing manifest list": (find_manifest_list, None),
    "truncated manifest list": (find_manifest_list, 0.5),
    "missing manifests": (find_manifests, None),
}


@contextmanager
def damage_files(paths: list[Path], share: float | None = None) -> Iterator[None]:
    """Deletes the files, or truncates them to a share of their size, and restores them at the end."""
    bodies = {path: path.read_bytes() for path in paths}
    for path, body in bodies.items():
        path.unlink()
        if share is not None:
            path.write_bytes(body[: int(len(body) * share)])
    try:
        yield
    finally:
        for path, body in bodies.items():
            path.write_bytes(body)


@pytest.mark.parametrize("damage", DAMAGES)
def test_maintain_runs_on_all_other_tables(lake: Lake, damage: str) -> None:
    """Runs `maintain` with an empty manifest cache; two of the tables are nested in one another."""
    first, broken, last = (create_small_table(lake, hint=hint) for hint in ("first", "broken", "last"))
    outer = create_small_table(lake, hint="outer")
    inner = create_small_table(lake, hint="inner", location=f"{lake.java_table(outer).location()}/data/inner")
    orphans = [create_orphan_file(lake.table_folder(table) / "data") for table in (first, last)]
    rows = {table: lake.main_rows(table) for table in (first, broken, last, outer, inner)}
    find, share = DAMAGES[damage]
    with damage_files(find(lake, broken), share):
        steps = list(build_service(lake).maintain([first, broken, outer, inner, last]))
    (unreadable,) = [step for step in steps if step.error]
    assert unreadable.table == broken
    assert str(broken) in unreadable.error
    removals = {step.table: step.record for step in steps if step.record and step.record.kind is REMOVE}
    assert {table: record.state for table, record in removals.items()} == {
        first: RunState.SUCCEEDED,
        last: RunState.SUCCEEDED,
        outer: RunState.REFUSED,
        inner: RunState.REFUSED,
    }
    assert {step.record.state for step in steps if step.record and step.record.kind is not REMOVE} <= {SUCCEEDED}
    assert not any(path.exists() for path in orphans)
    if find is find_metadata:
        assert get_assumed_locations(removals[first])[0]["table"] == str(broken)
    assert {table: lake.main_rows(table) for table in rows} == rows
    lake.sql(f"DROP TABLE {inner}")


def build_service(lake: Lake) -> CompactionService:
    reader = ManifestReader(MemoryManifestCache())
    inspector = PyIcebergInspector(lake.catalogs, reader)
    dependencies = lake.with_dependencies(
        inspector=inspector, commit_reader=SnapshotCommitReader(lake.catalogs, reader)
    )
    return CompactionService(
        discovery=lake.discovery,
        inspector=inspector,
        history=lake.history,
        runner=MaintenanceRunner(dependencies),
        policies=PolicyResolver(base=Policy(), rules=()),
        model=CostModel(),
    )


def get_assumed_locations(record: RunRecord) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (record.details or {}).get("assumed_locations", [])
    return found


class TestAssumedLocations:
    def test_files_of_an_unreadable_table_inside_this_one_are_kept(self, lake: Lake) -> None:
        outer = create_small_table(lake, hint="outer")
        inner = create_small_table(lake, hint="inner", location=f"{lake.java_table(outer).location()}/data/inner")
        files = list_files(lake.table_folder(inner))
        with damage_files(find_metadata(lake, inner)):
            record = lake.run(outer, ANY_AGE)
            assert_refused(record, f"{inner}, which cannot be read, is assumed to be stored")
        assert list_files(lake.table_folder(inner)) == files
        assert get_assumed_locations(record)[0]["table"] == str(inner)
        lake.sql(f"DROP TABLE {inner}")

    def test_files_at_a_data_path_in_earlier_metadata_are_kept(self, lake: Lake) -> None:
        host = create_small_table(lake, hint="host")
        path = f"{lake.java_table(host).location()}/data/guest"
        guest = create_small_table(lake, hint="guest", properties={"write.data.path": path})
        rows = lake.main_rows(guest)
        with damage_files(find_metadata(lake, guest), 0.3):
            record = lake.run(host, ANY_AGE)
            assert_refused(record, "is assumed to be stored")
        assert path in get_assumed_locations(record)[0]["locations"]
        assert lake.main_rows(guest) == rows
        lake.sql(f"DROP TABLE {guest}")

    def test_the_last_known_location_is_protected_as_well(self, lake: Lake, tmp_path: Path) -> None:
        """No remaining metadata file has the data path, but health sync has stored it."""
        host = create_small_table(lake, hint="host")
        path = f"{lake.java_table(host).location()}/data/guest"
        guest = create_small_table(lake, hint="guest", properties={"write.data.path": path})
        rows, files = lake.main_rows(guest), sorted(lake.table_folder(guest).glob("metadata/*.metadata.json"))
        with cached_status(lake, guest, tmp_path) as build_locator, damage_files(files):
            dependencies = lake.with_dependencies(locations=build_locator(lake.discovery).locations)
            record = lake.run(host, ANY_AGE, dependencies=dependencies)
            assert_refused(record, "is assumed to be stored")
        assert "its last known location" in get_assumed_locations(record)[0]["basis"]
        assert lake.main_rows(guest) == rows
        lake.sql(f"DROP TABLE {guest}")


UNAVAILABLE = {"type": "sql", "uri": "sqlite:////nowhere/catalog.db"}


class TestUnavailableCatalog:
    def discovery(self, lake: Lake, **other: str) -> PolarisDiscovery:
        own = dict(lake.catalogs.properties_of("lake"))
        return PolarisDiscovery(Catalogs({"lake": own, "other": UNAVAILABLE | other}))

    def test_only_its_warehouse_is_protected(self, lake: Lake) -> None:
        table, near = create_small_table(lake), create_small_table(lake, hint="near")
        orphan = create_orphan_file(lake.table_folder(table) / "data")
        discovery = self.discovery(lake, warehouse=f"file://{lake.table_folder(near)}/data")
        dependencies = lake.with_dependencies(locations=discovery.locations)
        assert_refused(lake.run(near, ANY_AGE, dependencies=dependencies), "catalog 'other', which is unavailable")
        record = lake.run(table, RemoveOrphanFiles(), dependencies=dependencies)
        assert (record.state, orphan.exists()) == (RunState.SUCCEEDED, False)
        assert get_assumed_locations(record)[0]["catalog"] == "other"

    def test_nothing_is_deleted_if_its_locations_are_unknown(self, lake: Lake) -> None:
        table = create_small_table(lake)
        orphan = create_orphan_file(lake.table_folder(table) / "data")
        record = lake.run(
            table, RemoveOrphanFiles(), dependencies=lake.with_dependencies(locations=self.discovery(lake).locations)
        )
        assert_refused(record, "the location of its files is unknown")
        assert orphan.exists()

    def test_the_last_known_locations_of_its_tables_are_protected(self, lake: Lake, tmp_path: Path) -> None:
        table, known = create_small_table(lake), create_small_table(lake, hint="known")
        orphan = create_orphan_file(lake.table_folder(table) / "data")
        with cached_status(lake, known, tmp_path, catalog="other") as build_locator:
            dependencies = lake.with_dependencies(locations=build_locator(self.discovery(lake)).locations)
            assert_refused(lake.run(known, ANY_AGE, dependencies=dependencies), "catalog 'other'")
            assert lake.run(table, RemoveOrphanFiles(), dependencies=dependencies).state is RunState.SUCCEEDED
        assert not orphan.exists()


@contextmanager
def cached_status(
    lake: Lake, table: TableId, folder: Path, catalog: str = "lake"
) -> Iterator[Callable[[PolarisDiscovery], TableLocator]]:
    """Writes the status of a table to the table cache, as health sync does, under the name of the catalog."""
    stores = open_stores(f"sqlite:///{folder}/cache.db")
    status = replace(lake.status(table), table=TableId(catalog, table.namespace, table.name))
    health = assess_health(status, utc_now())
    advice = Recommendation(
        table=status.table, snapshot_id=status.snapshot_id, made_at=utc_now(), actions=(), skipped=()
    )
    generation = stores.cache.begin("test", timedelta(minutes=1))
    stores.cache.write(generation, [CachedTable(status=status, health=health, recommendation=advice)])
    stores.cache.swap(generation)
    try:
        yield lambda discovery: TableLocator(discovery.locations, lambda: stores.cache)
    finally:
        stores.close()
