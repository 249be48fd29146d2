"""What a retry makes of the stamps, who may write, and which failures are worth another try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from icepack.domain.actions import (
    Action,
    Compact,
    ExpireSnapshots,
    Layout,
    RemoveOrphanFiles,
    RewriteManifests,
    RewritePositionDeletes,
)
from icepack.domain.locations import TableLocations
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.domain.run import CommitFacts, RunRecord, RunState
from icepack.domain.status import DataFileStatus, TableStatus
from icepack.domain.table import TableId
from icepack.domain.verification import ColumnDifference, Mismatch, NativeDisabled, ProofLevel, ValueProof
from icepack.errors import (
    Cancelled,
    CatalogFault,
    CommitConflict,
    CommitStateUnknown,
    EngineFault,
    EnvironmentFault,
    InvalidOption,
    Refused,
    RowsChanged,
    TableNotFound,
)
from icepack.service.maintenance import MaintenanceRunner, RetryPolicy, RunRequest, RunTools, utc_now

from .parts import TABLE

ALL = Compact(rewrite_all=True)
JOB = uuid4()


def status() -> TableStatus:
    return TableStatus(
        table=TABLE,
        observed_at=utc_now(),
        metadata_location="file:/w/1.json",
        table_uuid="6f1d6c4a-0000-4000-8000-000000000000",
        format_version=2,
        location="file:/w",
        snapshot_id=1,
        data=DataFileStatus(count=4, bytes=400, records=40),
    )


def commit(attempt: int, **facts: Any) -> CommitFacts:
    counts: dict[str, Any] = {
        "snapshot_id": 100 + attempt, "parent_id": 1, "operation": "replace",
        "added_data_files": 1, "removed_data_files": 4, "added_records": 40, "removed_records": 40,
        "added_bytes": 300, "removed_bytes": 400, "added_delete_files": 0, "removed_delete_files": 0,
        "deletes_before": 0, "live_files_before": 4, "live_files_after": 1,
        "live_records_before": 40, "live_records_after": 40, "attempt": attempt,
    }  # fmt: skip
    return CommitFacts(**counts | facts)


class Table:
    """A table's commits, and an engine that adds to them; both ports in one."""

    can_stamp = True

    def __init__(
        self,
        *commits: CommitFacts,
        deed: Callable[[RunContext], object] | None = None,
        proofs: Sequence[ValueProof] = (),
    ) -> None:
        self.commits = list(commits)
        self.deed = deed
        self.proofs = proofs
        self.contexts: list[RunContext] = []

    def commits_of(self, table: TableId, job_id: UUID) -> Sequence[CommitFacts]:
        return list(self.commits)

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        self.contexts.append(context)
        if self.deed is not None:
            self.deed(context)
        self.commits.append(commit(context.stamp.attempt, snapshot_id=len(self.contexts)))
        return EngineResult(value_proof=self.proofs[len(self.contexts) - 1] if self.proofs else None)

    def inspect(self, table: TableId, lens: object = None) -> TableStatus:
        return status()

    def count_rows(self, table: TableId, snapshot_id: int) -> int:
        raise NotImplementedError

    def roll_back(self, table: TableId, snapshot_id: int, parent_id: int) -> bool:
        return True

    def close(self) -> None:
        raise NotImplementedError


class Memory:
    def __init__(self) -> None:
        self.saved: list[RunRecord] = []

    def save(self, record: RunRecord) -> None:
        self.saved.append(record)


def run(
    table: Table, action: Action = ALL, memory: Memory | None = None, verification: Any = None, **facts: Any
) -> RunRecord:
    tools = RunTools(
        inspector=table,  # type: ignore[arg-type]
        ledger=table,
        engine=table,
        history=memory or Memory(),  # type: ignore[arg-type]
        locations=TableLocations,
        retry=RetryPolicy(max_attempts=3, base_delay=timedelta(0)),
        verification=verification,
    )
    return MaintenanceRunner(tools).run(RunRequest(table=TABLE, action=action, job_id=JOB, **facts))


