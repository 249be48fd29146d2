"""Runs of Spark's procedure with concurrent writers, lost responses and failed proofs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from icepack.domain.actions import Action, Compact, RewriteEngine, RewriteManifests, RewritePositionDeletes
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.domain.run import CommitFacts, RunState
from icepack.domain.table import TableId
from icepack.engine import spark
from icepack.engine.actions import dangling_deletes
from icepack.engine.java import iceberg_actions
from icepack.errors import CommitConflict, CommitStateUnknown, EngineFault
from icepack.service.retry import RetryPolicy

from .lake import Lake

ALL = Compact(rewrite_all=True, engine=RewriteEngine.SPARK)


class ConcurrentChange:
    """Makes a change between the planning and the commit of an action, for the given number of times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object], times: int = 1) -> None:
        self.done = 0
        add_stamp = iceberg_actions.add_stamp

        def change_and_add_stamp(java_action: Any, context: RunContext) -> Any:
            if self.done < times:
                self.done += 1
                change()
            return add_stamp(java_action, context)

        monkeypatch.setattr(iceberg_actions, "add_stamp", change_and_add_stamp)


class RecordingEvent(threading.Event):
    """Is never set, and records the timeouts of `wait`."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return False


@pytest.fixture
def table(lake: Lake) -> TableId:
    table = lake.create()
    lake.append_numbers(table, files=3, rows=4)
    return table


class TestConflicts:
    @pytest.mark.parametrize("version", [2, 3])
    def test_a_row_deleted_during_the_rewrite_stays_deleted(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch, version: int
    ) -> None:
        table = lake.create(version=version)
        lake.append_numbers(table, files=3, rows=4)
        concurrent = ConcurrentChange(monkeypatch, lambda: lake.sql(f"DELETE FROM {table} WHERE id = 5"))
        record = lake.run(table, ALL)
        assert (record.state, record.attempts, concurrent.done) == (RunState.SUCCEEDED, 2, 1), record.message
        assert lake.main_rows(table) == sorted(repr((id, f"v{id}")) for id in range(12) if id != 5)
        assert lake.summaries(record)[0]["icepack.attempt"] == "2"
        assert record.proofs[0].method == "counted rows"

    def test_a_row_updated_by_copy_on_write_during_the_rewrite_stays_updated(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')")
        ConcurrentChange(monkeypatch, lambda: lake.sql(f"UPDATE {table} SET v = 'new' WHERE id = 5"))
        record = lake.run(table, ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert "(5, 'new')" in lake.main_rows(table)
        assert len(lake.main_rows(table)) == 12

    def test_inputs_that_another_compaction_replaced_leave_nothing_to_do(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = lake.main_rows(table)
        ConcurrentChange(monkeypatch, lambda: _compact_by_sql(lake, table))
        record = lake.run(table, Compact(min_input_files=2, engine=RewriteEngine.SPARK))
        assert (record.state, record.attempts, record.commits) == (RunState.SUCCEEDED, 2, ()), record.message
        assert record.changed_nothing
        assert lake.main_rows(table) == rows

    def test_inputs_that_were_deleted_from_storage_leave_nothing_to_do(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another client compacted the table and expired snapshots, so the planned files no longer exist."""
        rows = lake.main_rows(table)

        def compact_and_expire() -> None:
            _compact_by_sql(lake, table)
            lake.java_table(table).expireSnapshots().expireOlderThan(2**62).commit()

        ConcurrentChange(monkeypatch, compact_and_expire)
        record = lake.run(table, Compact(min_input_files=2, engine=RewriteEngine.SPARK))
        assert (record.state, record.attempts, record.commits) == (RunState.SUCCEEDED, 2, ()), record.message
        assert lake.main_rows(table) == rows

    def test_the_last_failed_attempt_reports_the_conflict(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = iter(range(12))
        concurrent = ConcurrentChange(
            monkeypatch, lambda: lake.sql(f"DELETE FROM {table} WHERE id = {next(ids)}"), times=9
        )
        event = RecordingEvent()
        record = lake.run(
            table, ALL, dependencies=lake.with_dependencies(retry=RetryPolicy(max_attempts=3)), cancel=event
        )
        assert (record.state, record.attempts, concurrent.done) == (RunState.FAILED, 3, 3)
        assert "another writer" in record.message
        assert "\n" not in record.message
        assert event.seconds == [0.2, 0.4]
        assert len(lake.main_rows(table)) == 9

    def test_manifests_that_were_merged_during_the_rewrite(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        table = lake.create(properties={"commit.manifest.min-count-to-merge": "4"})
        lake.append_numbers(table, files=3, rows=4)
        ConcurrentChange(monkeypatch, lambda: lake.append(table, "VALUES (100, 'late')"))
        record = lake.run(table, RewriteManifests())
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert len(lake.main_rows(table)) == 13

    def test_a_conflict_over_dangling_deletes_does_not_repeat_the_compaction(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> None:
            raise CommitConflict("Missing required files to delete")

        monkeypatch.setattr(dangling_deletes, "remove_dangling_deletes", fail)
        record = lake.run(table, Compact(rewrite_all=True, delete_file_threshold=1, engine=RewriteEngine.SPARK))
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 1, 1), record.message
        assert "postponed to the next run" in (record.details or {})["dangling_deletes"]

    def test_position_deletes_that_another_client_rewrote_during_the_rewrite(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.sql(f"DELETE FROM {table} WHERE id IN (1, 5)")
        rows = lake.main_rows(table)
        ConcurrentChange(monkeypatch, lambda: _compact_by_sql(lake, table, "'delete-file-threshold', '1'"))
        record = lake.run(table, RewritePositionDeletes(remove_dangling=True, options={"rewrite-all": "true"}))
        assert record.state is RunState.SUCCEEDED, record.message
        assert lake.main_rows(table) == rows


def _compact_by_sql(lake: Lake, table: TableId, options: str = "'min-input-files', '2'") -> None:
    lake.sql(f"CALL lake.system.rewrite_data_files(table => '{table.short}', options => map({options}))")


class TestConcurrentAppends:
    @pytest.mark.parametrize("deletes", [False, True])
    def test_an_append_does_not_conflict_and_the_proof_holds(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch, deletes: bool
    ) -> None:
        if deletes:
            lake.sql(f"DELETE FROM {table} WHERE id = 5")
        ConcurrentChange(monkeypatch, lambda: lake.append(table, "VALUES (100, 'late')"))
        record = lake.run(table, ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 1), record.message
        (proof,) = record.proofs
        assert (proof.method, proof.rows_before) == ("counted rows" if deletes else "records", 12)
        assert "(100, 'late')" in lake.main_rows(table)
        assert len(lake.main_rows(table)) == (12 if deletes else 13)
        assert record.effect.files_rewritten == 3, "the file of the other writer is not counted"

    def test_compactions_while_another_client_keeps_appending(self, lake: Lake, table: TableId) -> None:
        """Two clients of one catalog: all rows of both are in the table at the end."""
        appended, stop, errors = [], threading.Event(), []

        def append() -> None:
            try:
                while not stop.is_set() and len(appended) < 200:
                    number = 1000 + len(appended)
                    rows = pa.table({"id": pa.array([number], pa.int64()), "v": [f"v{number}"]})
                    _append_with_retries(lake, table, rows)
                    appended.append(number)
            except Exception as exc:
                errors.append(exc)

        writer = threading.Thread(target=append)
        writer.start()
        try:
            records = [lake.run(table, ALL) for _ in range(3)]
        finally:
            stop.set()
            writer.join()
        assert not errors
        assert [record.state for record in records] == [RunState.SUCCEEDED] * 3, [record.message for record in records]
        assert all(proof.holds for record in records for proof in record.proofs)
        assert appended
        assert lake.main_rows(table) == sorted(repr((id, f"v{id}")) for id in [*range(12), *appended])


def _append_with_retries(lake: Lake, table: TableId, rows: pa.Table) -> None:
    from pyiceberg.exceptions import CommitFailedException

    while True:
        try:
            return lake.catalogs.load(table).append(rows)
        except CommitFailedException:
            continue


class DelegatingEngine:
    """Delegates to the real engine; subclasses override one method."""

    can_stamp = True

    def __init__(self, lake: Lake) -> None:
        self.real = lake.engine

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        return self.real.run(table, action, context)

    def count_rows(self, table: TableId, snapshot_id: int) -> int:
        return self.real.count_rows(table, snapshot_id)

    def roll_back(self, table: TableId, snapshot_id: int, parent_id: int) -> bool:
        return self.real.roll_back(table, snapshot_id, parent_id)

    def close(self) -> None:
        raise NotImplementedError


class TestUnknownCommitState:
    def test_a_commit_with_a_lost_response_is_found_by_its_stamp(self, lake: Lake, table: TableId) -> None:
        class LosesResponse(DelegatingEngine):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                super().run(table, action, context)
                raise CommitStateUnknown("The connection broke.")

        record = lake.run(table, ALL, dependencies=lake.with_dependencies(engine=LosesResponse(lake)))
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 1, 1), record.message
        assert record.effect.files_rewritten == 3
        assert record.proofs[0].holds

    def test_a_failed_commit_is_retried(self, lake: Lake, table: TableId) -> None:
        class FailsFirst(DelegatingEngine):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                if context.stamp.attempt == 1:
                    raise CommitStateUnknown("The connection broke.")
                return super().run(table, action, context)

        record = lake.run(table, ALL, dependencies=lake.with_dependencies(engine=FailsFirst(lake)))
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 2, 1), record.message

    def test_a_commit_of_an_earlier_attempt_is_not_attributed_to_this_attempt(self, lake: Lake, table: TableId) -> None:
        class FailsTwice(DelegatingEngine):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                if context.stamp.attempt != 2:
                    result = super().run(table, action, context)
                if context.stamp.attempt < 3:
                    raise (CommitStateUnknown if context.stamp.attempt == 2 else CommitConflict)("Lost.")
                return result

        record = lake.run(table, ALL, dependencies=lake.with_dependencies(engine=FailsTwice(lake)))
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 3, 2), record.message

    @pytest.mark.parametrize("failure", [EngineFault("The engine failed."), RuntimeError("gateway")])
    def test_commits_of_a_failed_run_are_proven_and_recorded(
        self, lake: Lake, table: TableId, failure: Exception
    ) -> None:
        class FailsAfterCommit(DelegatingEngine):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                super().run(table, action, context)
                raise failure

        record = lake.run(table, ALL, dependencies=lake.with_dependencies(engine=FailsAfterCommit(lake)))
        assert (record.state, len(record.commits), len(record.proofs)) == (RunState.FAILED, 1, 1)
        assert str(failure) in record.message


