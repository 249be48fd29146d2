"""The demo lake has real problems, the default policy fixes them, and no row changes on any branch or tag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from icepack.catalog.catalog import Catalogs
from icepack.catalog.commits import SnapshotCommitReader
from icepack.catalog.discovery import PolarisDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifest_cache import MemoryManifestCache
from icepack.catalog.manifests import ManifestReader
from icepack.config.folders import LAKE, EmbeddedLake
from icepack.demo import sample_rows
from icepack.demo.lake import MARKER, build_lake
from icepack.demo.sample_rows import RandomData
from icepack.demo.tables import TABLES
from icepack.domain.actions import ActionKind
from icepack.domain.health import IssueCode
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import Policy
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.engine.session import SparkSessions
from icepack.engine.spark import SparkQueryEngine, SparkSessionEngine
from icepack.engine.spark_conf import spark_catalog_conf
from icepack.errors import UsageError
from icepack.service.advice import Advice, PolicyResolver
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.runs.request import RunDependencies
from icepack.service.service import CompactionService, MaintainStep
from icepack.store.backend import select_history_store

from .lake import Lake, Rows, read_rows

SCALE = 0.03
EXPECTED_ISSUES = {
    "app.sessions": {IssueCode.DELETE_PRESSURE},
    "crm.customers": {IssueCode.TOO_MANY_SNAPSHOTS, IssueCode.SNAPSHOTS_PAST_RETENTION},
    "finance.payments": {IssueCode.FRAGMENTED_MANIFESTS},
    "iot.sensor_readings": {IssueCode.SMALL_FILES, IssueCode.STALE_COMPACTION},
    "shop.orders": {IssueCode.DELETE_PRESSURE},
    "shop.products": set(),
    "shop.shipments": set(),
    "web.page_views": {IssueCode.SMALL_FILES, IssueCode.FRAGMENTED_MANIFESTS, IssueCode.STALE_COMPACTION},
}
# The recommended actions besides orphan file removal, which every table needs once.
EXPECTED_ACTIONS = {
    "app.sessions": [ActionKind.COMPACT],
    "crm.customers": [ActionKind.EXPIRE_SNAPSHOTS],
    "finance.payments": [ActionKind.REWRITE_MANIFESTS],
    "iot.sensor_readings": [ActionKind.COMPACT],
    "shop.orders": [ActionKind.COMPACT],
    "shop.products": [],
    "shop.shipments": [],
    "web.page_views": [ActionKind.COMPACT, ActionKind.REWRITE_MANIFESTS],
}


@dataclass(frozen=True)
class MaintainedLake:
    """The advice and the rows before and after `maintain`, and its steps."""

    embedded: EmbeddedLake
    now: datetime
    before: Mapping[str, Advice]
    steps: Sequence[MaintainStep]
    after: Mapping[str, Advice]
    rows_before: Mapping[str, dict[str, Rows]]
    rows_after: Mapping[str, dict[str, Rows]]
    second_run: Sequence[MaintainStep]


@pytest.fixture(scope="module")
def maintained(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaintainedLake]:
    embedded = EmbeddedLake(tmp_path_factory.mktemp("demo") / "lake")
    sessions = _open_session(lake, embedded)
    now = datetime.now(UTC)
    tables = build_lake(embedded, scale=SCALE, query=lambda: SparkQueryEngine(sessions), now=now)
    service = _build_service(embedded, sessions)
    try:
        before, rows_before = _advise(service, tables), _read_all(sessions, tables)
        steps = list(service.maintain(tables))
        after, rows_after = _advise(service, tables), _read_all(sessions, tables)
        yield MaintainedLake(
            embedded, now, before, steps, after, rows_before, rows_after, list(service.maintain(tables))
        )
    finally:
        service.history.close()


def _open_session(lake: Lake, embedded: EmbeddedLake) -> SparkSessions:
    """Opens a session in the Spark context of the tests, in which `lake` is the catalog of the demo."""
    session = lake.spark.newSession()
    for key, value in spark_catalog_conf(LAKE, embedded.properties).items():
        session.conf.set(key, value)
    sessions = SparkSessions(lambda: pytest.fail("Spark is already started"))
    sessions._session = session
    return sessions


def _build_service(embedded: EmbeddedLake, sessions: SparkSessions) -> CompactionService:
    catalogs = Catalogs({LAKE: embedded.properties})
    reader = ManifestReader(MemoryManifestCache())
    discovery, inspector = PolarisDiscovery(catalogs), PyIcebergInspector(catalogs, reader)
    history = select_history_store(f"sqlite:///{embedded.folder / 'state.db'}")
    dependencies = RunDependencies(
        inspector=inspector,
        commit_reader=SnapshotCommitReader(catalogs, reader),
        engine=SparkSessionEngine(sessions),
        history=history,
        locations=discovery.locations,
    )
    return CompactionService(
        discovery=discovery,
        inspector=inspector,
        history=history,
        runner=MaintenanceRunner(dependencies),
        policies=PolicyResolver(base=Policy(), rules=()),
        model=CostModel(),
    )


def _advise(service: CompactionService, tables: Sequence[TableId]) -> dict[str, Advice]:
    return {table.short: service.advise(table) for table in tables}


def _read_all(sessions: SparkSessions, tables: Sequence[TableId]) -> dict[str, dict[str, Rows]]:
    found: dict[str, dict[str, Rows]] = {}
    for table in tables:
        refs = [row["name"] for row in SparkQueryEngine(sessions).execute(f"SELECT name FROM {table}.refs")]
        found[table.short] = {
            ref: read_rows(sessions.spark.sql(f"SELECT * FROM {table} VERSION AS OF '{ref}'")) for ref in refs
        }
    return found


@pytest.mark.spark
@pytest.mark.parametrize("table", EXPECTED_ISSUES)
def test_health_finds_the_problem_and_nothing_else(maintained: MaintainedLake, table: str) -> None:
    assert {issue.code for issue in maintained.before[table].health.issues} == EXPECTED_ISSUES[table]


@pytest.mark.spark
@pytest.mark.parametrize("table", EXPECTED_ACTIONS)
def test_the_fixing_actions_are_recommended(maintained: MaintainedLake, table: str) -> None:
    kinds = [item.kind for item in maintained.before[table].recommendation.actions]
    assert kinds == [*EXPECTED_ACTIONS[table], ActionKind.REMOVE_ORPHAN_FILES]


@pytest.mark.spark
def test_the_problems_have_the_documented_size(maintained: MaintainedLake) -> None:
    status = {table: advice.status for table, advice in maintained.before.items()}
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
def test_the_history_is_consistent(maintained: MaintainedLake) -> None:
    """Snapshots are in the order of their commits, and files are as old as their commits."""
    for advice in maintained.before.values():
        times = [entry.committed_at for entry in advice.status.snapshots.entries]
        assert all(earlier < later for earlier, later in pairwise(times))
    customers = maintained.before["crm.customers"].status.snapshots
    assert (
        maintained.now - timedelta(days=61)
        < (customers.oldest_at or maintained.now)
        < maintained.now - timedelta(days=59)
    )
    products = maintained.embedded.warehouse / "shop" / "products"
    ages = [maintained.now.timestamp() - path.stat().st_mtime for path in products.rglob("*.*")]
    assert min(ages) > 3000


@pytest.mark.spark
def test_every_action_succeeds(maintained: MaintainedLake) -> None:
    runs = [step.record for step in maintained.steps if step.record is not None]
    assert (
        len(runs)
        == len(maintained.steps)
        == sum(len(item.recommendation.actions) for item in maintained.before.values())
    )
    assert {(run.table.short, run.kind, run.message) for run in runs if run.state is not RunState.SUCCEEDED} == set()


@pytest.mark.spark
def test_every_table_is_healthy_afterwards(maintained: MaintainedLake) -> None:
    assert {table: advice.health.score for table, advice in maintained.after.items() if advice.health.score < 90} == {}


@pytest.mark.spark
@pytest.mark.parametrize("table", EXPECTED_ISSUES)
def test_rows_are_unchanged_on_every_branch_and_tag(maintained: MaintainedLake, table: str) -> None:
    assert maintained.rows_before[table].keys() == maintained.rows_after[table].keys()
    assert all(maintained.rows_before[table].values())
    assert maintained.rows_before[table] == maintained.rows_after[table]


@pytest.mark.spark
def test_only_the_created_orphan_files_are_removed(maintained: MaintainedLake) -> None:
    removed = {
        step.record.table.short: step.record.effect.files_deleted
        for step in maintained.steps
        if step.record and step.record.effect and step.record.kind is ActionKind.REMOVE_ORPHAN_FILES
    }
    assert removed == {table: 25 if table == "shop.shipments" else 0 for table in EXPECTED_ISSUES}


@pytest.mark.spark
def test_the_current_day_is_not_compacted(maintained: MaintainedLake) -> None:
    partitions = maintained.after["iot.sensor_readings"].status.partitions
    assert sorted(partition.data_files for partition in partitions) == [1] * 30 + [8]


@pytest.mark.spark
def test_a_second_run_finds_nothing(maintained: MaintainedLake) -> None:
    assert list(maintained.second_run) == []
    assert [advice.recommendation.actions for advice in maintained.after.values()] == [()] * len(EXPECTED_ISSUES)


class NoQueryEngine:
    """A query engine that does nothing."""

    def execute(self, sql: str) -> list[dict[str, Any]]:
        return []


def _build(folder: Path) -> list[TableId]:
    return build_lake(EmbeddedLake(folder), scale=0.001, query=NoQueryEngine, now=datetime.now(UTC))


def test_a_demo_lake_is_replaced_unless_it_has_other_tables(tmp_path: Path) -> None:
    lake = EmbeddedLake(tmp_path / "lake")
    (lake.folder / "warehouse").mkdir(parents=True)
    (lake.folder / MARKER).touch()
    (lake.folder / "leftover").touch()
    tables = _build(lake.folder)
    assert tables == sorted(table.id for table in TABLES)
    assert not (lake.folder / "leftover").exists()

    catalog = Catalogs({LAKE: lake.properties}).open(LAKE)
    catalog.create_table("shop.mine", sample_rows.products(RandomData(0), 1, 1).schema)
    with pytest.raises(UsageError, match=r"also contains shop\.mine"):
        _build(lake.folder)
    assert catalog.load_table("shop.mine").schema().column_names == ["product_id", "category", "price", "stock"]


def test_a_folder_with_other_files_is_rejected_and_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"not a demo lake\. Choose another folder"):
        _build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "lake").touch()
    with pytest.raises(UsageError, match="Cannot create the demo lake"):
        _build(tmp_path / "lake")


def test_the_same_seed_produces_the_same_rows() -> None:
    assert sample_rows.customers(RandomData(3), 50).equals(sample_rows.customers(RandomData(3), 50))
    assert not sample_rows.customers(RandomData(3), 50).equals(sample_rows.customers(RandomData(4), 50))