class TestRetries:
    @pytest.mark.parametrize(
        "action",
        [ALL, Compact(), Compact(layout=Layout.SORT, columns=("a",)), RewritePositionDeletes()],
        ids=lambda action: f"{action.kind}",
    )
    def test_a_commit_of_an_earlier_attempt_means_that_it_is_done(self, action: Action) -> None:
        table = Table(commit(1))
        record = run(table, action, attempt=2)
        assert record.state is RunState.SUCCEEDED
        assert table.contexts == [], "nothing was run again"
        assert record.commits == (101,)
        assert (record.effect.files_rewritten, record.effect.files_added) == (4, 1)
        assert [proof.holds for proof in record.proofs] == [True]
        assert "earlier attempt" in (record.details or {})["commit"]

    def test_what_an_earlier_attempt_did_wrong_is_found_by_the_proof(self) -> None:
        record = run(Table(commit(1, added_records=39)), attempt=2)
        assert record.state is RunState.FAILED
        assert "changed its rows" in record.message
        assert not record.retryable

    @pytest.mark.parametrize(
        "action",
        [
            Compact(partial_progress=True),
            Compact(options={"partial-progress.enabled": "True"}),
            RewritePositionDeletes(options={"partial-progress.enabled": "true"}),
            RewriteManifests(),
        ],
        ids=["partial", "partial option", "partial deletes", "manifests"],
    )
    def test_what_commits_in_parts_is_run_again_from_where_the_table_is(self, action: Action) -> None:
        table = Table(commit(1))
        record = run(table, action, attempt=2)
        assert record.state is RunState.SUCCEEDED
        assert len(table.contexts) == 1
        assert record.commits == (101, 1), "all that the job has committed"

    @pytest.mark.parametrize("action", [ExpireSnapshots(), RemoveOrphanFiles()], ids=["expire", "orphans"])
    def test_what_leaves_no_snapshot_is_run_again(self, action: Action) -> None:
        table = Table()
        assert run(table, action, attempt=2).state is RunState.SUCCEEDED
        assert len(table.contexts) == 1

    def test_without_a_stamp_to_find_it_is_run_again(self) -> None:
        """The engine could not stamp, or the snapshot has expired since."""
        table = Table()
        assert run(table, attempt=3).state is RunState.SUCCEEDED
        assert [context.stamp.attempt for context in table.contexts] == [3]

    def test_the_stamp_has_the_jobs_attempt_and_the_batch(self) -> None:
        conflicts = iter([CommitConflict("lost"), None])

        def lose_once(context: RunContext) -> None:
            failure = next(conflicts)
            if failure is not None:
                raise failure

        table = Table(deed=lose_once)
        record = run(table, attempt=2)
        assert [(context.stamp.attempt, context.stamp.batch) for context in table.contexts] == [(2, 1), (2, 2)]
        assert record.attempts == 2

    def test_a_run_by_hand_counts_its_own_attempts(self) -> None:
        table = Table()
        run(table)
        assert [(context.stamp.attempt, context.stamp.batch) for context in table.contexts] == [(1, 1)]

    def test_a_zombie_that_commits_while_its_successor_works_has_done_the_work(self) -> None:
        table = Table()

        def lose_to_the_zombie(context: RunContext) -> None:
            table.commits.append(commit(1))
            raise CommitConflict("Missing required files to delete")

        table.deed = lose_to_the_zombie
        record = run(table, attempt=2)
        assert (record.state, record.commits, len(table.contexts)) == (RunState.SUCCEEDED, (101,), 1)

    def test_an_earlier_attempts_commit_is_not_taken_for_one_whose_answer_was_lost(self) -> None:
        calls = []

        def lose_the_answer_once(context: RunContext) -> None:
            calls.append(context)
            if len(calls) == 1:
                raise CommitStateUnknown("nobody knows")

        table = Table(commit(1), deed=lose_the_answer_once)
        record = run(table, Compact(partial_progress=True), attempt=2)
        assert (record.state, len(calls)) == (RunState.SUCCEEDED, 2)

    def test_a_successors_commit_is_not_taken_for_ones_own(self) -> None:
        table = Table(commit(3))
        run(table, attempt=2)
        assert len(table.contexts) == 1

    def test_stopped_before_it_added_to_what_an_earlier_attempt_did_it_is_cancelled(self) -> None:
        def stop(context: RunContext) -> None:
            raise Cancelled("Stopped before anything was committed.")

        record = run(Table(commit(1), deed=stop), Compact(partial_progress=True), attempt=2)
        assert (record.state, record.commits) == (RunState.CANCELLED, (101,))

    def test_stopped_after_a_commit_of_its_own_it_is_not(self) -> None:
        table = Table()

        def stop(context: RunContext) -> None:
            table.commits.append(commit(2))
            raise Cancelled("Stopped.")

        table.deed = stop
        record = run(table, Compact(partial_progress=True), attempt=2)
        assert (record.state, record.retryable) == (RunState.FAILED, True)