class MiscountingEngine(DelegatingEngine):
    """Counts one row too many after the commit, as if the rewrite had duplicated it."""

    def __init__(self, lake: Lake, before_second_count: Callable[[], object] = lambda: None) -> None:
        super().__init__(lake)
        self.before_second_count = before_second_count
        self.counts = 0

    def count_rows(self, table: TableId, snapshot_id: int) -> int:
        self.counts += 1
        if self.counts == 2:
            self.before_second_count()
        return super().count_rows(table, snapshot_id) + (self.counts == 2)


class TestChangedRows:
    @pytest.fixture(params=[2, 3], ids=["version-2", "version-3"])
    def table(self, lake: Lake, request: pytest.FixtureRequest) -> TableId:
        table = lake.create(version=request.param)
        lake.append_numbers(table, files=3, rows=4)
        lake.sql(f"DELETE FROM {table} WHERE id = 5")
        lake.sql(f"ALTER TABLE {table} CREATE OR REPLACE BRANCH main WITH SNAPSHOT RETENTION 7 SNAPSHOTS")
        return table

    def test_the_commit_is_rolled_back_if_it_is_still_the_head(self, lake: Lake, table: TableId) -> None:
        head, rows = lake.current_snapshot_id(table), lake.main_rows(table)
        record = lake.run(table, ALL, dependencies=lake.with_dependencies(engine=MiscountingEngine(lake)))
        assert record.state is RunState.FAILED
        assert "changed its rows: 11 before, 12 after" in record.message
        assert "was rolled back" in record.message
        assert lake.current_snapshot_id(table) == head
        assert lake.main_rows(table) == rows
        assert len(record.commits) == 1
        (main,) = [ref for ref in lake.status(table).snapshots.refs if ref.name == "main"]
        assert main.min_snapshots_to_keep == 7, "the branch keeps its own settings"

    def test_the_commit_of_another_writer_is_never_rolled_back(self, lake: Lake, table: TableId) -> None:
        engine = MiscountingEngine(lake, lambda: lake.append(table, "VALUES (100, 'theirs')"))
        record = lake.run(table, ALL, dependencies=lake.with_dependencies(engine=engine))
        assert record.state is RunState.FAILED
        assert "keep every file" in record.message
        assert "(100, 'theirs')" in lake.main_rows(table)
        assert lake.current_snapshot_id(table) not in record.commits

    def test_a_commit_right_before_the_rollback_is_never_rolled_back(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other commit happens after the head was read and before it is replaced."""
        load = spark.load_table

        def load_then_append(spark: Any, wanted: TableId) -> Any:
            loaded = load(spark, wanted)
            lake.append(table, "VALUES (100, 'theirs')")
            return loaded

        engine = MiscountingEngine(lake, lambda: monkeypatch.setattr(spark, "load_table", load_then_append))
        record = lake.run(table, ALL, dependencies=lake.with_dependencies(engine=engine))
        assert record.state is RunState.FAILED
        assert "was not rolled back" in record.message
        assert "(100, 'theirs')" in lake.main_rows(table)

    def test_a_failed_rollback_does_not_hide_the_changed_rows(self, lake: Lake, table: TableId) -> None:
        class FailsToRollBack(MiscountingEngine):
            def roll_back(self, table: TableId, snapshot_id: int, parent_id: int) -> bool:
                raise RuntimeError("no catalog")

        record = lake.run(table, ALL, dependencies=lake.with_dependencies(engine=FailsToRollBack(lake)))
        assert "changed its rows" in record.message
        assert "no catalog" in record.message

    def test_wrong_record_counts_fail_the_run(self, lake: Lake) -> None:
        """Without deletes the record counts of the manifests are the proof; here they show a lost row."""
        table = lake.create()
        lake.append_numbers(table, files=3, rows=4)
        head = lake.current_snapshot_id(table)

        class MiscountingReader:
            def commits_of(self, wanted: TableId, job_id: UUID) -> Sequence[CommitFacts]:
                found = lake.dependencies.commit_reader.commits_of(wanted, job_id)
                return [replace(facts, added_records=facts.added_records - 1) for facts in found]

        record = lake.run(table, ALL, dependencies=lake.with_dependencies(commit_reader=MiscountingReader()))
        assert record.state is RunState.FAILED
        assert "12 before, 11 after (records)" in record.message
        assert lake.current_snapshot_id(table) == head
