"""The JSON output of the commands has exactly the keys in the reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from generator import record_types
from pyiceberg.catalog import load_catalog

from icepack.cli.context import ReadFailures
from icepack.cli.main import cli, run_command
from icepack.cli.output.maintenance import maintenance_json
from icepack.domain.actions import RewriteManifests
from icepack.domain.run import RunRecord, RunState, Totals
from icepack.domain.table import TableId
from icepack.service.service import MaintainStep
from icepack.store.backend import select_history_store

TABLE = TableId("lake", ("sales",), "orders")
TOTALS = Totals(snapshot_id=1, data_files=1, delete_files=0, bytes=1, records=1, snapshots=1, manifests=1, score=100)
RECORD = RunRecord(
    job_id=uuid4(),
    table=TABLE,
    action=RewriteManifests(),
    state=RunState.SUCCEEDED,
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    before=TOTALS,
    after=TOTALS,
)

PrintJson = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with one table with small files, one table that cannot be read, and one run in the history."""
    root = tmp_path_factory.mktemp("lake")
    properties = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/warehouse"}
    lines = [f"      {key}: {value}" for key, value in properties.items()]
    config = ["catalogs:", "  lake:", *(line[2:] for line in lines), "state:", f"  url: sqlite:///{root}/state.db"]
    config += ["policy:", "  daily_budget: 5"]
    (root / "icepack.yaml").write_text("\n".join(config))
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("sales")
    rows = pa.table({"id": [1, 2, 3]})
    orders = catalog.create_table("sales.orders", rows.schema)
    for _ in range(6):
        orders.append(rows)
    broken = catalog.create_table("sales.broken", rows.schema, properties={"icepack.no-such-key": "1"})
    assert broken.location()
    history = select_history_store(f"sqlite:///{root}/state.db")
    history.save(RECORD)
    history.close()
    return root


@pytest.fixture
def print_json(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> PrintJson:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("ICEPACK_CONFIG", str(folder / "icepack.yaml"))

    def run(*arguments: str) -> Any:
        capsys.readouterr()
        run_command(cli, [*arguments, "--format", "json"], prog_name="icepack")
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("icepack tables", ("tables",)),
        ("icepack inspect", ("inspect", "orders")),
        ("icepack health", ("health",)),
        ("icepack recommend", ("recommend",)),
        ("icepack plan", ("plan",)),
        ("icepack run compact --dry-run", ("run", "compact", "orders", "--dry-run")),
        (
            "icepack run expire_snapshots --dry-run",
            ("run", "expire_snapshots", "orders", "--dry-run", "--older-than", "0s"),
        ),
        ("icepack run rewrite_manifests --dry-run", ("run", "rewrite_manifests", "orders", "--dry-run")),
        ("icepack history", ("history",)),
        ("icepack jobs list", ("jobs", "list")),
        ("icepack locks", ("locks",)),
        ("icepack db prune", ("db", "prune")),
        ("icepack schedule", ("schedule",)),
        ("icepack orchestrate", ("orchestrate",)),
        ("icepack health-sync", ("health-sync", "--once")),
        ("icepack config", ("config",)),
    ],
)
def test_command_prints_documented_keys(command: str, arguments: tuple[str, ...], print_json: PrintJson) -> None:
    found = record_types.paths(print_json(*arguments), command)
    documented = set(record_types.envelopes()[command])
    assert found <= documented
    assert {path for path in documented - found if not path.startswith("errors[]")} == set()


def test_maintain_dry_run_prints_documented_keys(print_json: PrintJson) -> None:
    found = record_types.paths(print_json("maintain", "--all", "--dry-run"), "icepack maintain")
    assert found <= set(record_types.envelopes()["icepack maintain"])
    assert {"plan", "steps", "tables", "errors", "plan[].actions"} <= found


def test_maintain_prints_documented_keys() -> None:
    shown = maintenance_json(
        [], [MaintainStep(table=TABLE, record=RECORD)], ReadFailures(tables=[(TABLE, "unreadable")])
    )
    assert record_types.paths(shown, "icepack maintain") | {"plan[].table", "plan[].actions"} == set(
        record_types.envelopes()["icepack maintain"]
    )