class TestWhoMayWrite:
    def test_the_right_is_asked_for_before_the_engine_begins(self) -> None:
        table, memory = Table(), Memory()
        asked = iter([None, Cancelled("Worker 'a' no longer holds it."), Cancelled("still not")])

        def still_mine() -> None:
            failure = next(asked)
            if failure is not None:
                raise failure

        record = run(table, memory=memory, still_mine=still_mine, attempt=1)
        assert (record.state, table.contexts) == (RunState.CANCELLED, [])
        assert [kept.state for kept in memory.saved] == [RunState.RUNNING], "the end is the successor's to tell"

    def test_the_engine_can_ask_too(self) -> None:
        asked: list[int] = []
        table = Table(deed=lambda context: context.check())
        run(table, still_mine=lambda: asked.append(1), attempt=1)
        assert len(asked) == 4, "at the start, before the engine, within it, at the end"

    def test_a_run_by_hand_is_remembered_even_when_it_lost_its_lock(self) -> None:
        memory = Memory()

        def still_mine() -> None:
            raise Cancelled("The lock was broken.")

        run(Table(), memory=memory, still_mine=still_mine)
        assert [kept.state for kept in memory.saved] == [RunState.RUNNING, RunState.CANCELLED]

    def test_an_engine_that_was_told_to_stop_does_not_begin(self) -> None:
        import threading

        context_check = []

        def check(context: RunContext) -> None:
            context.cancel.set()
            context_check.append(context)
            context.check()

        record = run(Table(deed=check), cancel=threading.Event())
        assert (record.state, len(context_check)) == (RunState.CANCELLED, 1)


