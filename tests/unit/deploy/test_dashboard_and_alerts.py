"""The shipped dashboard and alerts query metrics that exist, in valid PromQL."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from icepack.domain.observability.metric_definitions import METRICS, MetricKind, MetricValues, Series
from icepack.metrics import render_exposition

from .promtool import PromtoolMissing, find_or_unpack

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "deploy" / "grafana" / "icepack.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
ALERT_TESTS = ALERTS.with_name("alerts_test.yaml")
NAME = re.compile(r"\b(?:icepack_\w+|(?:compaction|files|bytes|file|compression|pending|active|last)_\w+)\b")
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


class AllMetrics:
    """A metrics source with at least one value for each metric."""

    def read(self) -> MetricValues:
        return {series: 1.5 for metric in METRICS for series in metric.series()} | {
            Series(f"{metric.name}_sum"): 2.5 for metric in METRICS if metric.kind is MetricKind.HISTOGRAM
        }


@pytest.fixture(scope="module")
def promtool() -> Path:
    try:
        return find_or_unpack()
    except PromtoolMissing as missing:
        message = str(missing)
    pytest.fail(message, pytrace=False)


def _run(*command: str | Path, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=given, capture_output=True, check=False)


def _output(ran: subprocess.CompletedProcess[bytes]) -> str:
    return (ran.stdout + ran.stderr).decode()


def _exposed_names() -> set[str]:
    return set(re.findall(r"^(\w+)(?:\{| )", render_exposition(AllMetrics())[0].decode(), re.MULTILINE))


def _rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return panels


def _queries() -> Iterator[str]:
    for panel in _panels():
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_the_exposition_is_valid(promtool: Path) -> None:
    ran = _run(promtool, "check", "metrics", given=render_exposition(AllMetrics())[0])
    assert ran.returncode == 0, _output(ran)


def test_promtool_rejects_an_invalid_exposition(promtool: Path) -> None:
    assert _run(promtool, "check", "metrics", given=b"# TYPE a counter\na{ 1\n").returncode != 0


def test_the_rules_are_valid(promtool: Path) -> None:
    ran = _run(promtool, "check", "rules", ALERTS)
    assert ran.returncode == 0, _output(ran)
    assert f"{len(_rules())} rules found" in _output(ran)


def test_the_rules_fire_when_they_should(promtool: Path) -> None:
    ran = _run(promtool, "test", "rules", ALERT_TESTS)
    assert ran.returncode == 0, _output(ran)


def test_every_alert_has_a_test_that_fires_and_one_that_does_not() -> None:
    cases = [case for test in yaml.safe_load(ALERT_TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in _rules()}
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == names
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == names


def test_every_query_of_the_dashboard_is_valid(promtool: Path, tmp_path: Path) -> None:
    """Checks them as rules, because promtool checks no bare query; Grafana replaces its variable with a duration."""
    queries = [query.replace("$__rate_interval", "5m") for query in _queries()]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    ran = _run(promtool, "check", "rules", file)
    assert ran.returncode == 0, _output(ran)


@pytest.mark.parametrize("where", ["dashboard", "alerts"])
def test_every_queried_metric_exists(where: str) -> None:
    queries = _queries() if where == "dashboard" else (rule["expr"] for rule in _rules())
    names = {name for query in queries for name in NAME.findall(query)}
    assert names
    assert names - _exposed_names() == set()


def test_every_metric_is_on_the_dashboard() -> None:
    found = set(NAME.findall(" ".join(_queries())))
    bases = found | {name.removesuffix(part) for name in found for part in HISTOGRAM_PARTS}
    assert {metric.name for metric in METRICS} - bases == set()


def test_every_queried_label_value_exists() -> None:
    known = {(label, value) for metric in METRICS for label, values in metric.labels.items() for value in values}
    queries = [*_queries(), *(rule["expr"] for rule in _rules())]
    queried = {pair for query in queries for pair in re.findall(r'(\w+)="([^"$]+)"', query)}
    assert queried
    assert queried - known == set()


def test_the_panels_of_the_dashboard_have_titles_and_do_not_overlap() -> None:
    panels = _panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] for panel in panels)
    occupied: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & occupied, panel["title"]
        assert at["x"] + at["w"] <= 24
        occupied |= cells
