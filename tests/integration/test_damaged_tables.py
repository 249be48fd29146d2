"""A table that cannot be read: all others are maintained, and its own files are safe from their orphan removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from icepack.catalog.catalog import Catalogs
from icepack.catalog.commits import SnapshotLedger
from icepack.catalog.discovery import CatalogDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifests import ManifestReader, MemoryManifestCache
from icepack.domain.actions import ActionKind, RemoveOrphanFiles
from icepack.domain.health import assess
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import Policy
from icepack.domain.ports.queue import CachedTable
from icepack.domain.recommendation.recommend import Recommendation
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.service.maintenance import MaintenanceRunner, utc_now
from icepack.service.runs.table_locations import Neighbours
from icepack.service.service import CompactionService, PolicyBook
from icepack.store.backend import open_stores

from .lakes import Lake, files_below, local, stray
from .test_guard_rails import refused, small_table

REMOVE, SUCCEEDED = ActionKind.REMOVE_ORPHAN_FILES, RunState.SUCCEEDED
ANY_AGE = RemoveOrphanFiles(older_than=timedelta(0), override_age_floor=True, max_share=1.0)


def metadata_file(lake: Lake, table: TableId) -> Path:
    return local(lake.catalogs.load(table).metadata_location)


def missing_metadata(lake: Lake, table: TableId) -> list[Path]:
    return [metadata_file(lake, table)]


def missing_manifest_list(lake: Lake, table: TableId) -> list[Path]:
    return [local(lake.java(table).currentSnapshot().manifestListLocation())]


def missing_manifests(lake: Lake, table: TableId) -> list[Path]:
    return [local(row["path"]) for row in lake.metadata(table, "manifests")]


DAMAGED = {
    "missing metadata": (missing_metadata, None),
    "truncated metadata": (missing_metadata, 0.5),
    "missing manifest list": (missing_manifest_list, None),
    "truncated manifest list": (missing_manifest_list, 0.5),
    "missing manifests": (missing_manifests, None),
}


@contextmanager
def damaged(paths: list[Path], kept: float | None = None) -> Iterator[None]:
    """Without these files, or with only the first part of each; afterwards they are whole again."""
    bodies = {path: path.read_bytes() for path in paths}
    for path, body in bodies.items():
        path.unlink()
        if kept is not None:
            path.write_bytes(body[: int(len(body) * kept)])
    try:
        yield
    finally:
        for path, body in bodies.items():
            path.write_bytes(body)


@pytest.mark.parametrize("damage", DAMAGED)
def test_maintain_serves_every_other_table(lake: Lake, damage: str) -> None:
    """Through the whole of `maintain`, with a fresh cache of manifests, two tables inside one another among them."""
    first, broken, last = (small_table(lake, hint=hint) for hint in ("first", "broken", "last"))
    outer = small_table(lake, hint="outer")
    inner = small_table(lake, hint="inner", location=f"{lake.java(outer).location()}/data/inner")
    litter = [stray(lake.place(table) / "data") for table in (first, last)]
    rows = {table: lake.main(table) for table in (first, broken, last, outer, inner)}
    find, kept = DAMAGED[damage]
    with damaged(find(lake, broken), kept):
        steps = list(service(lake).maintain([first, broken, outer, inner, last]))
    (unread,) = [step for step in steps if step.error]
    assert unread.table == broken
    assert str(broken) in unread.error
    orphans = {step.table: step.record for step in steps if step.record and step.record.kind is REMOVE}
    assert {table: record.state for table, record in orphans.items()} == {
        first: RunState.SUCCEEDED,
        last: RunState.SUCCEEDED,
        outer: RunState.REFUSED,
        inner: RunState.REFUSED,
    }
    assert {step.record.state for step in steps if step.record and step.record.kind is not REMOVE} <= {SUCCEEDED}
    assert not any(path.exists() for path in litter)
    if find is missing_metadata:
        assert assumed(orphans[first])[0]["table"] == str(broken)
    assert {table: lake.main(table) for table in rows} == rows
    lake.sql(f"DROP TABLE {inner}")


def service(lake: Lake) -> CompactionService:
    reader = ManifestReader(MemoryManifestCache())
    inspector = PyIcebergInspector(lake.catalogs, reader)
    tools = lake.with_tools(inspector=inspector, ledger=SnapshotLedger(lake.catalogs, reader))
    return CompactionService(
        discovery=lake.discovery,
        inspector=inspector,
        history=lake.history,
        runner=MaintenanceRunner(tools),
        policies=PolicyBook(base=Policy(), rules=()),
        model=CostModel(),
    )


def assumed(record: RunRecord) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (record.details or {}).get("assumed_locations", [])
    return found


class TestWhatIsAssumed:
    def test_files_of_an_unreadable_table_inside_this_one_are_kept(self, lake: Lake) -> None:
        outer = small_table(lake, hint="outer")
        inner = small_table(lake, hint="inner", location=f"{lake.java(outer).location()}/data/inner")
        files = files_below(lake.place(inner))
        with damaged(missing_metadata(lake, inner)):
            record = lake.run(outer, ANY_AGE)
            refused(record, f"{inner}, which cannot be read, is assumed to lie")
        assert files_below(lake.place(inner)) == files
        assert assumed(record)[0]["table"] == str(inner)
        lake.sql(f"DROP TABLE {inner}")

    def test_so_are_those_at_a_data_path_that_only_earlier_metadata_names(self, lake: Lake) -> None:
        host = small_table(lake, hint="host")
        path = f"{lake.java(host).location()}/data/guest"
        guest = small_table(lake, hint="guest", properties={"write.data.path": path})
        rows = lake.main(guest)
        with damaged(missing_metadata(lake, guest), 0.3):
            record = lake.run(host, ANY_AGE)
            refused(record, "is assumed to lie")
        assert path in assumed(record)[0]["locations"]
        assert lake.main(guest) == rows
        lake.sql(f"DROP TABLE {guest}")

    def test_the_last_known_location_is_protected_as_well(self, lake: Lake, tmp_path: Path) -> None:
        """No metadata file is left that names the data path; but health sync has seen it."""
        host = small_table(lake, hint="host")
        path = f"{lake.java(host).location()}/data/guest"
        guest = small_table(lake, hint="guest", properties={"write.data.path": path})
        rows, files = lake.main(guest), sorted(lake.place(guest).glob("metadata/*.metadata.json"))
        with seen(lake, guest, tmp_path) as neighbours, damaged(files):
            tools = lake.with_tools(locations=neighbours(lake.discovery).locations)
            record = lake.run(host, ANY_AGE, tools=tools)
            refused(record, "is assumed to lie")
        assert "its last known location" in assumed(record)[0]["basis"]
        assert lake.main(guest) == rows
        lake.sql(f"DROP TABLE {guest}")


GONE = {"type": "sql", "uri": "sqlite:////nowhere/catalog.db"}


class TestACatalogThatIsDown:
    def look(self, lake: Lake, **other: str) -> CatalogDiscovery:
        own = dict(lake.catalogs.properties_of("lake"))
        return CatalogDiscovery(Catalogs({"lake": own, "other": GONE | other}))

    def test_its_warehouse_is_left_alone_and_nothing_else(self, lake: Lake) -> None:
        table, near = small_table(lake), small_table(lake, hint="near")
        litter = stray(lake.place(table) / "data")
        elsewhere = self.look(lake, warehouse=f"file://{lake.place(near)}/data")
        tools = lake.with_tools(locations=elsewhere.locations)
        refused(lake.run(near, ANY_AGE, tools=tools), "catalog 'other', which does not answer")
        record = lake.run(table, RemoveOrphanFiles(), tools=tools)
        assert (record.state, litter.exists()) == (RunState.SUCCEEDED, False)
        assert assumed(record)[0]["catalog"] == "other"

    def test_where_nothing_is_known_of_it_nothing_is_deleted(self, lake: Lake) -> None:
        table = small_table(lake)
        litter = stray(lake.place(table) / "data")
        record = lake.run(table, RemoveOrphanFiles(), tools=lake.with_tools(locations=self.look(lake).locations))
        refused(record, "nothing is known of where its files lie")
        assert litter.exists()

    def test_its_tables_last_known_locations_are_enough(self, lake: Lake, tmp_path: Path) -> None:
        table, known = small_table(lake), small_table(lake, hint="known")
        litter = stray(lake.place(table) / "data")
        with seen(lake, known, tmp_path, catalog="other") as neighbours:
            tools = lake.with_tools(locations=neighbours(self.look(lake)).locations)
            refused(lake.run(known, ANY_AGE, tools=tools), "catalog 'other'")
            assert lake.run(table, RemoveOrphanFiles(), tools=tools).state is RunState.SUCCEEDED
        assert not litter.exists()


@contextmanager
def seen(
    lake: Lake, table: TableId, folder: Path, catalog: str = "lake"
) -> Iterator[Callable[[CatalogDiscovery], Neighbours]]:
    """As health sync left it in the table cache, under the name of that catalog."""
    stores = open_stores(f"sqlite:///{folder}/cache.db")
    status = replace(lake.status(table), table=TableId(catalog, table.namespace, table.name))
    health = assess(status, utc_now())
    advice = Recommendation(
        table=status.table, snapshot_id=status.snapshot_id, made_at=utc_now(), actions=(), skipped=()
    )
    generation = stores.cache.begin("test", timedelta(minutes=1))
    stores.cache.write(generation, [CachedTable(status=status, health=health, recommendation=advice)])
    stores.cache.swap(generation)
    try:
        yield lambda discovery: Neighbours(discovery.locations, lambda: stores.cache)
    finally:
        stores.close()
