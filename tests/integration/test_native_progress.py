"""A native run tells, while it runs, which groups are done and which partitions are worked on."""

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

from .lakes import Lake

PATIENCE_SECONDS = 120.0


def test_the_tasks_that_run_are_known_by_their_place(lake: Lake, tmp_path: Path) -> None:
    """The second of three waits for a file; the others are done by then."""
    context, go_on = lake.spark.sparkContext, tmp_path / "go on"
    tag = "icepack-test-running"

    def work(index: int, items: Iterator[Any]) -> Iterator[int]:
        while index == 1 and not go_on.exists():
            time.sleep(0.05)
        yield index

    def run() -> None:
        context.addJobTag(tag)
        context.parallelize(range(3), 3).mapPartitionsWithIndex(work).collect()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while job._running(context, tag) != [1] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert job._running(context, tag) == [1]
    finally:
        go_on.touch()
        thread.join()
    assert job._running(context, tag) == []


def test_groups_are_told_as_they_are_done(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create(partitioned_by="id")
    for _ in range(2):
        lake.append(table, "SELECT id, 'v' || id FROM range(4)")
    heard: list[job.Done] = []
    run_tasks = job.run_tasks

    def listening(spark: Any, tasks: Any, storage: Any, told: job.Told) -> Any:
        def both(done: job.Done) -> None:
            heard.append(done)
            told(done)

        return run_tasks(spark, tasks, storage, both)

    monkeypatch.setattr("icepack.engine.native.compaction.run_tasks", listening)
    monkeypatch.setattr(job, "FIRST_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(job, "LOOK_SECONDS", 0.01)
    seen: list[Progress] = []
    action = Compact(rewrite_all=True, engine=RewriteEngine.NATIVE)
    record = lake.run(table, action, progress=seen.append)
    assert record.state is RunState.SUCCEEDED, record.message
    assert (heard[-1].groups, heard[-1].files, heard[-1].working_on) == (4, 8, ())
    assert [done.groups for done in heard] == sorted(done.groups for done in heard)
    assert {number for done in heard for number in done.working_on} <= set(range(4))
    paths = {path for progress in seen for path in progress.working_on}
    assert paths <= {f"id={number}" for number in range(4)}
    assert (seen[-1].groups_done, seen[-1].groups) == (4, 4)


def test_sparks_procedure_tells_its_partitions_too(lake: Lake) -> None:
    table = lake.create(partitioned_by="id")
    for _ in range(2):
        lake.append(table, "SELECT id, 'v' || id FROM range(20)")
    seen: list[Progress] = []
    one_by_one = {"max-concurrent-file-group-rewrites": "1"}
    action = Compact(rewrite_all=True, engine=RewriteEngine.SPARK, options=one_by_one)
    record = lake.run(table, action, progress=seen.append)
    assert record.state is RunState.SUCCEEDED, record.message
    paths = {path for progress in seen for path in progress.working_on}
    assert paths <= {f"id={number}" for number in range(20)}
