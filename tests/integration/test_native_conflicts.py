"""Runs of the native rewrite with concurrent writers lose no change and leave no file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.ports.engine import RunContext
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine.java import iceberg_actions
from icepack.engine.native import compaction
from icepack.kernel.executor import TaskResult

from .lake import Lake, commit_equality_delete, to_local_path
from .native_runs import (
    REWRITE_ALL,
    ConcurrentChange,
    create_two_groups,
    rows_with_ids,
    unreferenced_files,
)


@pytest.fixture
def table(lake: Lake) -> TableId:
    table = lake.create()
    lake.append_numbers(table, files=3, rows=4)
    return table


@pytest.fixture
def halves(lake: Lake) -> TableId:
    return create_two_groups(lake)


def is_native(lake: Lake, record: RunRecord) -> bool:
    return all(summary.get("icepack.engine") == "native" for summary in lake.summaries(record))


class TestConflicts:
    @pytest.mark.parametrize("version", [2, 3])
    @pytest.mark.parametrize("had_deletes", [False, True])
    def test_a_row_deleted_during_the_rewrite_stays_deleted(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch, version: int, had_deletes: bool
    ) -> None:
        table = lake.create(version=version)
        lake.append_numbers(table, files=3, rows=4)
        deleted = {5}
        if had_deletes:
            lake.sql(f"DELETE FROM {table} WHERE id = 6")
            deleted.add(6)
        concurrent = ConcurrentChange(monkeypatch, lambda: lake.sql(f"DELETE FROM {table} WHERE id = 5"))
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.attempts, concurrent.done) == (RunState.SUCCEEDED, 2, 1), record.message
        assert lake.main_rows(table) == rows_with_ids(*set(range(12)) - deleted)
        assert is_native(lake, record)
        (summary,) = lake.summaries(record)
        assert (summary["icepack.attempt"], summary["icepack.rows-dropped"]) == ("2", str(len(deleted)))
        assert [proof.method for proof in record.proofs] == ["records and dropped rows"]
        assert lake.status(table).deletes.files == 0
        assert not unreferenced_files(lake, table)

    def test_an_equality_delete_committed_during_the_rewrite_still_applies(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ConcurrentChange(monkeypatch, lambda: commit_equality_delete(lake, table, ["id"], [(5,)]))
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 1), record.message
        assert is_native(lake, record)
        assert lake.main_rows(table) == rows_with_ids(*set(range(12)) - {5})

    @pytest.mark.parametrize("engine", list(RewriteEngine))
    def test_an_equality_delete_that_iceberg_would_drop_is_not_lost(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch, engine: RewriteEngine
    ) -> None:
        """With a newer data file and all older ones rewritten, Iceberg would drop it and its row would reappear."""

        def delete_and_append(*_: Any) -> None:
            commit_equality_delete(lake, table, ["id"], [(5,)])
            lake.append(table, "VALUES (100, 'v100')")

        if engine is RewriteEngine.NATIVE:
            ConcurrentChange(monkeypatch, delete_and_append)
        else:
            change_before_spark_commits(monkeypatch, delete_and_append)
        record = lake.run(table, replace(REWRITE_ALL, engine=engine))
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert lake.main_rows(table) == rows_with_ids(*set(range(12)) - {5}, 100)
        assert not unreferenced_files(lake, table)

    def test_a_row_updated_by_copy_on_write_during_the_rewrite_stays_updated(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')")
        ConcurrentChange(monkeypatch, lambda: lake.sql(f"UPDATE {table} SET v = 'new' WHERE id = 5"))
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert "(5, 'new')" in lake.main_rows(table)
        assert len(lake.main_rows(table)) == 12
        assert not unreferenced_files(lake, table)

    def test_inputs_that_another_compaction_replaced_leave_nothing_to_do(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = lake.main_rows(table)
        ConcurrentChange(monkeypatch, lambda: compact_by_sql(lake, table))
        record = lake.run(table, Compact(min_input_files=2))
        assert (record.state, record.attempts, record.commits) == (RunState.SUCCEEDED, 2, ()), record.message
        assert record.changed_nothing
        assert lake.main_rows(table) == rows
        assert not unreferenced_files(lake, table)

    def test_inputs_that_were_deleted_from_storage_leave_nothing_to_do(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another client compacted the table and expired snapshots, so tasks do not find their inputs."""
        rows = lake.main_rows(table)
        run_tasks, done = compaction.run_tasks, list[Path]()

        def delete_inputs_and_run(*args: Any) -> list[TaskResult]:
            if not done:
                done.extend(to_local_path(row["file_path"]) for row in lake.metadata(table, "files"))
                compact_by_sql(lake, table)
                lake.java_table(table).expireSnapshots().expireOlderThan(2**62).cleanExpiredFiles(False).commit()
                for path in done:
                    path.unlink()
            return run_tasks(*args)

        monkeypatch.setattr(compaction, "run_tasks", delete_inputs_and_run)
        record = lake.run(table, Compact(min_input_files=2))
        assert (record.state, record.attempts, record.commits) == (RunState.SUCCEEDED, 2, ()), record.message
        assert lake.main_rows(table) == rows
        assert not unreferenced_files(lake, table)

    def test_the_last_failed_attempt_reports_the_conflict(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = iter(range(12))
        concurrent = ConcurrentChange(
            monkeypatch, lambda: lake.sql(f"DELETE FROM {table} WHERE id = {next(ids)}"), times=9
        )
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.attempts, concurrent.done) == (RunState.FAILED, 5, 5)
        assert "nother writer" in record.message
        assert "\n" not in record.message
        assert lake.main_rows(table) == rows_with_ids(*range(5, 12))
        assert not unreferenced_files(lake, table)


