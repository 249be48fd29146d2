"""Failed, cancelled and interrupted runs of the native rewrite lose no row and leave no file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.engine.native import compaction
from icepack.engine.native.java_rewrite import JavaRewrite
from icepack.errors import Cancelled
from icepack.kernel.executor import TaskAssignment, TaskResult
from icepack.kernel.task import ATTEMPT_PLACEHOLDER

from .lake import Lake, to_local_path
from .native_runs import (
    REWRITE_ALL,
    ConcurrentChange,
    create_two_groups,
    group_details,
    rows_with_ids,
    unreferenced_files,
)

# Java exceptions by what they say about the commit: its state is unknown, it failed, or nothing.
UNKNOWN, CLEAN, NEITHER = "unknown", "clean", "neither"


@pytest.fixture
def table(lake: Lake) -> TableId:
    table = lake.create()
    lake.append_numbers(table, files=3, rows=4)
    return table


@pytest.fixture
def halves(lake: Lake) -> TableId:
    return create_two_groups(lake)


class TestFailures:
    def test_a_commit_of_unknown_state_keeps_the_outputs_and_is_found_by_its_stamp(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The response was lost, but the snapshot exists and has all rows."""
        throw_after_commit(monkeypatch, UNKNOWN, lake)
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 1, 1), record.message
        assert "found by its stamp" in (record.details or {})["commit"]
        assert lake.main_rows(table) == rows_with_ids(*range(12))

    def test_a_failure_that_is_not_clean_is_treated_as_unknown(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The commit succeeded although the error does not say so: deleting the outputs would delete rows."""
        throw_after_commit(monkeypatch, NEITHER, lake)
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 1, 1), record.message
        assert lake.main_rows(table) == rows_with_ids(*range(12))

    @pytest.mark.parametrize("failure", [KeyboardInterrupt, ConnectionResetError])
    def test_an_interrupted_commit_keeps_its_outputs(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
    ) -> None:
        def commit_then_fail(prepared: Any) -> None:
            prepared.commit()
            raise failure

        replace_commit(monkeypatch, commit_then_fail)
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, len(record.commits)) == (RunState.SUCCEEDED, 1), record.message
        assert lake.main_rows(table) == rows_with_ids(*range(12))

    def test_a_failed_commit_of_unknown_state_leaves_orphan_files(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failed: list[bool] = []

        def fail_once(prepared: Any) -> None:
            if not failed:
                failed.append(True)
                throw(lake, UNKNOWN)
            prepared.commit()

        replace_commit(monkeypatch, fail_once)
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 2, 1), record.message
        assert lake.main_rows(table) == rows_with_ids(*range(12))
        assert len(unreferenced_files(lake, table)) == 1, (
            "the output of the first attempt, which orphan file removal will find"
        )

    def test_a_clean_failure_deletes_the_outputs(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        replace_commit(monkeypatch, lambda _: throw(lake, CLEAN))
        head = lake.current_snapshot_id(table)
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.commits, record.attempts) == (RunState.FAILED, (), 1)
        assert lake.current_snapshot_id(table) == head
        assert not unreferenced_files(lake, table)

    def test_a_run_cancelled_before_the_commit_leaves_no_files(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cancel = threading.Event()
        concurrent = ConcurrentChange(monkeypatch, cancel.set)
        head = lake.current_snapshot_id(table)
        record = lake.run(table, REWRITE_ALL, cancel=cancel)
        assert (record.state, record.commits, lake.current_snapshot_id(table)) == (RunState.CANCELLED, (), head)
        assert concurrent.outputs
        assert not unreferenced_files(lake, table)

    def test_a_claim_lost_before_the_commit_leaves_no_files(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lost: list[bool] = []

        def confirm_ownership() -> None:
            if lost:
                raise Cancelled("The job belongs to another worker.")

        ConcurrentChange(monkeypatch, lambda: lost.append(True))
        record = lake.run(table, REWRITE_ALL, confirm_ownership=confirm_ownership)
        assert (record.commits, lost) == ((), [True]), record.message
        assert not unreferenced_files(lake, table)

    def test_a_group_with_a_failed_task_falls_back_to_spark_and_leaves_no_files(
        self, lake: Lake, halves: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fail_tasks(monkeypatch, lambda task: task.group == 1)
        before = lake.main_rows(halves)
        record = lake.run(halves, REWRITE_ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert [group["engine"] for group in group_details(record)] == ["native", "spark"]
        assert record.value_proof is not None
        (failure,) = record.value_proof.failures
        assert failure.error in group_details(record)[1]["why"]
        assert "\n" not in failure.error
        assert lake.main_rows(halves) == before
        assert not unreferenced_files(lake, halves)

    def test_a_retried_task_leaves_no_file_of_its_failed_attempt(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Simulates a retry, which a local master does not make: the first attempt leaves a file behind."""
        run_tasks, leftover = compaction.run_tasks, []

        def run_twice(spark: Any, tasks: Sequence[TaskAssignment], *rest: Any) -> list[TaskResult]:
            first = run_tasks(spark, tasks, *rest)
            leftover.extend(file.path for result in first if result.written for file in result.written.files)
            second = [replace(task, task=replace(task.task, outputs=second_outputs(task))) for task in tasks]
            return [replace(result, attempt=1) for result in run_tasks(spark, second, *rest)]

        monkeypatch.setattr(compaction, "run_tasks", run_twice)
        record = lake.run(table, REWRITE_ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert [to_local_path(path).exists() for path in leftover] == [False]
        assert lake.main_rows(table) == rows_with_ids(*range(12))
        assert not unreferenced_files(lake, table)

    @pytest.mark.parametrize("change", [{"rows_in": 11}, {"rows_dropped": 1}])
    def test_wrong_row_counts_are_never_committed(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch, change: dict[str, int]
    ) -> None:
        run_tasks = compaction.run_tasks

        def miscount(*args: Any) -> list[TaskResult]:
            return [
                replace(result, written=replace(result.written, **change)) if result.written else result
                for result in run_tasks(*args)
            ]

        monkeypatch.setattr(compaction, "run_tasks", miscount)
        head = lake.current_snapshot_id(table)
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.commits, record.attempts) == (RunState.FAILED, (), 1)
        assert "Nothing was committed" in record.message
        assert not record.retryable
        assert lake.current_snapshot_id(table) == head
        assert not unreferenced_files(lake, table)

    def test_a_row_missing_from_an_input_is_detected(self, lake: Lake, table: TableId) -> None:
        """The manifest has a count of four rows, the file has three."""
        (path, *_) = [to_local_path(row["file_path"]) for row in lake.metadata(table, "files")]
        pq.write_table(pq.read_table(path).slice(0, 3), path)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.commits) == (RunState.FAILED, ())
        assert not unreferenced_files(lake, table)

    def test_a_failing_progress_callback_does_not_stop_the_run(self, lake: Lake, table: TableId) -> None:
        def fail(_: object) -> None:
            raise BrokenPipeError("no reader")

        record = lake.run(table, REWRITE_ALL, progress=fail)
        assert (record.state, len(record.commits)) == (RunState.SUCCEEDED, 1), record.message

    def test_progress_reports_files_and_bytes(self, lake: Lake, halves: TableId) -> None:
        reported: list[Any] = []
        size = sum(row["file_size_in_bytes"] for row in lake.metadata(halves, "files"))
        lake.run(halves, REWRITE_ALL, progress=reported.append)
        assert (reported[-1].files, reported[-1].bytes_read, reported[-1].groups) == (4, size, 2)
        assert [progress.done for progress in reported] == sorted(progress.done for progress in reported)


