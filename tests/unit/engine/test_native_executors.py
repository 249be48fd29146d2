from __future__ import annotations

from pathlib import Path

import pytest

from icepack.engine.native import executors
from icepack.engine.native.executors import (
    ADDRESS_SPACE,
    MAX_TASK_BYTES,
    MB,
    MIN_TASK_BYTES,
    RESIDENT_MEMORY,
    ExecutorResources,
    compute_remote_resources,
    read_free_memory,
)

K8S, YARN, STANDALONE = "k8s://https://api:6443", "yarn", "spark://master:7077"


@pytest.mark.parametrize(
    ("count", "slots", "tasks", "threads"),
    [(1, 2, 1, 2), (1, 2, 2, 1), (1, 8, 3, 2), (4, 2, 1, 2), (4, 2, 8, 1), (4, 2, 100, 1), (4, 4, 5, 3), (1, 1, 0, 1)],
)
def test_tasks_share_the_threads_of_their_executor(count: int, slots: int, tasks: int, threads: int) -> None:
    assert ExecutorResources(count, slots, None).threads_per_task(tasks) == threads


def test_a_master_without_a_memory_limit_allows_the_maximum() -> None:
    found = compute_remote_resources(STANDALONE, {}, cores=6, registered=3)
    assert found == ExecutorResources(3, 2, None)
    assert found.task_bytes == MAX_TASK_BYTES
    assert found.fallback_reason is None


@pytest.mark.parametrize(
    ("conf", "python_mb", "slots"),
    [
        ({}, 384, 4),
        ({"spark.executor.memory": "8g"}, 819, 4),
        ({"spark.executor.memory": "8g", "spark.executor.memoryOverheadFactor": "0.4"}, 3276, 4),
        ({"spark.executor.memory": "8g", "spark.executor.memoryOverhead": "2g"}, 2048, 4),
        ({"spark.executor.memoryOverhead": "700"}, 700, 4),
        ({"spark.executor.cores": "8", "spark.executor.memoryOverhead": "1048576k"}, 1024, 8),
        ({"spark.executor.cores": "8", "spark.task.cpus": "4", "spark.executor.memoryOverhead": "1 GB"}, 1024, 2),
        ({"spark.executor.pyspark.memory": "3g", "spark.executor.memoryOverhead": "1g"}, 3072, 4),
    ],
)
@pytest.mark.parametrize("master", [K8S, YARN])
def test_the_limit_is_the_memory_outside_the_jvm_heap(
    master: str, conf: dict[str, str], python_mb: int, slots: int
) -> None:
    found = compute_remote_resources(master, conf, cores=8, registered=2)
    assert found.python_bytes is not None
    assert (found.count, found.slots, found.python_bytes // MB) == (2, slots, python_mb)


def test_a_task_and_its_worker_fit_into_their_share_of_memory() -> None:
    found = compute_remote_resources(K8S, {"spark.executor.memoryOverhead": "2g"}, cores=4, registered=1)
    assert MIN_TASK_BYTES < found.task_bytes < MAX_TASK_BYTES
    assert RESIDENT_MEMORY.idle + found.task_bytes * RESIDENT_MEMORY.growth == pytest.approx(512 * MB, abs=2)
    assert found.fallback_reason is None


def test_a_limit_on_the_address_space_leaves_less_for_a_task() -> None:
    found = compute_remote_resources(STANDALONE, {"spark.executor.pyspark.memory": "2g"}, cores=2, registered=1)
    assert (
        found.task_bytes
        < compute_remote_resources(K8S, {"spark.executor.memoryOverhead": "2g"}, cores=2, registered=1).task_bytes
    )
    assert ADDRESS_SPACE.idle + found.task_bytes * ADDRESS_SPACE.growth == pytest.approx(1024 * MB, abs=2)


def test_the_fallback_reason_names_the_setting_to_increase() -> None:
    found = compute_remote_resources(K8S, {"spark.executor.cores": "4"}, cores=8, registered=2)
    assert found.fallback_reason == (
        "executors with 96 MB of memory for a Python task, of which the kernel needs 204: "
        "increase spark.executor.memoryOverhead"
    )


def test_a_local_session_with_little_memory_uses_the_minimum() -> None:
    found = ExecutorResources(1, 8, 800 * MB)
    assert found.task_bytes == MIN_TASK_BYTES
    assert found.fallback_reason is None


def test_executors_that_are_not_registered_yet_count_as_one() -> None:
    assert compute_remote_resources(YARN, {"spark.executor.memoryOverhead": "1g"}, cores=2, registered=0).count == 1


@pytest.mark.parametrize(
    ("limit", "used", "free_mb"),
    [("max", "104857600", 900), ("524288000", "104857600", 400), ("104857600", "209715200", 0), (None, None, 900)],
    ids=["no limit", "a limit", "over its limit", "no container"],
)
def test_free_memory_is_that_of_the_container_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, used: str | None, free_mb: int
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal:       {2000 * 1024} kB\nMemAvailable:   {900 * 1024} kB\nHugePages_Total:       0\n")
    monkeypatch.setattr(executors, "MEMINFO", meminfo)
    monkeypatch.setattr(executors, "CGROUP", tmp_path)
    if limit is not None and used is not None:
        (tmp_path / "memory.max").write_text(limit + "\n")
        (tmp_path / "memory.current").write_text(used + "\n")
    assert read_free_memory() == free_mb * MB


def test_the_page_cache_of_a_container_counts_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text(f"{500 * MB}\n")
    (tmp_path / "memory.current").write_text(f"{490 * MB}\n")
    (tmp_path / "memory.stat").write_text(f"anon {100 * MB}\ninactive_file {290 * MB}\n")
    assert read_free_memory() == 300 * MB


def test_half_of_the_memory_is_assumed_free_without_proc_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(executors, "CGROUP", tmp_path)
    assert read_free_memory() == executors._physical_bytes() // 2
