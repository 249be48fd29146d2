"""Cancellation leaves the table unchanged or the action complete, and the record says which."""

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
from icepack.engine.actions import expire_snapshots, orphan_files, statistics
from icepack.engine.java import iceberg_actions
from icepack.errors import CommitConflict, EngineFault

from .lake import Lake, OccupiedTaskSlots, create_orphan_file, list_files

GROUPS = 40
ONE_BY_ONE = {"max-concurrent-file-group-rewrites": "1"}


@pytest.fixture(scope="module")
def many_groups(lake: Lake) -> TableId:
    """A table with enough file groups that compacting them one by one takes a while."""
    table = lake.create(hint="many", partitioned_by="id")
    for _ in range(2):
        lake.append(table, f"SELECT id, 'v' || id FROM range({GROUPS})")
    return table


def active_jobs(lake: Lake) -> list[int]:
    return list(lake.spark.sparkContext.statusTracker().getActiveJobsIds())


def test_a_cancelled_compaction_leaves_the_table_unchanged(lake: Lake, many_groups: TableId) -> None:
    cancel, reported = threading.Event(), []

    def cancel_immediately(progress: Progress) -> None:
        reported.append(progress)
        cancel.set()

    head, rows = lake.current_snapshot_id(many_groups), lake.main_rows(many_groups)
    action = Compact(rewrite_all=True, options=ONE_BY_ONE)
    record = lake.run(many_groups, action, cancel=cancel, progress=cancel_immediately)
    assert record.state is RunState.CANCELLED, record.message
    assert (len(reported), record.commits, record.attempts) == (1, (), 1)
    assert lake.current_snapshot_id(many_groups) == head
    assert lake.main_rows(many_groups) == rows
    assert active_jobs(lake) == []
    assert not [path for path in list_files(lake.table_folder(many_groups)) if path.name.startswith("icepack-")]


def test_a_cancelled_compaction_can_be_run_again(lake: Lake, many_groups: TableId) -> None:
    rows = lake.main_rows(many_groups)
    record = lake.run(many_groups, Compact(rewrite_all=True, partition_filter="id < 2"))
    assert (record.state, record.effect.files_added) == (RunState.SUCCEEDED, 2)
    assert lake.main_rows(many_groups) == rows


def test_a_run_cancelled_between_two_commits_has_failed(lake: Lake, many_groups: TableId) -> None:
    """With partial progress the earlier commits remain."""
    cancel = threading.Event()
    before = lake.status(many_groups).snapshots.count

    def cancel_after_a_commit(_: Progress) -> None:
        if len(lake.catalogs.load(many_groups).metadata.snapshots) > before:
            cancel.set()

    rows = lake.main_rows(many_groups)
    options = {**ONE_BY_ONE, "partial-progress.max-commits": str(GROUPS)}
    action = Compact(rewrite_all=True, partial_progress=True, options=options)
    record = lake.run(many_groups, action, cancel=cancel, progress=cancel_after_a_commit)
    assert cancel.is_set()
    assert record.state is RunState.FAILED, "neither succeeded nor cancelled"
    assert 0 < len(record.commits) < GROUPS
    assert len(record.proofs) == len(record.commits)
    assert lake.main_rows(many_groups) == rows
    assert active_jobs(lake) == []


def test_partial_progress_that_stops_before_its_first_commit_is_cancelled(lake: Lake, many_groups: TableId) -> None:
    cancel = threading.Event()
    head = lake.current_snapshot_id(many_groups)
    options = {**ONE_BY_ONE, "partial-progress.max-commits": "1"}
    action = Compact(rewrite_all=True, partial_progress=True, options=options)
    record = lake.run(many_groups, action, cancel=cancel, progress=lambda _: cancel.set())
    if record.commits:
        assert record.state is RunState.FAILED
    else:
        assert (record.state, lake.current_snapshot_id(many_groups)) == (RunState.CANCELLED, head)


def test_other_jobs_of_the_session_keep_running(lake: Lake, many_groups: TableId, tmp_path: Path) -> None:
    cancel = threading.Event()
    with OccupiedTaskSlots(lake, tmp_path / "slots", slots=1) as other:
        record = lake.run(
            many_groups, Compact(rewrite_all=True, options=ONE_BY_ONE), cancel=cancel, progress=lambda _: cancel.set()
        )
        assert other.is_occupied, "the other job should have outlasted the cancelled one"
    assert record.state is RunState.CANCELLED, record.message


def test_a_run_can_be_cancelled_before_it_starts(lake: Lake, many_groups: TableId) -> None:
    cancel = threading.Event()
    cancel.set()
    record = lake.run(many_groups, Compact(rewrite_all=True), cancel=cancel)
    assert (record.state, record.commits) == (RunState.CANCELLED, ())


