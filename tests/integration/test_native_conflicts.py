"""The native rewrite among other writers, failures and lost answers: what they did stays, and nothing lies about."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.ports.engine import RunContext
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine import spark
from icepack.engine.native import compaction, jvm
from icepack.errors import Cancelled
from icepack.kernel.executor import Answer, Assignment

from .lakes import Lake, equality_delete, files_below, local

ALL = Compact(rewrite_all=True)
UNKNOWN, CLEAN, NEITHER = "unknown", "clean", "neither"
"""Kinds of Java exceptions: Iceberg says that it does not know, that nothing landed, or nothing at all."""


class Meddler:
    """Does something after the files were rewritten and before they are committed, the first so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object], times: int = 1) -> None:
        self.done = 0
        self.outputs: list[str] = []
        run_tasks = compaction.run_tasks

        def meddle(*args: Any) -> list[Answer]:
            answers = run_tasks(*args)
            self.outputs += [file.path for answer in answers if answer.written for file in answer.written.files]
            if self.done < times:
                self.done += 1
                deed()
            return answers

        monkeypatch.setattr(compaction, "run_tasks", meddle)


@pytest.fixture
def table(lake: Lake) -> TableId:
    table = lake.create()
    lake.numbers(table, files=3, rows=4)
    return table


@pytest.fixture
def halves(lake: Lake) -> TableId:
    """Two groups: ids below and from 100."""
    table = lake.create(partitioned_by="truncate(100, id)")
    for _ in range(2):
        lake.append(table, "SELECT id, 'v' || id FROM range(0, 4)")
        lake.append(table, "SELECT id, 'v' || id FROM range(100, 104)")
    return table


def numbers(*ids: int) -> list[str]:
    return sorted(repr((id, f"v{id}")) for id in ids)


def is_native(lake: Lake, record: RunRecord) -> bool:
    return all(summary.get("icepack.engine") == "native" for summary in lake.summaries(record))


def litter(lake: Lake, table: TableId) -> set[Path]:
    """Files in the data folder that no snapshot has."""
    known = {local(row["file_path"]) for row in lake.metadata(table, "all_files")}
    return files_below(lake.place(table) / "data") - known


def ways(record: RunRecord) -> list[dict[str, Any]]:
    return [dict(group) for group in (record.details or {})["groups"]]


