"""On Spark's path: other writers win, come in between and are never undone; and what is done when a proof fails."""

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
from icepack.errors import CommitConflict, CommitStateUnknown, EngineFault
from icepack.service.maintenance import RetryPolicy

from .lakes import Lake

ALL = Compact(rewrite_all=True, engine=RewriteEngine.SPARK)


class Meddler:
    """Does something between an action's planning and its commit, the first so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object], times: int = 1) -> None:
        self.done = 0
        stamp = spark._stamp

        def meddle(java_action: Any, context: RunContext) -> Any:
            if self.done < times:
                self.done += 1
                deed()
            return stamp(java_action, context)

        monkeypatch.setattr(spark, "_stamp", meddle)


class Waits(threading.Event):
    """Never set; remembers how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return False


@pytest.fixture
def table(lake: Lake) -> TableId:
    table = lake.create()
    lake.numbers(table, files=3, rows=4)
    return table


class TestOtherWritersWin:
    @pytest.mark.parametrize("version", [2, 3])
    def test_a_row_deleted_meanwhile_stays_deleted(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch, version: int
    ) -> None:
        table = lake.create(version=version)
        lake.numbers(table, files=3, rows=4)
        meddler = Meddler(monkeypatch, lambda: lake.sql(f"DELETE FROM {table} WHERE id = 5"))
        record = lake.run(table, ALL)
        assert (record.state, record.attempts, meddler.done) == (RunState.SUCCEEDED, 2, 1), record.message
        assert lake.main(table) == sorted(repr((id, f"v{id}")) for id in range(12) if id != 5)
        assert lake.summaries(record)[0]["icepack.attempt"] == "2"
        assert record.proofs[0].method == "counted rows"

    def test_a_row_updated_meanwhile_by_copy_on_write_stays_updated(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')")
        Meddler(monkeypatch, lambda: lake.sql(f"UPDATE {table} SET v = 'new' WHERE id = 5"))
        record = lake.run(table, ALL)
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert "(5, 'new')" in lake.main(table)
        assert len(lake.main(table)) == 12

    def test_inputs_that_another_compaction_took_leave_nothing_to_do(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = lake.main(table)
        Meddler(monkeypatch, lambda: _compact_by_sql(lake, table))
        record = lake.run(table, Compact(min_input_files=2, engine=RewriteEngine.SPARK))
        assert (record.state, record.attempts, record.commits) == (RunState.SUCCEEDED, 2, ()), record.message
        assert record.changed_nothing
        assert lake.main(table) == rows

    def test_inputs_that_are_gone_from_storage_leave_nothing_to_do(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Compacted and expired by another: the planned files do not even exist any more."""
        rows = lake.main(table)

        def take_away() -> None:
            _compact_by_sql(lake, table)
            lake.java(table).expireSnapshots().expireOlderThan(2**62).commit()

        Meddler(monkeypatch, take_away)
        record = lake.run(table, Compact(min_input_files=2, engine=RewriteEngine.SPARK))
        assert (record.state, record.attempts, record.commits) == (RunState.SUCCEEDED, 2, ()), record.message
        assert lake.main(table) == rows

    def test_after_the_last_attempt_it_fails_in_words(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = iter(range(12))
        meddler = Meddler(monkeypatch, lambda: lake.sql(f"DELETE FROM {table} WHERE id = {next(ids)}"), times=9)
        waits = Waits()
        record = lake.run(table, ALL, tools=lake.with_tools(retry=RetryPolicy(max_attempts=3)), cancel=waits)
        assert (record.state, record.attempts, meddler.done) == (RunState.FAILED, 3, 3)
        assert "another writer" in record.message
        assert "\n" not in record.message
        assert waits.seconds == [0.2, 0.4]
        assert len(lake.main(table)) == 9

    def test_manifests_that_were_merged_meanwhile(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        table = lake.create(properties={"commit.manifest.min-count-to-merge": "4"})
        lake.numbers(table, files=3, rows=4)
        Meddler(monkeypatch, lambda: lake.append(table, "VALUES (100, 'late')"))
        record = lake.run(table, RewriteManifests())
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2), record.message
        assert len(lake.main(table)) == 13

    def test_a_conflict_over_dangling_deletes_does_not_repeat_the_compaction(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lose(*_: Any) -> None:
            raise CommitConflict("Missing required files to delete")

        monkeypatch.setattr(spark, "_remove_dangling", lose)
        record = lake.run(table, Compact(rewrite_all=True, delete_file_threshold=1, engine=RewriteEngine.SPARK))
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 1, 1), record.message
        assert "left for the next run" in (record.details or {})["dangling_deletes"]

    def test_position_deletes_that_another_rewrote_meanwhile(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.sql(f"DELETE FROM {table} WHERE id IN (1, 5)")
        rows = lake.main(table)
        Meddler(monkeypatch, lambda: _compact_by_sql(lake, table, "'delete-file-threshold', '1'"))
        record = lake.run(table, RewritePositionDeletes(remove_dangling=True, options={"rewrite-all": "true"}))
        assert record.state is RunState.SUCCEEDED, record.message
        assert lake.main(table) == rows


def _compact_by_sql(lake: Lake, table: TableId, options: str = "'min-input-files', '2'") -> None:
    lake.sql(f"CALL lake.system.rewrite_data_files(table => '{table.short}', options => map({options}))")


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
        assert (proof.method, proof.rows_before) == ("counted rows" if deletes else "records", 12)
        assert "(100, 'late')" in lake.main(table)
        assert len(lake.main(table)) == (12 if deletes else 13)
        assert record.effect.files_rewritten == 3, "the other writer's file is none of ours"

    def test_compactions_while_another_client_keeps_appending(self, lake: Lake, table: TableId) -> None:
        """Two real clients on one catalog: every row of both must be there in the end."""
        appended, stop, faults = [], threading.Event(), []

        def append() -> None:
            try:
                while not stop.is_set() and len(appended) < 200:
                    number = 1000 + len(appended)
                    rows = pa.table({"id": pa.array([number], pa.int64()), "v": [f"v{number}"]})
                    _append_until_it_lands(lake, table, rows)
                    appended.append(number)
            except Exception as exc:
                faults.append(exc)

        writer = threading.Thread(target=append)
        writer.start()
        try:
            records = [lake.run(table, ALL) for _ in range(3)]
        finally:
            stop.set()
            writer.join()
        assert not faults
        assert [record.state for record in records] == [RunState.SUCCEEDED] * 3, [record.message for record in records]
        assert all(proof.holds for record in records for proof in record.proofs)
        assert appended
        assert lake.main(table) == sorted(repr((id, f"v{id}")) for id in [*range(12), *appended])


def _append_until_it_lands(lake: Lake, table: TableId, rows: pa.Table) -> None:
    from pyiceberg.exceptions import CommitFailedException

    while True:
        try:
            return lake.catalogs.load(table).append(rows)
        except CommitFailedException:
            continue


class Engine:
    """The real engine, with one thing changed."""

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


class TestLostAnswers:
    def test_a_commit_whose_answer_was_lost_is_found_by_its_stamp(self, lake: Lake, table: TableId) -> None:
        class Deaf(Engine):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                super().run(table, action, context)
                raise CommitStateUnknown("The connection broke.")

        record = lake.run(table, ALL, tools=lake.with_tools(engine=Deaf(lake)))
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 1, 1), record.message
        assert record.effect.files_rewritten == 3
        assert record.proofs[0].holds

    def test_a_commit_that_did_not_land_is_tried_again(self, lake: Lake, table: TableId) -> None:
        class Broken(Engine):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                if context.stamp.attempt == 1:
                    raise CommitStateUnknown("The connection broke.")
                return super().run(table, action, context)

        record = lake.run(table, ALL, tools=lake.with_tools(engine=Broken(lake)))
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 2, 1), record.message

    def test_what_an_earlier_attempt_committed_is_not_taken_for_this_one(self, lake: Lake, table: TableId) -> None:
        class Twice(Engine):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                if context.stamp.attempt != 2:
                    result = super().run(table, action, context)
                if context.stamp.attempt < 3:
                    raise (CommitStateUnknown if context.stamp.attempt == 2 else CommitConflict)("Lost.")
                return result

        record = lake.run(table, ALL, tools=lake.with_tools(engine=Twice(lake)))
        assert (record.state, record.attempts, len(record.commits)) == (RunState.SUCCEEDED, 3, 2), record.message

    @pytest.mark.parametrize("failure", [EngineFault("The dog ate it."), RuntimeError("gateway")])
    def test_what_a_failed_run_had_committed_is_proven_and_told(
        self, lake: Lake, table: TableId, failure: Exception
    ) -> None:
        class Late(Engine):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                super().run(table, action, context)
                raise failure

        record = lake.run(table, ALL, tools=lake.with_tools(engine=Late(lake)))
        assert (record.state, len(record.commits), len(record.proofs)) == (RunState.FAILED, 1, 1)
        assert str(failure) in record.message


class Miscounting(Engine):
    """Finds a row too many after the commit, as if the rewrite had duplicated it."""

    def __init__(self, lake: Lake, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__(lake)
        self.meanwhile = meanwhile
        self.counts = 0

    def count_rows(self, table: TableId, snapshot_id: int) -> int:
        self.counts += 1
        if self.counts == 2:
            self.meanwhile()
        return super().count_rows(table, snapshot_id) + (self.counts == 2)


class TestChangedRows:
    @pytest.fixture(params=[2, 3], ids=["version-2", "version-3"])
    def table(self, lake: Lake, request: pytest.FixtureRequest) -> TableId:
        table = lake.create(version=request.param)
        lake.numbers(table, files=3, rows=4)
        lake.sql(f"DELETE FROM {table} WHERE id = 5")
        lake.sql(f"ALTER TABLE {table} CREATE OR REPLACE BRANCH main WITH SNAPSHOT RETENTION 7 SNAPSHOTS")
        return table

    def test_the_commit_is_taken_back_while_it_is_the_head(self, lake: Lake, table: TableId) -> None:
        head, rows = lake.head(table), lake.main(table)
        record = lake.run(table, ALL, tools=lake.with_tools(engine=Miscounting(lake)))
        assert record.state is RunState.FAILED
        assert "changed its rows: 11 before, 12 after" in record.message
        assert "taken back" in record.message
        assert lake.head(table) == head
        assert lake.main(table) == rows
        assert len(record.commits) == 1
        (main,) = [ref for ref in lake.status(table).snapshots.refs if ref.name == "main"]
        assert main.min_snapshots_to_keep == 7, "the branch keeps its own settings"

    def test_another_writers_commit_is_never_taken_back(self, lake: Lake, table: TableId) -> None:
        engine = Miscounting(lake, lambda: lake.append(table, "VALUES (100, 'theirs')"))
        record = lake.run(table, ALL, tools=lake.with_tools(engine=engine))
        assert record.state is RunState.FAILED
        assert "keep every file" in record.message
        assert "(100, 'theirs')" in lake.main(table)
        assert lake.head(table) not in record.commits

    def test_not_even_when_it_comes_at_the_last_moment(
        self, lake: Lake, table: TableId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After the head was looked at and before it is swapped."""
        load = spark.load_table

        def load_then_append(spark: Any, wanted: TableId) -> Any:
            loaded = load(spark, wanted)
            lake.append(table, "VALUES (100, 'theirs')")
            return loaded

        engine = Miscounting(lake, lambda: monkeypatch.setattr(spark, "load_table", load_then_append))
        record = lake.run(table, ALL, tools=lake.with_tools(engine=engine))
        assert record.state is RunState.FAILED
        assert "nothing was taken back" in record.message
        assert "(100, 'theirs')" in lake.main(table)

    def test_a_rollback_that_fails_does_not_hide_the_alarm(self, lake: Lake, table: TableId) -> None:
        class Helpless(Miscounting):
            def roll_back(self, table: TableId, snapshot_id: int, parent_id: int) -> bool:
                raise RuntimeError("no catalog")

        record = lake.run(table, ALL, tools=lake.with_tools(engine=Helpless(lake)))
        assert "changed its rows" in record.message
        assert "no catalog" in record.message

    def test_records_that_do_not_add_up(self, lake: Lake) -> None:
        """Without deletes the manifests alone are proof enough: here they tell of a row lost."""
        table = lake.create()
        lake.numbers(table, files=3, rows=4)
        head = lake.head(table)

        class Ledger:
            def commits_of(self, wanted: TableId, job_id: UUID) -> Sequence[CommitFacts]:
                found = lake.tools.ledger.commits_of(wanted, job_id)
                return [replace(facts, added_records=facts.added_records - 1) for facts in found]

        record = lake.run(table, ALL, tools=lake.with_tools(ledger=Ledger()))
        assert record.state is RunState.FAILED
        assert "12 before, 11 after (records)" in record.message
        assert lake.head(table) == head
