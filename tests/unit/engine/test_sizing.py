"""A task takes the threads and the memory that its executor has, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from icepack.engine.native import sizing
from icepack.engine.native.sizing import (
    ADDRESSES,
    LEAST_TASK_BYTES,
    MB,
    MOST_TASK_BYTES,
    RESIDENT,
    Executors,
    free_bytes,
    remote_executors,
)

K8S, YARN, STANDALONE = "k8s://https://api:6443", "yarn", "spark://master:7077"


@pytest.mark.parametrize(
    ("count", "slots", "tasks", "threads"),
    [(1, 2, 1, 2), (1, 2, 2, 1), (1, 8, 3, 2), (4, 2, 1, 2), (4, 2, 8, 1), (4, 2, 100, 1), (4, 4, 5, 3), (1, 1, 0, 1)],
)
def test_threads_are_what_tasks_leave_over_in_their_executor(count: int, slots: int, tasks: int, threads: int) -> None:
    assert Executors(count, slots, None).threads(tasks) == threads


def test_whoever_sets_no_limit_gives_the_most() -> None:
    found = remote_executors(STANDALONE, {}, cores=6, live=3)
    assert found == Executors(3, 2, None)
    assert found.task_bytes == MOST_TASK_BYTES
    assert found.obstacle is None


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
def test_the_limit_is_what_is_set_aside_for_python(
    master: str, conf: dict[str, str], python_mb: int, slots: int
) -> None:
    found = remote_executors(master, conf, cores=8, live=2)
    assert found.python_bytes is not None
    assert (found.count, found.slots, found.python_bytes // MB) == (2, slots, python_mb)


def test_a_task_and_its_worker_fit_into_their_share() -> None:
    found = remote_executors(K8S, {"spark.executor.memoryOverhead": "2g"}, cores=4, live=1)
    assert LEAST_TASK_BYTES < found.task_bytes < MOST_TASK_BYTES
    assert RESIDENT.idle + found.task_bytes * RESIDENT.growth == pytest.approx(512 * MB, abs=2)
    assert found.obstacle is None


def test_where_spark_limits_addresses_more_of_them_are_reckoned_with() -> None:
    found = remote_executors(STANDALONE, {"spark.executor.pyspark.memory": "2g"}, cores=2, live=1)
    assert found.task_bytes < remote_executors(K8S, {"spark.executor.memoryOverhead": "2g"}, cores=2, live=1).task_bytes
    assert ADDRESSES.idle + found.task_bytes * ADDRESSES.growth == pytest.approx(1024 * MB, abs=2)


def test_a_share_that_is_too_small_is_said_with_the_setting_that_helps() -> None:
    found = remote_executors(K8S, {"spark.executor.cores": "4"}, cores=8, live=2)
    assert found.obstacle == (
        "executors that leave 96 MB to a Python task, of which the kernel needs 204: "
        "raise spark.executor.memoryOverhead"
    )


def test_a_local_session_with_little_memory_works_with_little() -> None:
    found = Executors(1, 8, 800 * MB)
    assert found.task_bytes == LEAST_TASK_BYTES
    assert found.obstacle is None


def test_executors_that_are_not_there_yet_count_as_one() -> None:
    assert remote_executors(YARN, {"spark.executor.memoryOverhead": "1g"}, cores=2, live=0).count == 1


@pytest.mark.parametrize(
    ("limit", "used", "free_mb"),
    [("max", "104857600", 900), ("524288000", "104857600", 400), ("104857600", "209715200", 0), (None, None, 900)],
    ids=["no limit", "a limit", "over its limit", "no container"],
)
def test_free_memory_is_the_containers_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, used: str | None, free_mb: int
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal:       {2000 * 1024} kB\nMemAvailable:   {900 * 1024} kB\nHugePages_Total:       0\n")
    monkeypatch.setattr(sizing, "MEMINFO", meminfo)
    monkeypatch.setattr(sizing, "CGROUP", tmp_path)
    if limit is not None and used is not None:
        (tmp_path / "memory.max").write_text(limit + "\n")
        (tmp_path / "memory.current").write_text(used + "\n")
    assert free_bytes() == free_mb * MB


def test_cached_files_of_a_container_are_no_use_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text(f"{500 * MB}\n")
    (tmp_path / "memory.current").write_text(f"{490 * MB}\n")
    (tmp_path / "memory.stat").write_text(f"anon {100 * MB}\ninactive_file {290 * MB}\n")
    assert free_bytes() == 300 * MB


def test_without_such_files_half_of_the_machine_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(sizing, "CGROUP", tmp_path)
    assert free_bytes() == sizing._physical_bytes() // 2
