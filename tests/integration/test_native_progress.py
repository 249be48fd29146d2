"""A run reports which groups are done and which partitions are being rewritten."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.ports.engine import Progress
from icepack.domain.run import RunState
from icepack.engine.native import job

from .lake import Lake

TIMEOUT_SECONDS = 120.0


def test_running_tasks_are_reported_by_index(lake: Lake, tmp_path: Path) -> None:
    """The second of three tasks waits for a file, while the others finish."""
    context, release = lake.spark.sparkContext, tmp_path / "release"
    tag = "icepack-test-running"

    def work(index: int, items: Iterator[Any]) -> Iterator[int]:
        while index == 1 and not release.exists():
            time.sleep(0.05)
        yield index

    def run() -> None:
        context.addJobTag(tag)
        context.parallelize(range(3), 3).mapPartitionsWithIndex(work).collect()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while job._running_tasks(context, tag) != [1] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert job._running_tasks(context, tag) == [1]
    finally:
        release.touch()
        thread.join()
    assert job._running_tasks(context, tag) == []


def test_finished_groups_are_reported(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create(partitioned_by="id")
    for _ in range(2):
        lake.append(table, "SELECT id, 'v' || id FROM range(4)")
    task_progress: list[job.TaskProgress] = []
    run_tasks = job.run_tasks

    def run_and_record(spark: Any, tasks: Any, storage: Any, report: job.TaskProgressCallback) -> Any:
        def record_and_report(done: job.TaskProgress) -> None:
            task_progress.append(done)
            report(done)

        return run_tasks(spark, tasks, storage, record_and_report)

    monkeypatch.setattr("icepack.engine.native.compaction.run_tasks", run_and_record)
    monkeypatch.setattr(job, "FIRST_POLL_SECONDS", 0.01)
    monkeypatch.setattr(job, "MAX_POLL_SECONDS", 0.01)
    reported: list[Progress] = []
    action = Compact(rewrite_all=True, engine=RewriteEngine.NATIVE)
    record = lake.run(table, action, progress=reported.append)
    assert record.state is RunState.SUCCEEDED, record.message
    assert (task_progress[-1].groups, task_progress[-1].files, task_progress[-1].working_on) == (4, 8, ())
    assert [done.groups for done in task_progress] == sorted(done.groups for done in task_progress)
    assert {number for done in task_progress for number in done.working_on} <= set(range(4))
    paths = {path for progress in reported for path in progress.working_on}
    assert paths <= {f"id={number}" for number in range(4)}
    assert (reported[-1].groups_done, reported[-1].groups) == (4, 4)


def test_sparks_procedure_reports_its_partitions_too(lake: Lake) -> None:
    table = lake.create(partitioned_by="id")
    for _ in range(2):
        lake.append(table, "SELECT id, 'v' || id FROM range(20)")
    reported: list[Progress] = []
    one_by_one = {"max-concurrent-file-group-rewrites": "1"}
    action = Compact(rewrite_all=True, engine=RewriteEngine.SPARK, options=one_by_one)
    record = lake.run(table, action, progress=reported.append)
    assert record.state is RunState.SUCCEEDED, record.message
    paths = {path for progress in reported for path in progress.working_on}
    assert paths <= {f"id={number}" for number in range(20)}