def change_before_spark_commits(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Makes a change after Spark's procedure has loaded the table."""
    add_stamp, done = iceberg_actions.add_stamp, list[bool]()

    def change_and_add_stamp(java_action: Any, context: RunContext) -> Any:
        if not done:
            done.append(True)
            change()
        return add_stamp(java_action, context)

    monkeypatch.setattr(iceberg_actions, "add_stamp", change_and_add_stamp)


def compact_by_sql(lake: Lake, table: TableId) -> None:
    lake.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table.short}', options => map('min-input-files', '2'))"
    ).collect()


class TestConcurrentCommits:
    @pytest.mark.parametrize("deletes", [False, True])
    def test_an_append_does_not_conflict_and_the_proof_holds(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch, deletes: bool
    ) -> None:
        if deletes:
            lake.sql(f"DELETE FROM {table} WHERE id = 5")
        ConcurrentChange(monkeypatch, lambda: lake.append(table, "VALUES (100, 'late')"))
        record = lake.run(table, REWRITE_ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 1), record.message
        (proof,) = record.proofs
        assert (proof.method, proof.rows_before) == ("records and dropped rows" if deletes else "records", 12)
        assert "(100, 'late')" in lake.main_rows(table)
        assert len(lake.main_rows(table)) == (12 if deletes else 13)
        assert record.effect.files_rewritten == 3, "the file of the other writer is not counted"

    def test_valid_groups_are_committed_and_the_others_are_planned_again(
        self, lake: Lake, halves: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        concurrent = ConcurrentChange(monkeypatch, lambda: lake.sql(f"DELETE FROM {halves} WHERE id = 101"))
        action = Compact(min_input_files=2, delete_file_threshold=1)
        record = lake.run(halves, action)
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 2, 2), record.message
        first, second = lake.summaries(record)
        assert (first["icepack.part"], first["deleted-data-files"]) == ("1 of 2 groups", "2")
        assert ("icepack.part" in second, second["deleted-data-files"]) == (False, "2")
        assert (first["icepack.attempt"], second["icepack.attempt"]) == ("1", "2")
        assert lake.main_rows(halves) == sorted(rows_with_ids(*range(4), *range(4), 100, 100, 102, 102, 103, 103))
        assert len(concurrent.outputs) == 3, "the valid group was not written twice"
        assert [proof.holds for proof in record.proofs] == [True, True]
        assert not unreferenced_files(lake, halves)

    def test_a_group_with_only_a_new_equality_delete_stays_valid(
        self, lake: Lake, halves: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def delete_from_both() -> None:
            commit_equality_delete(lake, halves, ["id"], [(2,)], partition="id_trunc=0")
            lake.sql(f"DELETE FROM {halves} WHERE id = 101")

        ConcurrentChange(monkeypatch, delete_from_both)
        record = lake.run(halves, REWRITE_ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert lake.summaries(record)[0]["icepack.part"] == "1 of 2 groups"
        assert lake.main_rows(halves) == sorted(rows_with_ids(0, 0, 1, 1, 3, 3, 100, 100, 102, 102, 103, 103))

    def test_committed_batches_remain(self, lake: Lake, halves: TableId, monkeypatch: pytest.MonkeyPatch) -> None:
        """With partial progress the first batch is committed before the second is read."""
        heads: list[int] = []

        def record_head_and_delete() -> None:
            heads.append(lake.current_snapshot_id(halves))
            lake.sql(f"DELETE FROM {halves} WHERE id = {101 if len(heads) == 2 else 999}")

        ConcurrentChange(monkeypatch, record_head_and_delete, times=2)
        record = lake.run(halves, Compact(min_input_files=2, partial_progress=True))
        assert record.state is RunState.SUCCEEDED, record.message
        assert heads[1] == record.commits[0]
        assert len(record.commits) == 2
        assert lake.main_rows(halves) == sorted(rows_with_ids(*range(4), *range(4), 100, 100, 102, 102, 103, 103))
        assert not unreferenced_files(lake, halves)