def test_a_run_can_be_cancelled_between_two_attempts(lake: Lake, many_groups: TableId) -> None:
    class SetByWaiting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            self.set()
            return True

    class ConflictingEngine:
        can_stamp = True

        def run(self, *_: Any) -> Any:
            raise CommitConflict("Lost.")

    dependencies = lake.with_dependencies(engine=ConflictingEngine())
    record = lake.run(many_groups, Compact(rewrite_all=True), cancel=SetByWaiting(), dependencies=dependencies)
    assert (record.state, record.attempts) == (RunState.CANCELLED, 1)


def test_a_commit_before_the_cancellation_is_a_success(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dangling deletes are postponed to the next run, but the compaction is complete."""
    table = lake.create()
    lake.append_numbers(table, files=2)
    cancel = threading.Event()
    add_stamp = iceberg_actions.add_stamp

    class CancelsAfterExecution:
        def __init__(self, java_action: Any) -> None:
            self.java_action = java_action

        def execute(self) -> Any:
            result = self.java_action.execute()
            cancel.set()
            return result

    monkeypatch.setattr(
        iceberg_actions, "add_stamp", lambda action, context: CancelsAfterExecution(add_stamp(action, context))
    )
    action = Compact(rewrite_all=True, delete_file_threshold=1, engine=RewriteEngine.SPARK)
    record = lake.run(table, action, cancel=cancel)
    assert (record.state, len(record.commits)) == (RunState.SUCCEEDED, 1)


def cancel_in(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, cancel: threading.Event, fails: bool) -> None:
    """Sets the event when the function is called, and raises the error of a cancelled Spark job if `fails`."""
    real: Callable[..., Any] = getattr(module, name)

    def cancelling(*args: Any) -> Any:
        cancel.set()
        if fails:
            raise EngineFault("Job 7 cancelled")
        return real(*args)

    monkeypatch.setattr(module, name, cancelling)


def test_an_expiry_cancelled_after_its_commit_has_failed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create()
    lake.append_numbers(table, files=3)
    cancel = threading.Event()
    cancel_in(monkeypatch, expire_snapshots, "drain_paths", cancel, fails=True)
    record = lake.run(table, ExpireSnapshots(older_than=timedelta(0)), cancel=cancel)
    assert record.state is RunState.FAILED
    assert "part of the work" in record.message
    assert len(lake.main_rows(table)) == 30


def test_an_expiry_cancelled_before_its_commit_is_cancelled(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create()
    lake.append_numbers(table, files=2)
    cancel = threading.Event()
    cancel_in(monkeypatch, expire_snapshots, "create_path_collector", cancel, fails=True)
    record = lake.run(table, ExpireSnapshots(older_than=timedelta(0)), cancel=cancel)
    assert record.state is RunState.CANCELLED
    assert lake.status(table).snapshots.count == 2


def test_orphan_files_are_kept_if_the_run_is_cancelled(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create()
    lake.append_numbers(table, files=2)
    orphan = create_orphan_file(lake.table_folder(table) / "data")
    cancel = threading.Event()
    cancel_in(monkeypatch, orphan_files, "check_limits", cancel, fails=False)
    record = lake.run(table, RemoveOrphanFiles(), cancel=cancel)
    assert record.state is RunState.CANCELLED
    assert orphan.exists()


def test_rewriting_manifests_can_be_cancelled_between_two_specs(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create(properties={"commit.manifest-merge.enabled": "false"})
    lake.append_numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    lake.append_numbers(table, files=2)
    cancel = threading.Event()
    add_stamp = iceberg_actions.add_stamp

    def cancel_and_add_stamp(java_action: Any, context: RunContext) -> Any:
        cancel.set()
        return add_stamp(java_action, context)

    monkeypatch.setattr(iceberg_actions, "add_stamp", cancel_and_add_stamp)
    monkeypatch.setattr(type(lake.sessions), "_monitor", lambda *_: None)
    record = lake.run(table, RewriteManifests(), cancel=cancel)
    assert (record.state, len(record.commits), len(record.proofs)) == (RunState.FAILED, 1, 2)
    assert "part of the work" in record.message
    assert len(lake.main_rows(table)) == 40


def test_a_cancelled_run_has_failed_if_statistics_were_written(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create(partitioned_by="bucket(2, id)")
    lake.append_numbers(table, files=2)
    cancel = threading.Event()
    cancel_in(monkeypatch, statistics, "_is_partitioned", cancel, fails=True)
    record = lake.run(table, ComputeStats(partition_stats=True), cancel=cancel)
    assert record.state is RunState.FAILED
    assert lake.status(table).metadata.statistics_snapshot_ids


def test_a_failing_progress_callback_does_not_stop_the_run(lake: Lake, many_groups: TableId) -> None:
    def fail(_: Progress) -> None:
        raise BrokenPipeError("no reader")

    record = lake.run(many_groups, Compact(rewrite_all=True), progress=fail)
    assert (record.state, len(record.commits)) == (RunState.SUCCEEDED, 1)