def replace_commit(monkeypatch: pytest.MonkeyPatch, commit: Callable[[Any], None]) -> None:
    """Calls `commit` with Iceberg's RewriteFiles object instead of committing it."""
    commit_prepared = JavaRewrite._commit_prepared

    class Prepared:
        def __init__(self, prepared: Any) -> None:
            self.prepared = prepared

        def commit(self) -> None:
            commit(self.prepared)

    monkeypatch.setattr(
        JavaRewrite, "_commit_prepared", lambda self, prepared: commit_prepared(self, Prepared(prepared))
    )


def throw_after_commit(monkeypatch: pytest.MonkeyPatch, exception: str, lake: Lake) -> None:
    def commit_then_throw(prepared: Any) -> None:
        prepared.commit()
        throw(lake, exception)

    replace_commit(monkeypatch, commit_then_throw)


def throw(lake: Lake, exception: str) -> None:
    """Throws a Java exception, which Py4J converts."""
    java = lake.spark.sparkContext._jvm
    throwable = {
        UNKNOWN: lambda: lake.iceberg.exceptions.CommitStateUnknownException(java.java.lang.RuntimeException("broken")),
        CLEAN: lambda: lake.iceberg.exceptions.ForbiddenException("not yours", empty_array(lake)),
        NEITHER: lambda: java.java.lang.IllegalStateException("broken"),
    }[exception]()
    lake.iceberg.util.ExceptionUtil.castAndThrow(throwable, java.java.lang.Class.forName("java.lang.RuntimeException"))


def empty_array(lake: Lake) -> Any:
    context = lake.spark.sparkContext
    return context._gateway.new_array(context._jvm.java.lang.Object, 0)


def second_outputs(task: TaskAssignment) -> tuple[str, ...]:
    return tuple(output.replace(ATTEMPT_PLACEHOLDER, "1") for output in task.task.outputs)


def fail_tasks(monkeypatch: pytest.MonkeyPatch, should_fail: Callable[[TaskAssignment], bool]) -> None:
    """Makes tasks fail by giving them wrong sizes of their inputs."""
    run_tasks = compaction.run_tasks

    def run_with_wrong_sizes(spark: Any, tasks: Sequence[TaskAssignment], *rest: Any) -> list[TaskResult]:
        return run_tasks(spark, [with_wrong_sizes(task) if should_fail(task) else task for task in tasks], *rest)

    def with_wrong_sizes(task: TaskAssignment) -> TaskAssignment:
        inputs = [replace(item, bytes=item.bytes - 1) for item in task.task.inputs]
        return replace(task, task=replace(task.task, inputs=tuple(inputs)))

    monkeypatch.setattr(compaction, "run_tasks", run_with_wrong_sizes)
