"""The benchmark table in the README matches the results file of the compaction benchmark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RATIO = r"([\d.]+)(?: times less)?"
ROW = re.compile(rf"^\| [^|]+ \| {RATIO} \| {RATIO} \| ([\d.]+) % (smaller|larger) \|$")


def read_results() -> dict[str, dict[str, Any]]:
    document = json.loads((ROOT / "benchmarks" / "results" / "compaction.json").read_text())
    if document["scale"] != "full":
        pytest.skip("the results file is from the small scale, which the README does not quote")
    found: dict[str, dict[str, Any]] = {}
    for item in document["results"]:
        found.setdefault(item["workload"], {})[item["engine"]] = item
    return found


def test_readme_table_matches_results() -> None:
    section = (ROOT / "README.md").read_text().split("## Performance", 1)[1].split("\n## ", 1)[0]
    quoted = [match.groups() for line in section.splitlines() if (match := ROW.match(line))]
    expected = []
    for _, of in sorted(read_results().items()):
        spark, icepack = of["spark"], of["icepack"]
        growth = icepack["bytes_out"] / spark["bytes_out"] - 1
        expected.append(
            (
                f"{spark['cpu_seconds'] / icepack['cpu_seconds']:.1f}",
                f"{spark['wall_seconds'] / icepack['wall_seconds']:.1f}",
                f"{abs(growth):.1%}".removesuffix("%"),
                "larger" if growth > 0 else "smaller",
            )
        )
    assert quoted == expected


def test_rows_match_for_every_engine() -> None:
    found = read_results()
    assert set("abcdefghj") <= found.keys(), "workload (i) is optional, all others are required"
    assert all(item["rows_match"] for of in found.values() for item in of.values())