class TestWorthRetrying:
    @pytest.mark.parametrize(
        ("failure", "retryable"),
        [
            (CommitConflict("lost"), True),
            (CommitStateUnknown("unknown"), True),
            (EngineFault("spark"), True),
            (CatalogFault("catalog"), True),
            (EnvironmentFault("java"), True),
            (RuntimeError("py4j"), True),
            (InvalidOption("typo"), False),
            (TableNotFound("gone"), False),
            (RowsChanged("alarm"), False),
            (Refused("no"), False),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_a_record_says_whether_to_try_again(self, failure: Exception, retryable: bool) -> None:
        def explode(_: RunContext) -> None:
            raise failure

        record = run(Table(deed=explode))
        assert record.state is (RunState.REFUSED if isinstance(failure, Refused) else RunState.FAILED)
        assert record.retryable is retryable

    def test_parts_that_failed_are_worth_it(self) -> None:
        class Partly(Table):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                return replace(super().run(table, action, context), failed_groups=2)

        record = run(Partly(), Compact(partial_progress=True))
        assert (record.state, record.retryable) == (RunState.FAILED, True)

    def test_a_success_has_nothing_to_retry(self) -> None:
        assert not run(Table()).retryable


def mismatch(*columns: str) -> Mismatch:
    return Mismatch(
        snapshot_id=1,
        partition="",
        classes=(),
        files=("file:/w/1.parquet",),
        rows_before=40,
        rows_after=39,
        differences=tuple(
            ColumnDifference(column=column, measure="hash_1", before="1", after="2") for column in columns
        ),
        kernel_version="1",
    )


PROVEN = ValueProof(level=ProofLevel.SAMPLED, groups=12, groups_compared=2)
MISMATCHED = ValueProof(level=ProofLevel.SAMPLED, spark_groups=1, mismatch=mismatch("price"))


class TestValueProof:
    def test_the_record_says_what_the_engine_has_proven(self) -> None:
        record = run(Table(proofs=[PROVEN]))
        assert (record.value_proof, record.message) == (PROVEN, "")

    def test_the_engine_gets_the_store_that_remembers_trust(self) -> None:
        table, store = Table(), object()
        run(table, verification=store)
        assert table.contexts[0].verification is store

    def test_a_mismatch_is_told_in_plain_words_though_the_run_succeeded(self) -> None:
        record = run(Table(proofs=[MISMATCHED]))
        assert record.state is RunState.SUCCEEDED
        assert record.message == (
            "The native rewrite changed values of column price; nothing of it was committed. Spark's procedure did "
            "the work, and the native rewrite is off for this table. "
            "To repeat the check: icepack verify lake.sales.orders --repeat"
        )

    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ((), "changed rows: 40 before, 39 after; nothing"),
            (("",), "changed rows: 40 before, 39 after; nothing"),
            (("a", "b", "a"), "changed values of columns a, b; nothing"),
            (tuple("abcdefg"), "changed values of columns a, b, c, d, e and 2 more; nothing"),
        ],
    )
    def test_a_message_names_what_differs(self, columns: tuple[str, ...], said: str) -> None:
        assert said in run(Table(proofs=[replace(MISMATCHED, mismatch=mismatch(*columns))])).message

    def test_what_was_proven_before_a_failure_is_kept(self) -> None:
        def deed(context: RunContext) -> None:
            context.proven(MISMATCHED)
            raise EngineFault("Spark is gone.")

        record = run(Table(deed=deed))
        assert (record.state, record.value_proof) == (RunState.FAILED, MISMATCHED)
        assert record.message.startswith("Spark is gone. The native rewrite changed values of column price; nothing")
        assert "Spark's procedure did the work" not in record.message

    def test_a_mismatch_of_an_attempt_that_lost_to_another_writer_is_not_forgotten(self) -> None:
        def deed(context: RunContext) -> None:
            if context.stamp.attempt == 1:
                context.proven(MISMATCHED)
                raise CommitConflict("Another writer won.")

        record = run(Table(deed=deed, proofs=[PROVEN, PROVEN]))
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2)
        assert record.value_proof == replace(PROVEN, mismatch=MISMATCHED.mismatch)

    @pytest.mark.parametrize(("job_id", "is_kept"), [(JOB, True), (uuid4(), False), (None, False)])
    def test_a_mismatch_of_an_earlier_attempt_of_the_job_is_not_forgotten(
        self, job_id: UUID | None, is_kept: bool
    ) -> None:
        record = run(Table(proofs=[PROVEN]), attempt=2, verification=Switched(job_id))
        assert record.value_proof == (replace(PROVEN, mismatch=MISMATCHED.mismatch) if is_kept else PROVEN)
        assert ("changed values of column price" in record.message) == is_kept

    def test_a_job_that_was_done_by_an_earlier_attempt_keeps_its_mismatch(self) -> None:
        record = run(Table(commit(1)), attempt=2, verification=Switched(JOB))
        assert record.value_proof == ValueProof(level=ProofLevel.SAMPLED, mismatch=MISMATCHED.mismatch)


class Switched:
    """A store in which a mismatch has switched the native rewrite off."""

    def __init__(self, job_id: UUID | None) -> None:
        self._job_id = job_id

    def native_disabled(self, table: TableId) -> NativeDisabled:
        return NativeDisabled(
            table=table,
            table_uuid="",
            disabled_at=utc_now(),
            reason="",
            job_id=self._job_id,
            mismatch=MISMATCHED.mismatch,
        )
