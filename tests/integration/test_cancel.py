"""Stopping: the table is untouched or complete, and the record says which."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from icepack.domain.actions import (
    Compact,
    ComputeStats,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteEngine,
    RewriteManifests,
)
from icepack.domain.ports.engine import Progress, RunContext
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.engine import spark
from icepack.engine.actions import orphan_files
from icepack.errors import CommitConflict, EngineFault

from .lakes import Lake, Occupied, files_below, stray

GROUPS = 40
ONE_BY_ONE = {"max-concurrent-file-group-rewrites": "1"}


@pytest.fixture(scope="module")
def many_groups(lake: Lake) -> TableId:
    """Enough file groups that a compaction one by one takes a while."""
    table = lake.create(hint="many", partitioned_by="id")
    for _ in range(2):
        lake.append(table, f"SELECT id, 'v' || id FROM range({GROUPS})")
    return table


def active_jobs(lake: Lake) -> list[int]:
    return list(lake.spark.sparkContext.statusTracker().getActiveJobsIds())


def test_a_compaction_stopped_on_its_way_leaves_the_table_untouched(lake: Lake, many_groups: TableId) -> None:
    cancel, told = threading.Event(), []

    def stop_at_once(progress: Progress) -> None:
        told.append(progress)
        cancel.set()

    head, rows = lake.head(many_groups), lake.main(many_groups)
    action = Compact(rewrite_all=True, options=ONE_BY_ONE)
    record = lake.run(many_groups, action, cancel=cancel, progress=stop_at_once)
    assert record.state is RunState.CANCELLED, record.message
    assert (len(told), record.commits, record.attempts) == (1, (), 1)
    assert lake.head(many_groups) == head
    assert lake.main(many_groups) == rows
    assert active_jobs(lake) == []
    assert not [path for path in files_below(lake.place(many_groups)) if path.name.startswith("icepack-")]


def test_it_can_be_run_again_afterwards(lake: Lake, many_groups: TableId) -> None:
    rows = lake.main(many_groups)
    record = lake.run(many_groups, Compact(rewrite_all=True, partition_filter="id < 2"))
    assert (record.state, record.effect.files_added) == (RunState.SUCCEEDED, 2)
    assert lake.main(many_groups) == rows


def test_stopped_in_the_middle_of_its_commits_it_is_no_cancellation(lake: Lake, many_groups: TableId) -> None:
    """With partial progress part of it is committed by then, and stays."""
    cancel = threading.Event()
    before = lake.status(many_groups).snapshots.count

    def stop_after_a_commit(_: Progress) -> None:
        if len(lake.catalogs.load(many_groups).metadata.snapshots) > before:
            cancel.set()

    rows = lake.main(many_groups)
    options = {**ONE_BY_ONE, "partial-progress.max-commits": str(GROUPS)}
    action = Compact(rewrite_all=True, partial_progress=True, options=options)
    record = lake.run(many_groups, action, cancel=cancel, progress=stop_after_a_commit)
    assert cancel.is_set()
    assert record.state is RunState.FAILED, "neither done nor cancelled"
    assert 0 < len(record.commits) < GROUPS
    assert len(record.proofs) == len(record.commits)
    assert lake.main(many_groups) == rows
    assert active_jobs(lake) == []


def test_partial_progress_stopped_before_its_first_commit_is_cancelled(lake: Lake, many_groups: TableId) -> None:
    cancel = threading.Event()
    head = lake.head(many_groups)
    options = {**ONE_BY_ONE, "partial-progress.max-commits": "1"}
    action = Compact(rewrite_all=True, partial_progress=True, options=options)
    record = lake.run(many_groups, action, cancel=cancel, progress=lambda _: cancel.set())
    if record.commits:
        assert record.state is RunState.FAILED
    else:
        assert (record.state, lake.head(many_groups)) == (RunState.CANCELLED, head)


def test_other_jobs_of_the_session_are_left_running(lake: Lake, many_groups: TableId, tmp_path: Path) -> None:
    cancel = threading.Event()
    with Occupied(lake, tmp_path / "slots", slots=1) as other:
        record = lake.run(
            many_groups, Compact(rewrite_all=True, options=ONE_BY_ONE), cancel=cancel, progress=lambda _: cancel.set()
        )
        assert other.is_held, "the other job should have outlasted the cancelled one"
    assert record.state is RunState.CANCELLED, record.message


def test_stopped_before_it_began(lake: Lake, many_groups: TableId) -> None:
    cancel = threading.Event()
    cancel.set()
    record = lake.run(many_groups, Compact(rewrite_all=True), cancel=cancel)
    assert (record.state, record.commits) == (RunState.CANCELLED, ())


def test_stopped_while_it_waits_for_another_attempt(lake: Lake, many_groups: TableId) -> None:
    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            self.set()
            return True

    class Losing:
        can_stamp = True

        def run(self, *_: Any) -> Any:
            raise CommitConflict("Lost.")

    tools = lake.with_tools(engine=Losing())
    record = lake.run(many_groups, Compact(rewrite_all=True), cancel=Impatient(), tools=tools)
    assert (record.state, record.attempts) == (RunState.CANCELLED, 1)


def test_a_commit_that_was_made_before_the_stop_is_a_success(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dangling deletes are left for the next run; the compaction is complete."""
    table = lake.create()
    lake.numbers(table, files=2)
    cancel = threading.Event()
    stamp = spark._stamp

    class Stopping:
        def __init__(self, java_action: Any) -> None:
            self.java_action = java_action

        def execute(self) -> Any:
            result = self.java_action.execute()
            cancel.set()
            return result

    monkeypatch.setattr(spark, "_stamp", lambda action, context: Stopping(stamp(action, context)))
    action = Compact(rewrite_all=True, delete_file_threshold=1, engine=RewriteEngine.SPARK)
    record = lake.run(table, action, cancel=cancel)
    assert (record.state, len(record.commits)) == (RunState.SUCCEEDED, 1)


