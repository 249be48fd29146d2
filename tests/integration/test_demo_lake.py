"""The demo lake: every ailment is real, the default policy heals it, and no row changes on any branch or tag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from icepack.catalog.catalog import Catalogs
from icepack.catalog.commits import SnapshotLedger
from icepack.catalog.discovery import CatalogDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifests import ManifestReader, MemoryManifestCache
from icepack.config.folders import LAKE, EmbeddedLake
from icepack.demo import sample_rows
from icepack.demo.lake import MARKER, build_lake
from icepack.demo.sample_rows import Dice
from icepack.demo.tables import TABLES
from icepack.domain.actions import ActionKind
from icepack.domain.health import IssueCode
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import Policy
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.engine.session import SparkSessions
from icepack.engine.spark import SparkSessionEngine
from icepack.engine.spark_conf import spark_catalog_conf
from icepack.errors import UsageError
from icepack.service.maintenance import MaintenanceRunner, RunTools
from icepack.service.service import Advice, CompactionService, MaintainStep, PolicyBook
from icepack.store.backend import select_history_store

from .lakes import Lake, Rows, content

SCALE = 0.03
SEEN = {
    "app.sessions": {IssueCode.DELETE_PRESSURE},
    "crm.customers": {IssueCode.TOO_MANY_SNAPSHOTS, IssueCode.SNAPSHOTS_PAST_RETENTION},
    "finance.payments": {IssueCode.FRAGMENTED_MANIFESTS},
    "iot.sensor_readings": {IssueCode.SMALL_FILES, IssueCode.STALE_COMPACTION},
    "shop.orders": {IssueCode.DELETE_PRESSURE},
    "shop.products": set(),
    "shop.shipments": set(),
    "web.page_views": {IssueCode.SMALL_FILES, IssueCode.FRAGMENTED_MANIFESTS, IssueCode.STALE_COMPACTION},
}
RECOMMENDED = {
    "app.sessions": [ActionKind.COMPACT],
    "crm.customers": [ActionKind.EXPIRE_SNAPSHOTS],
    "finance.payments": [ActionKind.REWRITE_MANIFESTS],
    "iot.sensor_readings": [ActionKind.COMPACT],
    "shop.orders": [ActionKind.COMPACT],
    "shop.products": [],
    "shop.shipments": [],
    "web.page_views": [ActionKind.COMPACT, ActionKind.REWRITE_MANIFESTS],
}
"""Besides the first search for orphans, which every table is due."""


@dataclass(frozen=True)
class Healed:
    """What was seen before, what ran, and what was seen after."""

    place: EmbeddedLake
    now: datetime
    before: Mapping[str, Advice]
    steps: Sequence[MaintainStep]
    after: Mapping[str, Advice]
    rows_before: Mapping[str, dict[str, Rows]]
    rows_after: Mapping[str, dict[str, Rows]]
    second_round: Sequence[MaintainStep]


@pytest.fixture(scope="module")
def healed(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Healed]:
    place = EmbeddedLake(tmp_path_factory.mktemp("demo") / "lake")
    sessions = _sessions_on(lake, place)
    now = datetime.now(UTC)
    tables = build_lake(place, scale=SCALE, query=lambda: sessions, now=now)
    service = _service(place, sessions)
    try:
        before, rows_before = _advice(service, tables), _content(sessions, tables)
        steps = list(service.maintain(tables))
        after, rows_after = _advice(service, tables), _content(sessions, tables)
        yield Healed(place, now, before, steps, after, rows_before, rows_after, list(service.maintain(tables)))
    finally:
        service.history.close()


def _sessions_on(lake: Lake, place: EmbeddedLake) -> SparkSessions:
    """A session of its own in the process's one Spark, in which `lake` is the demo's."""
    session = lake.spark.newSession()
    for key, value in spark_catalog_conf(LAKE, place.properties).items():
        session.conf.set(key, value)
    sessions = SparkSessions(lambda: pytest.fail("Spark is there already"))
    sessions._session = session
    return sessions


def _service(place: EmbeddedLake, sessions: SparkSessions) -> CompactionService:
    catalogs = Catalogs({LAKE: place.properties})
    reader = ManifestReader(MemoryManifestCache())
    discovery, inspector = CatalogDiscovery(catalogs), PyIcebergInspector(catalogs, reader)
    history = select_history_store(f"sqlite:///{place.folder / 'state.db'}")
    tools = RunTools(
        inspector=inspector,
        ledger=SnapshotLedger(catalogs, reader),
        engine=SparkSessionEngine(sessions),
        history=history,
        locations=discovery.locations,
    )
    return CompactionService(
        discovery=discovery,
        inspector=inspector,
        history=history,
        runner=MaintenanceRunner(tools),
        policies=PolicyBook(base=Policy(), rules=()),
        model=CostModel(),
    )


def _advice(service: CompactionService, tables: Sequence[TableId]) -> dict[str, Advice]:
    return {table.short: service.advise(table) for table in tables}


def _content(sessions: SparkSessions, tables: Sequence[TableId]) -> dict[str, dict[str, Rows]]:
    found: dict[str, dict[str, Rows]] = {}
    for table in tables:
        refs = [row["name"] for row in sessions.execute(f"SELECT name FROM {table}.refs")]
        found[table.short] = {
            ref: content(sessions.spark.sql(f"SELECT * FROM {table} VERSION AS OF '{ref}'")) for ref in refs
        }
    return found


@pytest.mark.spark
@pytest.mark.parametrize("table", SEEN)
def test_health_sees_the_ailment_and_nothing_else(healed: Healed, table: str) -> None:
    assert {issue.code for issue in healed.before[table].health.issues} == SEEN[table]


@pytest.mark.spark
@pytest.mark.parametrize("table", RECOMMENDED)
def test_what_helps_is_recommended(healed: Healed, table: str) -> None:
    kinds = [item.kind for item in healed.before[table].recommendation.actions]
    assert kinds == [*RECOMMENDED[table], ActionKind.REMOVE_ORPHAN_FILES]


@pytest.mark.spark
def test_the_ailments_have_the_size_they_are_known_for(healed: Healed) -> None:
    status = {table: advice.status for table, advice in healed.before.items()}
    assert status["web.page_views"].data.count == 300
    assert status["shop.orders"].deletes.position.files >= 10
    assert status["app.sessions"].deletes.vectors.files >= 10
    assert status["finance.payments"].manifests.count == 120
    assert status["crm.customers"].snapshots.count == 151
    assert (status["crm.customers"].snapshots.branches, status["crm.customers"].snapshots.tags) == (
        ("audit", "main"),
        ("quarter_close",),
    )


@pytest.mark.spark
def test_the_past_is_in_order(healed: Healed) -> None:
    """Snapshots in the sequence of their commits, files as old as the commit that wrote them."""
    for advice in healed.before.values():
        times = [entry.committed_at for entry in advice.status.snapshots.entries]
        assert all(earlier < later for earlier, later in pairwise(times))
    customers = healed.before["crm.customers"].status.snapshots
    assert healed.now - timedelta(days=61) < (customers.oldest_at or healed.now) < healed.now - timedelta(days=59)
    products = healed.place.warehouse / "shop" / "products"
    ages = [healed.now.timestamp() - path.stat().st_mtime for path in products.rglob("*.*")]
    assert min(ages) > 3000


@pytest.mark.spark
def test_every_action_succeeds(healed: Healed) -> None:
    runs = [step.record for step in healed.steps if step.record is not None]
    assert len(runs) == len(healed.steps) == sum(len(item.recommendation.actions) for item in healed.before.values())
    assert {(run.table.short, run.kind, run.message) for run in runs if run.state is not RunState.SUCCEEDED} == set()


@pytest.mark.spark
def test_every_table_is_healthy_afterwards(healed: Healed) -> None:
    assert {table: advice.health.score for table, advice in healed.after.items() if advice.health.score < 90} == {}


@pytest.mark.spark
@pytest.mark.parametrize("table", SEEN)
def test_rows_are_what_they_were_on_every_branch_and_tag(healed: Healed, table: str) -> None:
    assert healed.rows_before[table].keys() == healed.rows_after[table].keys()
    assert all(healed.rows_before[table].values())
    assert healed.rows_before[table] == healed.rows_after[table]


@pytest.mark.spark
def test_only_the_planted_orphans_are_removed(healed: Healed) -> None:
    removed = {
        step.record.table.short: step.record.effect.files_deleted
        for step in healed.steps
        if step.record and step.record.effect and step.record.kind is ActionKind.REMOVE_ORPHAN_FILES
    }
    assert removed == {table: 25 if table == "shop.shipments" else 0 for table in SEEN}


@pytest.mark.spark
def test_the_open_day_is_left_alone(healed: Healed) -> None:
    partitions = healed.after["iot.sensor_readings"].status.partitions
    assert sorted(partition.data_files for partition in partitions) == [1] * 30 + [8]


@pytest.mark.spark
def test_a_second_round_finds_nothing(healed: Healed) -> None:
    assert list(healed.second_round) == []
    assert [advice.recommendation.actions for advice in healed.after.values()] == [()] * len(SEEN)


class NoSpark:
    """Takes Spark's part of the building, and does nothing."""

    def execute(self, sql: str) -> list[dict[str, Any]]:
        return []


