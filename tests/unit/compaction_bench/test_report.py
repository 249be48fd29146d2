"""A run of some workloads keeps the results of the others in the results file."""

from __future__ import annotations

from typing import Any

from benchmarks.compaction.report import merge_results


def results(*keys: str, seconds: float = 1.0, cores: int = 2) -> dict[str, Any]:
    return {
        "scale": "full",
        "machine": {"cores": cores},
        "settings": {"level": 3},
        "workloads": {key: {"title": key} for key in keys},
        "results": [{"workload": key, "cpu_seconds": seconds} for key in keys],
        "extrapolation": [{"workload": key} for key in keys],
    }


def test_results_of_other_workloads_are_kept() -> None:
    found = merge_results(results("b", "d", seconds=2.0), results("a", "b", "c"))
    assert list(found["workloads"]) == ["a", "b", "c", "d"]
    assert {item["workload"]: item["cpu_seconds"] for item in found["results"]} == {"a": 1, "b": 2, "c": 1, "d": 2}
    assert [item["workload"] for item in found["extrapolation"]] == ["a", "b", "c", "d"]


def test_results_of_another_machine_are_not_kept() -> None:
    new = results("b")
    assert merge_results(new, results("a", "b", cores=64)) == new
