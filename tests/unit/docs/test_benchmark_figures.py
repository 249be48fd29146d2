"""The README quotes the results file of the compaction benchmark, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RATIO = r"([\d.]+)(?: times less)?"
ROW = re.compile(rf"^\| [^|]+ \| {RATIO} \| {RATIO} \| ([\d.]+) % (smaller|larger) \|$")


def measured() -> dict[str, dict[str, Any]]:
    said = json.loads((ROOT / "benchmarks" / "results" / "compaction.json").read_text())
    if said["scale"] != "full":
        pytest.skip("somebody has run the small scale here, which the README does not quote")
    found: dict[str, dict[str, Any]] = {}
    for item in said["results"]:
        found.setdefault(item["workload"], {})[item["engine"]] = item
    return found


def test_the_table_has_the_ratios_of_the_results() -> None:
    section = (ROOT / "README.md").read_text().split("## How fast", 1)[1].split("\n## ", 1)[0]
    quoted = [match.groups() for line in section.splitlines() if (match := ROW.match(line))]
    expected = []
    for _, of in sorted(measured().items()):
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


def test_every_engine_left_the_right_rows() -> None:
    found = measured()
    assert set("abcdefghj") <= found.keys(), "of (i) there are figures only where somebody has asked for it"
    assert all(item["rows_match"] for of in found.values() for item in of.values())
