"""The results file: a run of some workloads leaves the others' figures alone."""

from __future__ import annotations

from typing import Any

from benchmarks.compaction.report import with_others


def said(*keys: str, seconds: float = 1.0, cores: int = 2) -> dict[str, Any]:
    return {
        "scale": "full",
        "machine": {"cores": cores},
        "settings": {"level": 3},
        "workloads": {key: {"title": key} for key in keys},
        "results": [{"workload": key, "cpu_seconds": seconds} for key in keys],
        "extrapolation": [{"workload": key} for key in keys],
    }


def test_what_was_not_measured_now_stays() -> None:
    found = with_others(said("b", "d", seconds=2.0), said("a", "b", "c"))
    assert list(found["workloads"]) == ["a", "b", "c", "d"]
    assert {item["workload"]: item["cpu_seconds"] for item in found["results"]} == {"a": 1, "b": 2, "c": 1, "d": 2}
    assert [item["workload"] for item in found["extrapolation"]] == ["a", "b", "c", "d"]


def test_figures_of_another_machine_do_not() -> None:
    new = said("b")
    assert with_others(new, said("a", "b", cores=64)) == new
