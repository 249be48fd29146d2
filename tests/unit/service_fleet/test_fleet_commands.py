"""The fleet commands on a lake built by PyIceberg alone, called as users call them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event

from icepack.catalog.catalog import Catalogs
from icepack.catalog.discovery import PolarisDiscovery
from icepack.catalog.manifests import ManifestReader
from icepack.cli.main import cli, run_command
from icepack.domain.actions import ActionKind, Compact, Strategy
from icepack.domain.ports.audit import AuditEvent
from icepack.domain.table import TableId
from icepack.domain.units import MIB
from icepack.service.fleet.schedule_log import ACTOR, PASS
from icepack.store.backend import Stores

from .fakes import list_queued

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
CONFIG = """
state: {{url: "sqlite:///{root}/state.db"}}
catalogs:
  lake: {{type: sql, uri: "sqlite:///{root}/catalog.db", warehouse: "file://{root}/w"}}
scheduler: {{timezone: Europe/Berlin, jitter: 2m}}
policies:
  - match: sales.items
    windows: "mon-fri 22:00-06:00; sat,sun 00:00-24:00"
tables:
  - name: sales.orders
    schedule: "*/30 * * * *"
    strategy: small-files
    options: {{target_file_size: 64MB, max_cost: 2.5}}
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Answer]


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """`sales.orders` has twelve small files, `sales.items` six, `sales.ok` one; there is an internal table too."""
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("sales")
    for name, commits in (("orders", 12), ("items", 6), ("ok", 1), ("_log", 1)):
        table = made.create_table(f"sales.{name}", ROWS.schema)
        for _ in range(commits):
            table.append(ROWS)
    (tmp_path / "icepack.yaml").write_text(CONFIG.format(root=tmp_path))
    return made


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    from icepack.cli.console import console

    def invoke(*arguments: str) -> Answer:
        console.cache_clear()
        code = run_command(cli, list(arguments), prog_name="icepack")
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return invoke


def test_health_sync_inspects_changed_tables(call: Call, catalog: SqlCatalog, stores: Stores) -> None:
    first = call("health-sync", "--once", "--format", "json").json
    assert (first["tables"], first["changed"], first["refreshed"], first["errors"]) == (3, 3, 3, [])
    assert call("health-sync", "--once", "--format", "json").json["refreshed"] == 0
    catalog.load_table("sales.ok").append(ROWS)
    answer = call("health-sync", "--once")
    assert answer.code == 0
    assert "3 tables, 1 changed: 1 inspected, 0 removed" in answer.out
    cached = stores.cache.get(TableId("lake", ("sales",), "ok"))
    assert cached is not None
    assert cached.status.metadata_location == catalog.load_table("sales.ok").metadata_location


def test_health_sync_reports_an_unreadable_table_and_keeps_its_entry(
    call: Call, catalog: SqlCatalog, stores: Stores, tmp_path: Path
) -> None:
    call("health-sync", "--once")
    catalog.load_table("sales.ok").append(ROWS)
    for path in (tmp_path / "w" / "sales" / "ok" / "metadata").glob("*.metadata.json"):
        path.unlink()
    answer = call("health-sync", "--once")
    assert answer.code == 0
    assert "✗ lake.sales.ok" in answer.out
    assert TableId("lake", ("sales",), "ok") in stores.cache.locations()


def test_health_sync_fails_if_no_catalog_answers(call: Call, catalog: SqlCatalog, tmp_path: Path) -> None:
    call("health-sync", "--once")
    (tmp_path / "catalog.db").write_bytes(b"this is no database" * 100)
    answer = call("health-sync", "--once")
    assert answer.code == 1
    assert "Its contents are" in answer.err


def test_a_refresh_in_progress_is_no_failure(call: Call, catalog: SqlCatalog, stores: Stores) -> None:
    stores.cache.begin("another", timedelta(minutes=5))
    answer = call("health-sync", "--once")
    assert answer.code == 0
    assert "'another' is refreshing" in answer.err


