"""The dashboard and the alerts that are shipped ask for metrics that exist, in words that Prometheus understands."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from icepack.domain.observability.metric_definitions import METRICS, Figures, MetricKind, Series
from icepack.metrics import exposition

from .promtool import PromtoolMissing, find_or_unpack

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "deploy" / "grafana" / "icepack.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
ALERT_TESTS = ALERTS.with_name("alerts_test.yaml")
NAME = re.compile(r"\b(?:icepack_\w+|(?:compaction|files|bytes|file|compression|pending|active|last)_\w+)\b")
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


class Everything:
    """At least one value of each metric."""

    def read(self) -> Figures:
        return {series: 1.5 for metric in METRICS for series in metric.series()} | {
            Series(f"{metric.name}_sum"): 2.5 for metric in METRICS if metric.kind is MetricKind.HISTOGRAM
        }


@pytest.fixture(scope="module")
def promtool() -> Path:
    try:
        return find_or_unpack()
    except PromtoolMissing as missing:
        sentence = str(missing)
    pytest.fail(sentence, pytrace=False)


def _run(*command: str | Path, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=given, capture_output=True, check=False)


def _said(ran: subprocess.CompletedProcess[bytes]) -> str:
    return (ran.stdout + ran.stderr).decode()


def _exposed() -> set[str]:
    return set(re.findall(r"^(\w+)(?:\{| )", exposition(Everything())[0].decode(), re.MULTILINE))


def _rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return panels


def _queries() -> Iterator[str]:
    for panel in _panels():
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_prometheus_understands_the_exposition(promtool: Path) -> None:
    ran = _run(promtool, "check", "metrics", given=exposition(Everything())[0])
    assert ran.returncode == 0, _said(ran)


def test_prometheus_refuses_what_is_no_exposition(promtool: Path) -> None:
    assert _run(promtool, "check", "metrics", given=b"# TYPE a counter\na{ 1\n").returncode != 0


def test_prometheus_understands_the_rules(promtool: Path) -> None:
    ran = _run(promtool, "check", "rules", ALERTS)
    assert ran.returncode == 0, _said(ran)
    assert f"{len(_rules())} rules found" in _said(ran)


def test_the_rules_fire_when_they_should(promtool: Path) -> None:
    ran = _run(promtool, "test", "rules", ALERT_TESTS)
    assert ran.returncode == 0, _said(ran)


def test_every_alert_is_seen_firing_and_silent_in_its_tests() -> None:
    tried = [case for test in yaml.safe_load(ALERT_TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in _rules()}
    assert {case["alertname"] for case in tried if case["exp_alerts"]} == names
    assert {case["alertname"] for case in tried if not case["exp_alerts"]} == names


def test_prometheus_understands_every_query_of_the_dashboard(promtool: Path, tmp_path: Path) -> None:
    """As rules, since this promtool checks no bare query; Grafana puts a duration where its variable stands."""
    queries = [query.replace("$__rate_interval", "5m") for query in _queries()]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    ran = _run(promtool, "check", "rules", file)
    assert ran.returncode == 0, _said(ran)


@pytest.mark.parametrize("where", ["dashboard", "alerts"])
def test_every_metric_that_is_asked_for_is_exposed(where: str) -> None:
    asked = _queries() if where == "dashboard" else (rule["expr"] for rule in _rules())
    names = {name for query in asked for name in NAME.findall(query)}
    assert names
    assert names - _exposed() == set()


def test_every_metric_is_on_the_dashboard() -> None:
    asked = " ".join(_queries())
    found = set(NAME.findall(asked))
    bases = found | {name.removesuffix(part) for name in found for part in HISTOGRAM_PARTS}
    assert {metric.name for metric in METRICS} - bases == set()


def test_labels_that_are_asked_for_have_these_values() -> None:
    known = {(label, value) for metric in METRICS for label, values in metric.labels.items() for value in values}
    queries = [*_queries(), *(rule["expr"] for rule in _rules())]
    asked = {pair for query in queries for pair in re.findall(r'(\w+)="([^"$]+)"', query)}
    assert asked
    assert asked - known == set()


def test_the_dashboard_s_panels_have_names_and_do_not_overlap() -> None:
    panels = _panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] for panel in panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