def stop_in(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, cancel: threading.Event, fault: bool) -> None:
    """Sets the event when the function is called, and lets it fail as Spark's cancelled jobs do."""
    real: Callable[..., Any] = getattr(module, name)

    def stopping(*args: Any) -> Any:
        cancel.set()
        if fault:
            raise EngineFault("Job 7 cancelled")
        return real(*args)

    monkeypatch.setattr(module, name, stopping)


def test_an_expiry_stopped_after_its_commit_is_no_cancellation(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create()
    lake.numbers(table, files=3)
    cancel = threading.Event()
    stop_in(monkeypatch, spark, "drain", cancel, fault=True)
    record = lake.run(table, ExpireSnapshots(older_than=timedelta(0)), cancel=cancel)
    assert record.state is RunState.FAILED
    assert "part of the work" in record.message
    assert len(lake.main(table)) == 30


def test_an_expiry_stopped_before_its_commit_is_cancelled(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create()
    lake.numbers(table, files=2)
    cancel = threading.Event()
    stop_in(monkeypatch, spark, "collector", cancel, fault=True)
    record = lake.run(table, ExpireSnapshots(older_than=timedelta(0)), cancel=cancel)
    assert record.state is RunState.CANCELLED
    assert lake.status(table).snapshots.count == 2


def test_orphans_found_when_it_is_stopped_are_kept(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create()
    lake.numbers(table, files=2)
    litter = stray(lake.place(table) / "data")
    cancel = threading.Event()
    stop_in(monkeypatch, orphan_files, "check_caps", cancel, fault=False)
    record = lake.run(table, RemoveOrphanFiles(), cancel=cancel)
    assert record.state is RunState.CANCELLED
    assert litter.exists()


def test_manifests_stopped_between_two_specs(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create(properties={"commit.manifest-merge.enabled": "false"})
    lake.numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    lake.numbers(table, files=2)
    cancel = threading.Event()
    stamp = spark._stamp

    def stop(java_action: Any, context: RunContext) -> Any:
        cancel.set()
        return stamp(java_action, context)

    monkeypatch.setattr(spark, "_stamp", stop)
    monkeypatch.setattr(type(lake.sessions), "_attend", lambda *_: None)
    record = lake.run(table, RewriteManifests(), cancel=cancel)
    assert (record.state, len(record.commits), len(record.proofs)) == (RunState.FAILED, 1, 2)
    assert "part of the work" in record.message
    assert len(lake.main(table)) == 40


def test_statistics_written_before_the_stop_are_told(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create(partitioned_by="bucket(2, id)")
    lake.numbers(table, files=2)
    cancel = threading.Event()
    stop_in(monkeypatch, spark, "_is_partitioned", cancel, fault=True)
    record = lake.run(table, ComputeStats(partition_stats=True), cancel=cancel)
    assert record.state is RunState.FAILED
    assert lake.status(table).metadata.statistics_snapshot_ids


def test_a_watcher_that_fails_stops_nothing(lake: Lake, many_groups: TableId) -> None:
    def fail(_: Progress) -> None:
        raise BrokenPipeError("nobody listens")

    record = lake.run(many_groups, Compact(rewrite_all=True), progress=fail)
    assert (record.state, len(record.commits)) == (RunState.SUCCEEDED, 1)