def test_the_cron_job_runs_one_cycle(catalog: SqlCatalog, stores: Stores, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "icepack.health_sync_job"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 inspected" in done.stdout
    assert len(stores.cache.locations()) == 3


def test_schedule_shows_the_next_runs(call: Call, catalog: SqlCatalog) -> None:
    answer = call("schedule")
    assert answer.code == 0
    assert "next (Europe/Berlin)" in answer.out
    assert "compact small_files" in answer.out
    assert "recommended actions" in answer.out
    one = call("schedule", "orders", "--days", "1")
    assert "… and " not in one.out
    assert 47 <= one.out.count("*/30 * * * *") <= 49


def test_schedule_as_json_has_every_run_of_the_week(call: Call, catalog: SqlCatalog) -> None:
    found = call("schedule", "--format", "json").json
    assert found["timezone"] == "Europe/Berlin"
    assert found["errors"] == []
    by_table: dict[str, list[Any]] = {}
    for run in found["runs"]:
        by_table.setdefault(run["table"], []).append(run)
    assert set(by_table) == {"lake.sales.orders", "lake.sales.items", "lake.sales.ok"}
    assert 330 <= len(by_table["lake.sales.orders"]) <= 340
    assert by_table["lake.sales.orders"][0]["compaction"] == {
        "strategy": "small_files",
        "target_file_bytes": 64 * 1024**2,
        "max_cost_dollars": 2.5,
    }
    assert all(0 <= run["jitter_seconds"] < 120 for run in found["runs"])
    assert [run["due_at"] for run in found["runs"]] == sorted(run["due_at"] for run in found["runs"])


def test_schedule_respects_the_tables_own_windows(call: Call, catalog: SqlCatalog) -> None:
    with catalog.load_table("sales.ok").transaction() as transaction:
        transaction.set_properties({"icepack.windows": "sun 03:00-04:00"})
    run = call("schedule", "sales.ok", "--format", "json").json["runs"][0]
    assert run["opens_at"] == run["due_at"] != run["tick"]


def test_a_table_with_a_bad_window_is_reported_and_scheduled_by_the_configuration(
    call: Call, catalog: SqlCatalog
) -> None:
    with catalog.load_table("sales.ok").transaction() as transaction:
        transaction.set_properties({"icepack.windows": "at night"})
    answer = call("schedule", "sales.ok")
    assert answer.code == 1
    assert "is not a window" in answer.out
    assert "recommended actions" in answer.out


def test_a_disabled_scheduler_is_reported(call: Call, catalog: SqlCatalog) -> None:
    for command in ("scheduler", "schedule"):
        answer = call("--set", "scheduler.enabled=false", command)
        assert (answer.code, "scheduler.enabled" in answer.err) == (2, True)


def test_the_scheduler_submits_a_scheduled_compaction_with_exactly_its_parameters(
    call: Call, catalog: SqlCatalog, stores: Stores
) -> None:
    assert call("scheduler", "--once").code == 0
    (entry,) = stores.audit.entries(actor=ACTOR, action=PASS)
    # As if the scheduler had last looked half an hour ago.
    ago = (entry.at - timedelta(minutes=32)).isoformat()
    stores.audit.record(AuditEvent(at=entry.at, actor=ACTOR, action=PASS, details={"until": ago, "pending": []}))
    answer = call("scheduler", "--once")
    assert answer.code == 0
    found = [job for job in list_queued(stores) if job.table.name == "orders"]
    assert [job.kind for job in found] == [ActionKind.COMPACT]
    action = found[0].action
    assert isinstance(action, Compact)
    assert (action.strategy, action.target_file_bytes, action.max_cost_dollars) == (
        Strategy.SMALL_FILES,
        64 * 1024**2,
        2.5,
    )
    assert "lake.sales.orders: compact" in answer.err


def test_orchestrate_submits_the_tables_with_the_most_benefit_and_then_holds_them(
    call: Call, catalog: SqlCatalog, stores: Stores
) -> None:
    shadow = call("orchestrate", "--shadow", "--explain")
    assert shadow.code == 0
    assert "would be submitted" in shadow.out
    assert list_queued(stores) == []
    assert len(stores.audit.entries(actor="orchestrator")) >= 2
    call("health-sync", "--once")
    found = call("orchestrate", "--format", "json", "--explain").json
    assert found["decisions"][0]["table"] == "lake.sales.orders"
    assert found["jobs_submitted"] == len(list_queued(stores)) > 0
    assert found["cache_age_seconds"] is not None
    again = call("orchestrate", "--format", "json").json
    assert (again["jobs_submitted"], again["decisions"]) == (0, [])
    assert "It has queued or running jobs." in call("orchestrate", "--explain").out


def test_orchestrate_in_shadow_mode_by_configuration(call: Call, catalog: SqlCatalog, stores: Stores) -> None:
    found = call("--set", "orchestrator.shadow=true", "--set", "policy.daily_budget=9", "orchestrate", "--explain")
    assert "tables would get jobs" in found.out
    assert list_queued(stores) == []


@pytest.mark.parametrize("command", [("orchestrate", "--loop"), ("health-sync",)])
def test_json_needs_a_single_pass(call: Call, catalog: SqlCatalog, command: tuple[str, ...]) -> None:
    assert call(*command, "--format", "json").code == 2


@contextmanager
def statements(catalog: Catalog) -> Iterator[list[str]]:
    seen: list[str] = []
    engine = catalog.engine  # type: ignore[attr-defined]

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine, "before_cursor_execute", note)