def _build(folder: Path) -> list[TableId]:
    return build_lake(EmbeddedLake(folder), scale=0.001, query=NoSpark, now=datetime.now(UTC))


def test_another_demo_lake_is_replaced_and_somebodys_tables_never_are(tmp_path: Path) -> None:
    lake = EmbeddedLake(tmp_path / "lake")
    (lake.folder / "warehouse").mkdir(parents=True)
    (lake.folder / MARKER).touch()
    (lake.folder / "left-over").touch()
    tables = _build(lake.folder)
    assert tables == sorted(table.id for table in TABLES)
    assert not (lake.folder / "left-over").exists()

    catalog = Catalogs({LAKE: lake.properties}).open(LAKE)
    catalog.create_table("shop.mine", sample_rows.products(Dice(0), 1, 1).schema)
    with pytest.raises(UsageError, match=r"also holds shop\.mine"):
        _build(lake.folder)
    assert catalog.load_table("shop.mine").schema().column_names == ["product_id", "category", "price", "stock"]


def test_a_folder_with_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"not a demo lake\. Name another folder"):
        _build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake").touch()
    with pytest.raises(UsageError, match="cannot hold the demo lake"):
        _build(tmp_path / "lake")


def test_the_same_seed_gives_the_same_rows() -> None:
    assert sample_rows.customers(Dice(3), 50).equals(sample_rows.customers(Dice(3), 50))
    assert not sample_rows.customers(Dice(3), 50).equals(sample_rows.customers(Dice(4), 50))
