"""The commands that only read, without Spark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from icepack.cli.output.recommendations import describe_lambda_advice
from icepack.domain.plan.lambda_advice import advise_lambda
from icepack.domain.units import GIB

from .conftest import Call


def test_tables_lists_every_table_but_the_internal_ones(call: Call, lake: Path) -> None:
    answer = call("tables")
    assert answer.code == 0
    assert answer.out.split() == ["lake.sales.customers", "lake.sales.orders"]


def test_tables_internal_lists_the_internal_ones_too(call: Call, lake: Path) -> None:
    assert "lake.ops._log" in call("tables", "--internal").out


def test_an_internal_table_is_listed_when_it_is_named(call: Call, lake: Path) -> None:
    assert call("tables", "ops._log").out.split() == ["lake.ops._log"]


def test_tables_as_json_gives_the_name_and_its_parts(call: Call, lake: Path) -> None:
    assert call("tables", "*.orders", "--format", "json").json == {
        "tables": [{"table": "lake.sales.orders", "catalog": "lake", "namespace": ["sales"], "name": "orders"}],
        "silent_catalogs": {},
    }


def test_an_unknown_table_is_a_usage_error_that_says_what_to_do(call: Call, lake: Path) -> None:
    answer = call("health", "nope")
    assert answer.code == 2
    assert "No table matches 'nope'" in answer.err
    assert "icepack tables" in answer.err


def test_a_full_name_that_does_not_exist_is_refused_too(call: Call, lake: Path) -> None:
    assert call("inspect", "lake.sales.nope").code == 2


def test_health_scores_the_worst_table_first(call: Call, lake: Path) -> None:
    answer = call("health")
    assert answer.code == 0
    assert answer.out.index("sales.orders") < answer.out.index("sales.customers")
    assert "small files" in answer.out


def test_health_of_one_table_gives_its_sentences(call: Call, lake: Path) -> None:
    assert "12 of 12 data files are smaller than" in call("health", "orders").out


def test_health_as_json_has_scores_and_issues(call: Call, lake: Path) -> None:
    found = {item["table"]: item for item in call("health", "--format", "json").json["tables"]}
    assert found["lake.sales.customers"]["health"]["score"] == 100
    assert found["lake.sales.orders"]["totals"]["data_files"] == 12
    assert "small_files" in [issue["code"] for issue in found["lake.sales.orders"]["health"]["issues"]]


def test_a_table_that_cannot_be_read_is_listed_with_the_others(call: Call, lake: Path) -> None:
    for path in (lake / "warehouse" / "sales" / "customers" / "metadata").glob("*.metadata.json"):
        path.unlink()
    answer = call("health")
    assert answer.code == 1
    assert "sales.orders" in answer.out
    assert "✗ lake.sales.customers" in answer.out


def test_inspect_shows_files_partitions_and_snapshots(call: Call, lake: Path) -> None:
    answer = call("inspect", "orders")
    assert "12 with 36 rows" in answer.out
    assert "branches main" in answer.out


def test_inspect_as_json_is_the_status_and_the_health(call: Call, lake: Path) -> None:
    found = call("inspect", "sales.orders", "--format", "json").json
    assert found["status"]["data"]["count"] == 12
    assert found["status"]["snapshots"]["count"] == 12
    assert found["health"]["snapshot_id"] == found["status"]["snapshot_id"]


def test_recommend_names_the_action_and_the_reason(call: Call, lake: Path) -> None:
    answer = call("recommend", "orders")
    assert "compact" in answer.out
    assert "12 files are small" in answer.out


def test_recommend_explain_lists_skipped_actions_with_the_reason(call: Call, lake: Path) -> None:
    answer = call("recommend", "orders", "--explain")
    assert "skipped  compute_stats: Disabled by policy." in answer.out
    assert "estimate" in answer.out


@pytest.mark.parametrize("arguments", [("recommend", "orders", "--explain"), ("plan", "orders")])
def test_lambda_advice_is_shown_for_a_compaction(call: Call, lake: Path, arguments: tuple[str, ...]) -> None:
    (line,) = [line for line in call(*arguments).out.splitlines() if "AWS Lambda" in line]
    assert line.strip().startswith("AWS Lambda (estimate): fits, 512 MB. ")


def test_lambda_advice_is_not_shown_without_a_compaction(call: Call, lake: Path) -> None:
    for arguments in (("recommend", "customers", "--explain"), ("plan", "customers")):
        assert "AWS Lambda" not in call(*arguments).out


def test_lambda_advice_says_why_a_compaction_does_not_fit() -> None:
    advice = advise_lambda(GIB, timedelta(hours=1), None)
    assert describe_lambda_advice(advice) == f"AWS Lambda (estimate): does not fit. {advice.reason}"


def test_plan_shows_groups_and_says_that_they_are_estimates(call: Call, lake: Path) -> None:
    answer = call("plan", "orders")
    assert answer.code == 0
    assert "estimated: Spark's procedure plans again" in answer.out
    assert "12 files" in answer.out


def test_plan_with_files_names_every_file_of_every_group(call: Call, lake: Path) -> None:
    assert call("plan", "orders", "--files").out.count(".parquet") == 12


def test_plan_as_json_has_groups_and_cost(call: Call, lake: Path) -> None:
    (plan,) = call("plan", "orders", "--format", "json").json["plans"]
    assert plan["compaction"]["groups"][0]["files"] == 12
    assert plan["compaction"]["estimated"] is True
    assert plan["compaction"]["cost"]["get_requests"] > 0


def test_history_is_empty_before_the_first_run(call: Call, lake: Path) -> None:
    assert call("history").out.strip() == "No runs yet."
    assert call("history", "--format", "json").json == {"runs": []}


def test_the_policy_of_the_configuration_applies(call: Call, lake: Path, tmp_path: Path) -> None:
    config = tmp_path / "icepack.yaml"
    config.write_text(config.read_text() + "policies:\n  - match: sales.*\n    actions: [expire_snapshots]\n")
    answer = call("recommend", "orders", "--explain")
    assert "skipped  compact: Disabled by policy." in answer.out


def test_set_overrides_the_file(call: Call, lake: Path) -> None:
    answer = call("--set", "policy.min_input_files=50", "recommend", "orders", "--explain")
    assert "No partition has 50 or more files" in answer.out
