"""The run and maintain commands up to the point where Spark would start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from icepack.cli.console import console
from icepack.cli.iceberg_compact import iceberg_compact
from icepack.cli.main import run_command
from icepack.cli.options import parse_parameters
from icepack.cli.output.maintenance import maintenance_exit_code, show_steps
from icepack.cli.output.runs import exit_code_of
from icepack.domain.actions import ActionKind, Layout, RemoveOrphanFiles, RewriteEngine, Strategy
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.domain.verification import ProofLevel
from icepack.errors import InvalidOption
from icepack.service.service import CompactionService, MaintainStep

from .conftest import Call


def test_maintain_without_tables_asks_which(call: Call, lake: Path) -> None:
    answer = call("maintain")
    assert answer.code == 2
    assert "--all" in answer.err


def test_maintain_dry_run_shows_the_plan_and_touches_nothing(call: Call, lake: Path) -> None:
    before = sorted((lake / "warehouse").rglob("*"))
    answer = call("maintain", "--all", "--dry-run")
    assert answer.code == 0
    assert "compact" in answer.out
    assert sorted((lake / "warehouse").rglob("*")) == before


def test_maintain_dry_run_as_json_has_the_exact_parameters(call: Call, lake: Path) -> None:
    (plan,) = call("maintain", "orders", "--dry-run", "--format", "json").json["plan"]
    assert plan["actions"][0]["kind"] == "compact"
    assert plan["actions"][0]["strategy"] == "small_files"


def test_the_proof_flag_of_maintain_overrides_the_policy(call: Call, lake: Path, tmp_path: Path) -> None:
    config = tmp_path / "icepack.yaml"
    config.write_text(config.read_text() + "policies:\n  - match: sales.*\n    proof: count\n")
    for flags, level in (((), "count"), (("--proof", "full"), "full")):
        (plan,) = call("maintain", "orders", "--dry-run", "--format", "json", *flags).json["plan"]
        assert plan["actions"][0]["proof"] == level


def test_the_proof_flag_of_run_overrides_the_default(call: Call, lake: Path) -> None:
    for flags, level in (((), "sampled"), (("--proof", "count"), "count")):
        found = call("run", "compact", "orders", "--dry-run", "--format", "json", *flags).json
        assert found["action"]["proof"] == level
    assert call("run", "compact", "orders", "--proof", "maybe").code == 2


def step(state: RunState) -> MaintainStep:
    table, now = TableId("lake", ("sales",), "orders"), datetime.now(UTC)
    record = RunRecord(
        job_id=uuid4(), table=table, action=RemoveOrphanFiles(), state=state, started_at=now, message="Because."
    )
    return MaintainStep(table=table, record=record)


@pytest.mark.parametrize(
    ("states", "code", "strict"),
    [
        ((), 0, 0),
        ((RunState.SUCCEEDED, RunState.REFUSED), 0, 1),
        ((RunState.REFUSED, RunState.FAILED), 1, 1),
        ((RunState.REFUSED, RunState.CANCELLED), 130, 130),
    ],
)
def test_a_refused_action_is_a_failure_only_with_strict(states: tuple[RunState, ...], code: int, strict: int) -> None:
    steps = [step(state) for state in states]
    assert (maintenance_exit_code(steps), maintenance_exit_code(steps, strict=True)) == (code, strict)


def test_a_table_that_cannot_be_read_is_a_failure() -> None:
    assert maintenance_exit_code([MaintainStep(table=TableId("lake", ("sales",), "orders"), error="Gone.")]) == 1


def test_a_single_refused_action_is_a_failure() -> None:
    assert exit_code_of(RunState.REFUSED) == 1


def test_refused_actions_are_listed_apart_from_failed_ones(capsys: pytest.CaptureFixture[str]) -> None:
    console.cache_clear()
    show_steps([step(RunState.REFUSED), step(RunState.FAILED), step(RunState.SUCCEEDED)])
    shown = capsys.readouterr().out
    assert "1 of 3 failed:" in shown
    assert "1 of 3 refused:\n  ! lake.sales.orders remove_orphan_files: Because." in shown


def test_maintain_accepts_strict(call: Call, lake: Path) -> None:
    assert call("maintain", "--all", "--strict", "--dry-run").code == 0


def test_run_compact_dry_run_needs_no_spark(call: Call, lake: Path) -> None:
    assert "12 files" in call("run", "compact", "orders", "--dry-run").out


def test_run_expire_dry_run_counts_what_would_be_removed(call: Call, lake: Path) -> None:
    found = call("run", "expire_snapshots", "orders", "--older-than", "0s", "--dry-run", "--format", "json").json
    assert len(found["preview"]["snapshot_ids"]) == 11
    assert found["preview"]["data_files"] == 0


def test_a_cost_over_the_limit_is_refused_with_the_estimate(call: Call, lake: Path) -> None:
    answer = call("run", "compact", "orders", "--max-cost", "0.0000000001")
    assert answer.code == 1
    assert "The estimated cost of $" in answer.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "compact", "orders", "--older-than", "7d"), "compact has no --older-than"),
        (("run", "expire_snapshots", "orders", "--older-than", "soon"), "not a duration"),
        (("run", "compact", "orders", "--target-file-size", "big"), "not a size"),
        (("run", "compact", "orders", "--option", "x"), "KEY=VALUE"),
        (("run", "compact", "orders", "--where", "id >", "--dry-run"), "expected a value"),
        (("run", "compact", "orders", "--where", "nope = 1", "--dry-run"), "column 'nope'"),
        (("run", "polish", "orders"), "polish"),
    ],
)
def test_wrong_input_is_a_usage_error_with_a_sentence(
    call: Call, lake: Path, arguments: tuple[str, ...], message: str
) -> None:
    answer = call(*arguments)
    assert answer.code == 2
    assert message in answer.err


def test_flags_become_parameters() -> None:
    flags: dict[str, Any] = {
        "strategy": Strategy.TIME_SERIES, "layout": "zorder", "columns": "a, b desc",
        "engine": "spark", "proof": "full", "options": ("rewrite-all=true",), "rewrite_all": None,
    }  # fmt: skip
    assert parse_parameters(ActionKind.COMPACT, flags) == {
        "strategy": Strategy.TIME_SERIES,
        "layout": Layout.ZORDER,
        "columns": ("a", "b desc"),
        "engine": RewriteEngine.SPARK,
        "proof": ProofLevel.FULL,
        "options": {"rewrite-all": "true"},
    }
    assert isinstance(parse_parameters(ActionKind.COMPACT, flags)["engine"], RewriteEngine)
    assert isinstance(parse_parameters(ActionKind.COMPACT, flags)["proof"], ProofLevel)
    assert parse_parameters(ActionKind.EXPIRE_SNAPSHOTS, {"older_than": "12h"}) == {"older_than": timedelta(hours=12)}
    assert parse_parameters(ActionKind.COMPUTE_STATS, {"snapshot_ids": (5,)}) == {"snapshot_id": 5}


def test_a_flag_of_another_action_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidOption, match="rewrite_manifests has no --where"):
        parse_parameters(ActionKind.REWRITE_MANIFESTS, {"partition_filter": "a = 1"})


def test_what_is_not_given_comes_from_the_policy(call: Call, lake: Path, tmp_path: Path) -> None:
    config = tmp_path / "icepack.yaml"
    config.write_text(config.read_text() + "policy:\n  snapshot_retention: 3d\n  min_snapshots_to_keep: 4\n")
    found = call("run", "expire_snapshots", "orders", "--dry-run", "--format", "json").json["action"]
    assert (found["older_than"], found["retain_last"]) == ("P3D", 4)


def test_rewrite_all_is_in_the_estimate(call: Call, lake: Path) -> None:
    found = call("run", "compact", "customers", "--rewrite-all", "--dry-run", "--format", "json").json
    assert found["preview"]["groups"][0]["files"] == 1


def test_names_together_with_all_are_a_usage_error(call: Call, lake: Path) -> None:
    assert call("maintain", "orders", "--all").code == 2


def test_iceberg_compact_takes_its_catalog_from_the_flags(
    lake: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "icepack.yaml").unlink()
    arguments = ["--catalog-uri", f"sqlite:///{lake}/catalog.db", "--catalog-name", "lake", "--table", "nope"]
    assert run_command(iceberg_compact, arguments, "iceberg-compact") == 2
    assert "No table matches 'nope'" in capsys.readouterr().err


def test_iceberg_compact_refuses_an_unknown_strategy(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(iceberg_compact, ["--table", "orders", "--strategy", "magic"], "iceberg-compact") == 2
    assert "magic" in capsys.readouterr().err


def test_iceberg_compact_refuses_an_unknown_proof(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(iceberg_compact, ["--table", "orders", "--proof", "magic"], "iceberg-compact") == 2
    assert "magic" in capsys.readouterr().err


def test_iceberg_compact_takes_the_proof_level_from_its_flag(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actions: list[Any] = []

    def run(self: CompactionService, table: TableId, action: Any, **_: Any) -> RunRecord:
        actions.append(action)
        now = datetime.now(UTC)
        return RunRecord(job_id=uuid4(), table=table, action=action, state=RunState.SUCCEEDED, started_at=now)

    monkeypatch.setattr(CompactionService, "run", run)
    for flags in ([], ["--proof", "full"]):
        assert run_command(iceberg_compact, ["--table", "orders", *flags], "iceberg-compact") == 0
    assert [action.proof for action in actions] == [ProofLevel.SAMPLED, ProofLevel.FULL]