def test_a_sql_catalog_reads_all_locations_with_one_query(catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.create_namespace(("deep", "er"))
    catalog.create_table(("deep", "er", "t"), ROWS.schema)
    catalogs = Catalogs({"lake": dict(catalog.properties)})
    discovery = PolarisDiscovery(catalogs)
    with statements(catalogs.open("lake")) as seen:
        found = discovery.metadata_locations("lake")
    assert len(seen) == 1
    assert sorted(found) == discovery.tables()
    assert TableId("lake", ("deep", "er"), "t") in found
    assert all(location == catalogs.load(table).metadata_location for table, location in found.items())


def test_views_are_not_listed_as_tables(catalog: SqlCatalog) -> None:
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import insert

    row = {"catalog_name": "lake", "table_namespace": "sales", "table_name": "v", "metadata_location": "x"}
    with catalog.engine.begin() as connection:
        connection.execute(insert(IcebergTables).values(**row, iceberg_type="VIEW"))
    discovery = PolarisDiscovery(Catalogs({"lake": dict(catalog.properties)}))
    assert TableId("lake", ("sales",), "v") not in discovery.metadata_locations("lake")


def test_other_catalogs_load_each_table_and_an_unreadable_one_has_no_location(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (tmp_path / "w" / "sales" / "ok" / "metadata").glob("*.metadata.json"):
        path.unlink()
    discovery = PolarisDiscovery(Catalogs({"lake": dict(catalog.properties)}))
    expected = discovery.metadata_locations("lake")
    monkeypatch.setattr("pyiceberg.catalog.sql.SqlCatalog", type("Another", (), {}))
    found = discovery.metadata_locations("lake")
    assert found == {table: "" if table.name == "ok" else location for table, location in expected.items()}


def test_a_compaction_over_its_cost_limit_is_recorded_as_refused(call: Call, catalog: SqlCatalog) -> None:
    answer = call("run", "compact", "sales.orders", "--max-cost", "0")
    assert answer.code == 1
    assert "over the limit of $0.0000" in answer.out
    (run,) = call("history", "--format", "json").json["runs"]
    assert (run["state"], run["table"]["name"], run["action"]["kind"]) == ("refused", "orders", "compact")
    assert run["estimate"]["dollars"] > 0


def test_a_number_property_that_is_no_number_counts_as_not_set(call: Call, catalog: SqlCatalog) -> None:
    _set(catalog, {"commit.manifest.target-size-bytes": "8MB", "history.expire.max-ref-age-ms": "²"})
    for arguments in (("inspect", "sales.orders"), ("recommend", "sales.orders"), ("plan", "sales.orders")):
        answer = call(*arguments)
        assert (answer.code, answer.err) == (0, "")
    dry = call("run", "expire_snapshots", "sales.orders", "--dry-run", "--older-than", "1s")
    assert (dry.code, dry.err) == (0, "")
    assert call("inspect", "sales.orders", "--format", "json").json["status"]["manifests"]["target_bytes"] == 8 * MIB


def test_an_invalid_policy_property_is_named_and_the_table_can_still_be_read(call: Call, catalog: SqlCatalog) -> None:
    _set(catalog, {"write.target-file-size-bytes": "lots"})
    status = call("inspect", "sales.orders", "--format", "json").json["status"]
    assert status["target_file_bytes"] == 512 * MIB
    assert call("health", "sales.orders").code == 0
    answer = call("recommend", "sales.orders")
    assert answer.code == 1
    assert "'write.target-file-size-bytes': 'lots' is not a whole number" in answer.out


def _set(catalog: SqlCatalog, properties: dict[str, str]) -> None:
    with catalog.load_table("sales.orders").transaction() as change:
        change.set_properties(properties)


def test_a_recommendation_reads_the_manifests_once(
    call: Call, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    genuine = ManifestReader.entries

    def counted(self: ManifestReader, *arguments: Any) -> pa.Table:
        reads.append(arguments)
        return genuine(self, *arguments)

    monkeypatch.setattr(ManifestReader, "entries", counted)
    assert call("recommend", "sales.orders").code == 0
    assert len(reads) == 1