class TestOtherWritersWin:
    @pytest.mark.parametrize("version", [2, 3])
    @pytest.mark.parametrize("had_deletes", [False, True])
    def test_a_row_deleted_meanwhile_stays_deleted(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch, version: int, had_deletes: bool
    ) -> None:
        table = lake.create(version=version)
        lake.numbers(table, files=3, rows=4)
        gone = {5}
        if had_deletes:
            lake.sql(f"DELETE FROM {table} WHERE id = 6")
            gone.add(6)
        meddler = Meddler(monkeypatch, lambda: lake.sql(f"DELETE FROM {table} WHERE id = 5"))
        record = lake.run(table, ALL)
        assert (record.state, record.attempts, meddler.done) == (RunState.SUCCEEDED, 2, 1), record.message
        assert lake.main(table) == numbers(*set(range(12)) - gone)
        assert is_native(lake, record)
        (summary,) = lake.summaries(record)
        assert (summary["icepack.attempt"], summary["icepack.rows-dropped"]) == ("2", str(len(gone)))
        assert [proof.method for proof in record.proofs] == ["records and dropped rows"]
        assert lake.status(table).deletes.files == 0
        assert not litter(lake, table)

    def test_an_equality_delete_committed_meanwhile_still_applies(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Meddler(monkeypatch, lambda: equality_delete(lake, table, ["id"], [(5,)]))
        record = lake.run(table, ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 1), record.message
        assert is_native(lake, record)
        assert lake.main(table) == numbers(*set(range(12)) - {5})

    @pytest.mark.parametrize("engine", list(RewriteEngine))
    def test_an_equality_delete_that_iceberg_would_drop_is_not_lost(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch, engine: RewriteEngine
    ) -> None:
        """With a newer file beside it and all older ones rewritten, its row would come back."""

        def meddle(*_: Any) -> None:
            equality_delete(lake, table, ["id"], [(5,)])
            lake.append(table, "VALUES (100, 'v100')")

        if engine is RewriteEngine.NATIVE:
            Meddler(monkeypatch, meddle)
        else:
            between_spark_and_its_commit(monkeypatch, lake, meddle)
        record = lake.run(table, replace(ALL, engine=engine))
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert lake.main(table) == numbers(*set(range(12)) - {5}, 100)
        assert not litter(lake, table)

    def test_a_row_updated_meanwhile_by_copy_on_write_stays_updated(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')")
        Meddler(monkeypatch, lambda: lake.sql(f"UPDATE {table} SET v = 'new' WHERE id = 5"))
        record = lake.run(table, ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert "(5, 'new')" in lake.main(table)
        assert len(lake.main(table)) == 12
        assert not litter(lake, table)

    def test_inputs_that_another_compaction_took_leave_nothing_to_do(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = lake.main(table)
        Meddler(monkeypatch, lambda: compact_by_sql(lake, table))
        record = lake.run(table, Compact(min_input_files=2))
        assert (record.state, record.attempts, record.commits) == (RunState.SUCCEEDED, 2, ()), record.message
        assert record.changed_nothing
        assert lake.main(table) == rows
        assert not litter(lake, table)

    def test_inputs_that_are_gone_from_storage_leave_nothing_to_do(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Compacted and expired by another after planning: the tasks do not even find them."""
        rows = lake.main(table)
        run_tasks, done = compaction.run_tasks, list[Path]()

        def take_away(*args: Any) -> list[Answer]:
            if not done:
                done.extend(local(row["file_path"]) for row in lake.metadata(table, "files"))
                compact_by_sql(lake, table)
                lake.java(table).expireSnapshots().expireOlderThan(2**62).cleanExpiredFiles(False).commit()
                for path in done:
                    path.unlink()
            return run_tasks(*args)

        monkeypatch.setattr(compaction, "run_tasks", take_away)
        record = lake.run(table, Compact(min_input_files=2))
        assert (record.state, record.attempts, record.commits) == (RunState.SUCCEEDED, 2, ()), record.message
        assert lake.main(table) == rows
        assert not litter(lake, table)

    def test_after_the_last_attempt_it_fails_in_words(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = iter(range(12))
        meddler = Meddler(monkeypatch, lambda: lake.sql(f"DELETE FROM {table} WHERE id = {next(ids)}"), times=9)
        record = lake.run(table, ALL)
        assert (record.state, record.attempts, meddler.done) == (RunState.FAILED, 5, 5)
        assert "nother writer" in record.message
        assert "\n" not in record.message
        assert lake.main(table) == numbers(*range(5, 12))
        assert not litter(lake, table)


def between_spark_and_its_commit(monkeypatch: pytest.MonkeyPatch, lake: Lake, deed: Callable[[], object]) -> None:
    """The procedure has read its snapshot by the time that the action is executed: here it is told an older one."""
    execute, done = spark._stamp, list[bool]()

    def meddle(java_action: Any, context: RunContext) -> Any:
        if not done:
            done.append(True)
            deed()
        return execute(java_action, context)

    monkeypatch.setattr(spark, "_stamp", meddle)


def compact_by_sql(lake: Lake, table: TableId) -> None:
    lake.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table.short}', options => map('min-input-files', '2'))"
    ).collect()


class TestOtherWritersInBetween:
    @pytest.mark.parametrize("deletes", [False, True])
    def test_an_append_is_no_conflict_and_the_proof_holds(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch, deletes: bool
    ) -> None:
        if deletes:
            lake.sql(f"DELETE FROM {table} WHERE id = 5")
        Meddler(monkeypatch, lambda: lake.append(table, "VALUES (100, 'late')"))
        record = lake.run(table, ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 1), record.message
        (proof,) = record.proofs
        assert (proof.method, proof.rows_before) == ("records and dropped rows" if deletes else "records", 12)
        assert "(100, 'late')" in lake.main(table)
        assert len(lake.main(table)) == (12 if deletes else 13)
        assert record.effect.files_rewritten == 3, "the other writer's file is none of ours"

    def test_what_is_still_valid_is_committed_and_the_rest_planned_again(
        self, lake: Lake, halves: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        meddler = Meddler(monkeypatch, lambda: lake.sql(f"DELETE FROM {halves} WHERE id = 101"))
        action = Compact(min_input_files=2, delete_file_threshold=1)
        record = lake.run(halves, action)
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 2, 2), record.message
        first, second = lake.summaries(record)
        assert (first["icepack.part"], first["deleted-data-files"]) == ("1 of 2 groups", "2")
        assert ("icepack.part" in second, second["deleted-data-files"]) == (False, "2")
        assert (first["icepack.attempt"], second["icepack.attempt"]) == ("1", "2")
        assert lake.main(halves) == sorted(numbers(*range(4), *range(4), 100, 100, 102, 102, 103, 103))
        assert len(meddler.outputs) == 3, "what was still valid was not written twice"
        assert [proof.holds for proof in record.proofs] == [True, True]
        assert not litter(lake, halves)

    def test_a_group_that_only_gained_an_equality_delete_is_kept(
        self, lake: Lake, halves: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def meddle() -> None:
            equality_delete(lake, halves, ["id"], [(2,)], partition="id_trunc=0")
            lake.sql(f"DELETE FROM {halves} WHERE id = 101")

        Meddler(monkeypatch, meddle)
        record = lake.run(halves, ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert lake.summaries(record)[0]["icepack.part"] == "1 of 2 groups"
        assert lake.main(halves) == sorted(numbers(0, 0, 1, 1, 3, 3, 100, 100, 102, 102, 103, 103))

    def test_batches_that_were_committed_stay(
        self, lake: Lake, halves: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With partial progress the first batch is committed before the second is even read."""
        heads: list[int] = []

        def meddle() -> None:
            heads.append(lake.head(halves))
            lake.sql(f"DELETE FROM {halves} WHERE id = {101 if len(heads) == 2 else 999}")

        Meddler(monkeypatch, meddle, times=2)
        record = lake.run(halves, Compact(min_input_files=2, partial_progress=True))
        assert record.state is RunState.SUCCEEDED, record.message
        assert heads[1] == record.commits[0]
        assert len(record.commits) == 2
        assert lake.main(halves) == sorted(numbers(*range(4), *range(4), 100, 100, 102, 102, 103, 103))
        assert not litter(lake, halves)


class TestFaults:
    def test_a_commit_of_unknown_outcome_keeps_the_outputs_and_is_found_by_its_stamp(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The answer was lost; the snapshot is there, and with it every row."""
        after_commit(monkeypatch, UNKNOWN, lake)
        record = lake.run(table, ALL)
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 1, 1), record.message
        assert "found by its stamp" in (record.details or {})["commit"]
        assert lake.main(table) == numbers(*range(12))

    def test_a_failure_that_iceberg_does_not_call_clean_is_taken_for_unknown(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It says nothing of a commit, and yet there was one: deleting the outputs would delete the table."""
        after_commit(monkeypatch, NEITHER, lake)
        record = lake.run(table, ALL)
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 1, 1), record.message
        assert lake.main(table) == numbers(*range(12))

    @pytest.mark.parametrize("failure", [KeyboardInterrupt, ConnectionResetError])
    def test_a_commit_whose_answer_nobody_waited_for_keeps_its_outputs(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
    ) -> None:
        def leave(prepared: Any) -> None:
            prepared.commit()
            raise failure

        in_place_of_commit(monkeypatch, leave)
        record = lake.run(table, ALL)
        assert (record.state, len(record.commits)) == (RunState.SUCCEEDED, 1), record.message
        assert lake.main(table) == numbers(*range(12))

    def test_an_unknown_outcome_that_did_not_land_leaves_orphans_rather_than_holes(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failed: list[bool] = []

        def refuse_once(prepared: Any) -> None:
            if not failed:
                failed.append(True)
                throw(lake, UNKNOWN)
            prepared.commit()

        in_place_of_commit(monkeypatch, refuse_once)
        record = lake.run(table, ALL)
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 2, 1), record.message
        assert lake.main(table) == numbers(*range(12))
        assert len(litter(lake, table)) == 1, "of the first attempt, for orphan removal to find"

    def test_a_clean_failure_removes_the_outputs(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        in_place_of_commit(monkeypatch, lambda _: throw(lake, CLEAN))
        head = lake.head(table)
        record = lake.run(table, ALL)
        assert (record.state, record.commits, record.attempts) == (RunState.FAILED, (), 1)
        assert lake.head(table) == head
        assert not litter(lake, table)

    def test_cancelled_before_the_commit_it_leaves_nothing(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cancel = threading.Event()
        meddler = Meddler(monkeypatch, cancel.set)
        head = lake.head(table)
        record = lake.run(table, ALL, cancel=cancel)
        assert (record.state, record.commits, lake.head(table)) == (RunState.CANCELLED, (), head)
        assert meddler.outputs
        assert not litter(lake, table)

    def test_a_claim_lost_before_the_commit_leaves_nothing(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lost: list[bool] = []

        def still_mine() -> None:
            if lost:
                raise Cancelled("The job is another worker's now.")

        Meddler(monkeypatch, lambda: lost.append(True))
        record = lake.run(table, ALL, still_mine=still_mine)
        assert (record.commits, lost) == ((), [True]), record.message
        assert not litter(lake, table)

    def test_a_task_that_fails_sends_its_group_to_spark_and_leaves_nothing_behind(
        self, lake: Lake, halves: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spoil_inputs(monkeypatch, lambda task: task.group == 1)
        before = lake.main(halves)
        record = lake.run(halves, ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert [way["engine"] for way in ways(record)] == ["native", "spark"]
        assert record.value_proof is not None
        (failure,) = record.value_proof.failures
        assert failure.error in ways(record)[1]["why"]
        assert "\n" not in failure.error
        assert lake.main(halves) == before
        assert not litter(lake, halves)

    def test_a_task_tried_again_leaves_no_file_of_its_failed_attempt(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Spark retries elsewhere than on one machine: here the second attempt answers, the first left its file."""
        run_tasks, left = compaction.run_tasks, []

        def twice(spark: Any, tasks: Sequence[Assignment], *rest: Any) -> list[Answer]:
            first = run_tasks(spark, tasks, *rest)
            left.extend(file.path for answer in first if answer.written for file in answer.written.files)
            again = [replace(task, task=replace(task.task, outputs=renamed(task.task.outputs))) for task in tasks]
            return [replace(answer, attempt=1) for answer in run_tasks(spark, again, *rest)]

        monkeypatch.setattr(compaction, "run_tasks", twice)
        record = lake.run(table, ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert [local(path).exists() for path in left] == [False]
        assert lake.main(table) == numbers(*range(12))
        assert not litter(lake, table)

    @pytest.mark.parametrize("change", [{"rows_in": 11}, {"rows_dropped": 1}])
    def test_rows_that_do_not_add_up_are_never_committed(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch, change: dict[str, int]
    ) -> None:
        run_tasks = compaction.run_tasks

        def miscount(*args: Any) -> list[Answer]:
            return [
                replace(answer, written=replace(answer.written, **change)) if answer.written else answer
                for answer in run_tasks(*args)
            ]

        monkeypatch.setattr(compaction, "run_tasks", miscount)
        head = lake.head(table)
        record = lake.run(table, ALL)
        assert (record.state, record.commits, record.attempts) == (RunState.FAILED, (), 1)
        assert "Nothing was committed" in record.message
        assert not record.retryable
        assert lake.head(table) == head
        assert not litter(lake, table)

    def test_a_row_that_an_input_lost_is_noticed(self, lake: Lake, table: TableId) -> None:
        """The manifest says four rows, the file has three."""
        (path, *_) = [local(row["file_path"]) for row in lake.metadata(table, "files")]
        pq.write_table(pq.read_table(path).slice(0, 3), path)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        record = lake.run(table, ALL)
        assert (record.state, record.commits) == (RunState.FAILED, ())
        assert not litter(lake, table)

    def test_a_watcher_that_fails_stops_nothing(self, lake: Lake, table: TableId) -> None:
        def fail(_: object) -> None:
            raise BrokenPipeError("nobody listens")

        record = lake.run(table, ALL, progress=fail)
        assert (record.state, len(record.commits)) == (RunState.SUCCEEDED, 1), record.message

    def test_progress_tells_files_and_bytes(self, lake: Lake, halves: TableId) -> None:
        told: list[Any] = []
        size = sum(row["file_size_in_bytes"] for row in lake.metadata(halves, "files"))
        lake.run(halves, ALL, progress=told.append)
        assert (told[-1].files, told[-1].bytes_read, told[-1].groups) == (4, size, 2)
        assert [progress.done for progress in told] == sorted(progress.done for progress in told)


def in_place_of_commit(monkeypatch: pytest.MonkeyPatch, deed: Callable[[Any], None]) -> None:
    """`deed` gets Iceberg's own RewriteFiles, whose commit is then up to it."""
    land = jvm.JavaRewrite._land

    class Prepared:
        def __init__(self, prepared: Any) -> None:
            self.prepared = prepared

        def commit(self) -> None:
            deed(self.prepared)

    monkeypatch.setattr(jvm.JavaRewrite, "_land", lambda self, prepared: land(self, Prepared(prepared)))


def after_commit(monkeypatch: pytest.MonkeyPatch, exception: str, lake: Lake) -> None:
    def commit_then_throw(prepared: Any) -> None:
        prepared.commit()
        throw(lake, exception)

    in_place_of_commit(monkeypatch, commit_then_throw)


def throw(lake: Lake, exception: str) -> None:
    """A real Java exception, as Py4J brings it."""
    java = lake.spark.sparkContext._jvm
    made = {
        UNKNOWN: lambda: lake.iceberg.exceptions.CommitStateUnknownException(java.java.lang.RuntimeException("broken")),
        CLEAN: lambda: lake.iceberg.exceptions.ForbiddenException("not yours", empty_array(lake)),
        NEITHER: lambda: java.java.lang.IllegalStateException("broken"),
    }[exception]()
    lake.iceberg.util.ExceptionUtil.castAndThrow(made, java.java.lang.Class.forName("java.lang.RuntimeException"))


def empty_array(lake: Lake) -> Any:
    context = lake.spark.sparkContext
    return context._gateway.new_array(context._jvm.java.lang.Object, 0)


def renamed(outputs: Sequence[str]) -> tuple[str, ...]:
    return tuple(output.replace("ATTEMPT", "1") for output in outputs)


def spoil_inputs(monkeypatch: pytest.MonkeyPatch, wanted: Callable[[Assignment], bool]) -> None:
    """Tells some tasks a wrong size of their inputs, on which they fail."""
    run_tasks = compaction.run_tasks

    def spoil(spark: Any, tasks: Sequence[Assignment], *rest: Any) -> list[Answer]:
        return run_tasks(spark, [spoiled(task) if wanted(task) else task for task in tasks], *rest)

    def spoiled(task: Assignment) -> Assignment:
        inputs = [replace(item, bytes=item.bytes - 1) for item in task.task.inputs]
        return replace(task, task=replace(task.task, inputs=tuple(inputs)))

    monkeypatch.setattr(compaction, "run_tasks", spoil)
