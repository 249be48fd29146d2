"""A table with damaged metadata does not affect other tables: every command serves them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from icepack.catalog.catalog import Catalogs
from icepack.catalog.discovery import PolarisDiscovery
from icepack.config import load_config
from icepack.doctor import run_catalog_checks
from icepack.domain.table import TableId
from icepack.wiring import build_app

from .conftest import Call, CommandResult

BROKEN = "lake.sales.orders"
OTHERS = {"lake.sales.customers"}
Damage = Callable[[Path], None]


def metadata_file(lake: Path) -> Path:
    with sqlite3.connect(lake / "catalog.db") as connection:
        (location,) = connection.execute(
            "SELECT metadata_location FROM iceberg_tables WHERE table_name = 'orders'"
        ).fetchone()
    return Path(location.removeprefix("file://"))


def current_snapshot(lake: Path) -> dict[str, str]:
    content = json.loads(metadata_file(lake).read_text())
    return next(item for item in content["snapshots"] if item["snapshot-id"] == content["current-snapshot-id"])


def lose_metadata(lake: Path) -> None:
    metadata_file(lake).unlink()


def truncate_metadata(lake: Path) -> None:
    path = metadata_file(lake)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty_metadata(lake: Path) -> None:
    metadata_file(lake).write_bytes(b"")


def newer_format_version(lake: Path) -> None:
    path = metadata_file(lake)
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"format-version": 9}))


def unknown_column_type(lake: Path) -> None:
    path = metadata_file(lake)
    content = json.loads(path.read_text())
    content["schemas"][0]["fields"][0]["type"] = "quaternion"
    path.write_text(json.dumps(content))


def no_metadata_location(lake: Path) -> None:
    with sqlite3.connect(lake / "catalog.db") as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = NULL WHERE table_name = 'orders'")


def lose_manifest_list(lake: Path) -> None:
    Path(current_snapshot(lake)["manifest-list"].removeprefix("file://")).unlink()


def truncate_manifest_list(lake: Path) -> None:
    path = Path(current_snapshot(lake)["manifest-list"].removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:200])


def lose_manifests(lake: Path) -> None:
    for path in metadata_file(lake).parent.glob("*-m*.avro"):
        path.unlink()


def scramble_manifests(lake: Path) -> None:
    for path in metadata_file(lake).parent.glob("*-m*.avro"):
        path.write_bytes(b"Obj\x01" + b"\xff" * 64)


OF_THE_TABLE = (
    lose_metadata,
    truncate_metadata,
    empty_metadata,
    newer_format_version,
    unknown_column_type,
    no_metadata_location,
)
OF_A_SNAPSHOT = (lose_manifest_list, truncate_manifest_list, lose_manifests, scramble_manifests)


@pytest.fixture(params=[*OF_THE_TABLE, *OF_A_SNAPSHOT], ids=lambda damage: damage.__name__)
def damaged(lake: Path, request: pytest.FixtureRequest) -> Path:
    request.param(lake)
    return lake


def check_error(answer: CommandResult) -> None:
    (error,) = answer.json["errors"]
    assert error["table"] == BROKEN
    assert BROKEN in error["error"]
    assert "did not answer" not in error["error"]


@pytest.mark.parametrize(
    ("arguments", "listed"),
    [
        (("health",), "tables"),
        (("recommend", "--explain"), "tables"),
        (("plan",), "plans"),
        (("health", BROKEN, "lake.sales.customers"), "tables"),
        (("plan", "*.orders", "*.customers"), "plans"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_commands_over_many_tables_serve_the_others(
    call: Call, damaged: Path, arguments: tuple[str, ...], listed: str
) -> None:
    answer = call(*arguments, "--format", "json")
    assert {item["table"] for item in answer.json[listed]} == OTHERS
    check_error(answer)
    assert answer.code == 1
    assert call(*arguments).code == 1


def test_tables_lists_the_damaged_one_too(call: Call, damaged: Path) -> None:
    answer = call("tables", "--format", "json")
    assert {item["table"] for item in answer.json["tables"]} == {*OTHERS, BROKEN}
    assert answer.code == 0


def test_the_error_names_the_table_and_not_its_catalog(call: Call, damaged: Path) -> None:
    answer = call("inspect", BROKEN)
    assert answer.code != 0
    assert BROKEN in answer.err
    assert "did not answer" not in answer.err


def test_maintain_lists_the_damaged_one(call: Call, damaged: Path) -> None:
    answer = call("maintain", "--all", "--dry-run", "--format", "json")
    check_error(answer)
    assert answer.code == 1


def test_health_sync_keeps_the_others_current(call: Call, damaged: Path) -> None:
    answer = call("health-sync", "--once", "--format", "json")
    assert answer.json["refreshed"] == len(OTHERS)
    check_error(answer)


def test_doctor_does_not_mistake_a_damaged_table_for_unavailable_storage(
    damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = build_app(load_config(None, environ={}, overrides={}, cwd=tmp_path), environ={})
    damaged_first = [TableId.parse(name) for name in (BROKEN, *OTHERS)]
    monkeypatch.setattr(app.discovery, "tables", lambda _: damaged_first)
    (storage,) = [check for check in run_catalog_checks(app) if check.name == "storage lake"]
    assert storage.ok
    assert str(damaged_first[1]) in storage.found
    assert BROKEN in storage.found


def test_the_orchestrator_chooses_among_the_others(call: Call, damaged: Path) -> None:
    answer = call("orchestrate", "--shadow", "--format", "json")
    check_error(answer)
    assert answer.code == 0


def test_the_schedule_includes_all_tables(call: Call, damaged: Path, tmp_path: Path) -> None:
    config = tmp_path / "icepack.yaml"
    names = (BROKEN, *OTHERS)
    entries = "".join(f"  - name: {name}\n    schedule: 0 2 * * *\n" for name in names)
    config.write_text(f"{config.read_text()}tables:\n{entries}")
    assert {run["table"] for run in call("schedule", "--format", "json").json["runs"]} == set(names)


@pytest.mark.parametrize("damage", OF_THE_TABLE)
def test_the_location_of_an_unreadable_table_is_assumed(lake: Path, damage: Damage) -> None:
    folder = metadata_file(lake).parent.parent
    damage(lake)
    found = discovery(lake).locations()
    assert TableId.parse("lake.sales.customers") in found.known
    (assumed,) = found.assumed
    assert str(assumed.table) == BROKEN
    assert any(place.removeprefix("file://") == str(folder) for place in assumed.locations)
    assert str(folder) in assumed.sentence


def test_a_separate_data_path_is_protected_too(lake: Path) -> None:
    path = metadata_file(lake)
    content = json.loads(path.read_text())
    content["properties"]["write.data.path"] = "s3://elsewhere/orders"
    path.write_text(json.dumps(content | {"format-version": 9}))
    (assumed,) = discovery(lake).locations().assumed
    assert "s3://elsewhere/orders" in assumed.locations


def test_a_catalog_that_is_down_is_assumed_to_fill_its_warehouse(lake: Path) -> None:
    gone = {"type": "sql", "uri": f"sqlite:///{lake}/gone/catalog.db"}
    found = discovery(lake, there=gone | {"warehouse": "s3://there/warehouse"}, nowhere=gone).locations()
    assert len(found.known) == 3
    assumed = {item.catalog: item.locations for item in found.assumed}
    assert assumed == {"there": ("s3://there/warehouse",), "nowhere": ()}


def discovery(lake: Path, **others: dict[str, str]) -> PolarisDiscovery:
    own = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    return PolarisDiscovery(Catalogs({"lake": own, **others}))


class TestACatalogThatIsDown:
    @pytest.fixture(autouse=True)
    def two_catalogs(self, lake: Path, tmp_path: Path) -> None:
        config = tmp_path / "icepack.yaml"
        config.write_text(config.read_text() + f"  other:\n    type: sql\n    uri: sqlite:///{lake}/gone/catalog.db\n")

    @pytest.mark.parametrize(
        ("command", "listed"), [("tables", "tables"), ("health", "tables"), ("recommend", "tables"), ("plan", "plans")]
    )
    def test_the_tables_of_the_others_are_served(self, call: Call, command: str, listed: str) -> None:
        answer = call(command, "--format", "json")
        assert {item["table"] for item in answer.json[listed]} == {*OTHERS, BROKEN}
        assert set(answer.json["silent_catalogs"]) == {"other"}
        assert answer.code == 1
        assert "catalog other" in call(command).out

    def test_maintain_plans_for_the_others(self, call: Call) -> None:
        answer = call("maintain", "--all", "--dry-run", "--format", "json")
        assert {item["table"] for item in answer.json["plan"]} == {*OTHERS, BROKEN}
        assert (set(answer.json["silent_catalogs"]), answer.code) == ({"other"}, 1)

    def test_a_short_name_is_not_guessed_and_a_full_one_is_found(self, call: Call) -> None:
        assert "full name" in call("inspect", "orders").err
        assert call("inspect", BROKEN).code == 0
