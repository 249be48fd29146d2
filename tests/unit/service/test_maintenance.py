"""What a retry does with earlier commits, who may write the record, and which failures are retryable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from icepack.clock import utc_now
from icepack.domain.actions import (
    Action,
    Compact,
    ExpireSnapshots,
    Layout,
    RemoveOrphanFiles,
    RewriteEngine,
    RewriteManifests,
    RewritePositionDeletes,
)
from icepack.domain.locations import TableLocations
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.plan.files import DataFile, FileListing, PartitionKey
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
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.retry import RetryPolicy
from icepack.service.runs.request import RunDependencies, RunRequest

from .fakes import TABLE

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


class FakeTable:
    """A table with its commits, and an engine that adds to them: inspector, commit reader and engine in one."""

    can_stamp = True

    def __init__(
        self,
        *commits: CommitFacts,
        script: Callable[[RunContext], object] | None = None,
        proofs: Sequence[ValueProof] = (),
    ) -> None:
        self.commits = list(commits)
        self.script = script
        self.proofs = proofs
        self.contexts: list[RunContext] = []
        self.snapshot_id = 1
        self.inspections = 0
        self.listings = 0

    def commits_of(self, table: TableId, job_id: UUID) -> Sequence[CommitFacts]:
        return list(self.commits)

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        self.contexts.append(context)
        if self.script is not None:
            self.script(context)
        self.commits.append(commit(context.stamp.attempt, snapshot_id=len(self.contexts)))
        return EngineResult(value_proof=self.proofs[len(self.contexts) - 1] if self.proofs else None)

    def inspect(self, table: TableId) -> TableStatus:
        self.inspections += 1
        return status()

    def files(self, table: TableId, where: object = None) -> FileListing:
        self.listings += 1
        files = [
            DataFile(
                path=f"file:/w/{number}.parquet",
                partition=PartitionKey(0, ""),
                bytes=100,
                records=10,
                sequence_number=1,
            )
            for number in range(4)
        ]
        return FileListing(snapshot_id=self.snapshot_id, files=tuple(files))

    def count_rows(self, table: TableId, snapshot_id: int) -> int:
        raise NotImplementedError

    def roll_back(self, table: TableId, snapshot_id: int, parent_id: int) -> bool:
        return True

    def close(self) -> None:
        raise NotImplementedError


class FakeHistory:
    def __init__(self) -> None:
        self.saved: list[RunRecord] = []

    def save(self, record: RunRecord) -> None:
        self.saved.append(record)


def run(
    table: FakeTable, action: Action = ALL, history: FakeHistory | None = None, verification: Any = None, **facts: Any
) -> RunRecord:
    tools = RunDependencies(
        inspector=table,  # type: ignore[arg-type]
        commit_reader=table,
        engine=table,
        history=history or FakeHistory(),  # type: ignore[arg-type]
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
        table = FakeTable(commit(1))
        record = run(table, action, attempt=2)
        assert record.state is RunState.SUCCEEDED
        assert table.contexts == [], "nothing was run again"
        assert record.commits == (101,)
        assert (record.effect.files_rewritten, record.effect.files_added) == (4, 1)
        assert [proof.holds for proof in record.proofs] == [True]
        assert "earlier attempt" in (record.details or {})["commit"]

    def test_the_proof_finds_what_an_earlier_attempt_did_wrong(self) -> None:
        record = run(FakeTable(commit(1, added_records=39)), attempt=2)
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
    def test_an_action_with_several_commits_runs_again_from_the_current_snapshot(self, action: Action) -> None:
        table = FakeTable(commit(1))
        record = run(table, action, attempt=2)
        assert record.state is RunState.SUCCEEDED
        assert len(table.contexts) == 1
        assert record.commits == (101, 1), "all that the job has committed"

    @pytest.mark.parametrize("action", [ExpireSnapshots(), RemoveOrphanFiles()], ids=["expire", "orphans"])
    def test_an_action_without_a_snapshot_runs_again(self, action: Action) -> None:
        table = FakeTable()
        assert run(table, action, attempt=2).state is RunState.SUCCEEDED
        assert len(table.contexts) == 1

    def test_without_a_stamp_it_runs_again(self) -> None:
        """The engine could not stamp, or the snapshot has expired since."""
        table = FakeTable()
        assert run(table, attempt=3).state is RunState.SUCCEEDED
        assert [context.stamp.attempt for context in table.contexts] == [3]

    def test_the_stamp_has_the_jobs_attempt_and_the_batch(self) -> None:
        conflicts = iter([CommitConflict("lost"), None])

        def lose_once(context: RunContext) -> None:
            failure = next(conflicts)
            if failure is not None:
                raise failure

        table = FakeTable(script=lose_once)
        record = run(table, attempt=2)
        assert [(context.stamp.attempt, context.stamp.batch) for context in table.contexts] == [(2, 1), (2, 2)]
        assert record.attempts == 2

    def test_a_run_without_a_job_counts_its_own_attempts(self) -> None:
        table = FakeTable()
        run(table)
        assert [(context.stamp.attempt, context.stamp.batch) for context in table.contexts] == [(1, 1)]

    def test_a_late_commit_of_an_earlier_attempt_counts_as_done(self) -> None:
        table = FakeTable()

        def lose_to_the_zombie(context: RunContext) -> None:
            table.commits.append(commit(1))
            raise CommitConflict("Missing required files to delete")

        table.script = lose_to_the_zombie
        record = run(table, attempt=2)
        assert (record.state, record.commits, len(table.contexts)) == (RunState.SUCCEEDED, (101,), 1)

    def test_a_commit_of_an_earlier_attempt_is_not_mistaken_for_a_lost_answer(self) -> None:
        calls = []

        def lose_the_answer_once(context: RunContext) -> None:
            calls.append(context)
            if len(calls) == 1:
                raise CommitStateUnknown("nobody knows")

        table = FakeTable(commit(1), script=lose_the_answer_once)
        record = run(table, Compact(partial_progress=True), attempt=2)
        assert (record.state, len(calls)) == (RunState.SUCCEEDED, 2)

    def test_a_commit_of_a_later_attempt_is_not_mistaken_for_its_own(self) -> None:
        table = FakeTable(commit(3))
        run(table, attempt=2)
        assert len(table.contexts) == 1

    def test_an_attempt_stopped_before_its_first_commit_is_cancelled(self) -> None:
        def stop(context: RunContext) -> None:
            raise Cancelled("Stopped before anything was committed.")

        record = run(FakeTable(commit(1), script=stop), Compact(partial_progress=True), attempt=2)
        assert (record.state, record.commits) == (RunState.CANCELLED, (101,))

    def test_an_attempt_stopped_after_a_commit_has_failed(self) -> None:
        table = FakeTable()

        def stop(context: RunContext) -> None:
            table.commits.append(commit(2))
            raise Cancelled("Stopped.")

        table.script = stop
        record = run(table, Compact(partial_progress=True), attempt=2)
        assert (record.state, record.retryable) == (RunState.FAILED, True)


class TestPlanning:
    def test_a_compaction_is_planned_once_per_attempt(self) -> None:
        table = FakeTable()
        run(table)
        (context,) = table.contexts
        assert (table.listings, table.inspections) == (1, 2)
        assert context.plan is not None
        assert (context.plan.snapshot_id, context.plan.files_in) == (1, 4)

    def test_a_retry_plans_from_the_current_snapshot(self) -> None:
        table = FakeTable()

        def lose_once(context: RunContext) -> None:
            if context.stamp.batch == 1:
                table.snapshot_id = 7
                raise CommitConflict("lost")

        table.script = lose_once
        run(table)
        plans = [context.plan for context in table.contexts]
        assert [plan.snapshot_id for plan in plans if plan is not None] == [1, 7]
        assert table.listings == 2

    def test_for_spark_a_compaction_is_planned_only_for_its_cost(self) -> None:
        spark = replace(ALL, engine=RewriteEngine.SPARK)
        unpriced, priced = FakeTable(), FakeTable()
        assert run(unpriced, spark).estimate is not None
        run(priced, spark, estimate=CostEstimate())
        assert (unpriced.listings, priced.listings) == (1, 0)
        assert priced.contexts[0].plan is None

    def test_other_actions_are_not_planned(self) -> None:
        table = FakeTable()
        run(table, RewriteManifests())
        assert (table.listings, table.contexts[0].plan) == (0, None)

    def test_a_commit_of_an_earlier_attempt_is_not_planned_again(self) -> None:
        table = FakeTable(commit(1))
        run(table, attempt=2)
        assert table.listings == 0


class TestOwnership:
    def test_ownership_is_confirmed_before_the_engine_starts(self) -> None:
        table, history = FakeTable(), FakeHistory()
        asked = iter([None, Cancelled("Worker 'a' no longer holds it."), Cancelled("still not")])

        def confirm_ownership() -> None:
            failure = next(asked)
            if failure is not None:
                raise failure

        record = run(table, history=history, confirm_ownership=confirm_ownership, attempt=1)
        assert (record.state, table.contexts) == (RunState.CANCELLED, [])
        assert [record.state for record in history.saved] == [RunState.RUNNING], "the next worker records the end"

    def test_the_engine_can_confirm_ownership_too(self) -> None:
        asked: list[int] = []
        table = FakeTable(script=lambda context: context.check())
        run(table, confirm_ownership=lambda: asked.append(1), attempt=1)
        assert len(asked) == 4, "at the start, before the engine, within it, at the end"

    def test_a_run_without_a_job_is_recorded_even_if_it_lost_its_lock(self) -> None:
        history = FakeHistory()

        def confirm_ownership() -> None:
            raise Cancelled("The lock was broken.")

        run(FakeTable(), history=history, confirm_ownership=confirm_ownership)
        assert [record.state for record in history.saved] == [RunState.RUNNING, RunState.CANCELLED]

    def test_a_cancelled_engine_does_not_start(self) -> None:
        import threading

        context_check = []

        def check(context: RunContext) -> None:
            context.cancel.set()
            context_check.append(context)
            context.check()

        record = run(FakeTable(script=check), cancel=threading.Event())
        assert (record.state, len(context_check)) == (RunState.CANCELLED, 1)


class TestRetryable:
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

        record = run(FakeTable(script=explode))
        assert record.state is (RunState.REFUSED if isinstance(failure, Refused) else RunState.FAILED)
        assert record.retryable is retryable

    def test_failed_groups_are_retryable(self) -> None:
        class PartlyFailing(FakeTable):
            def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
                return replace(super().run(table, action, context), failed_groups=2)

        record = run(PartlyFailing(), Compact(partial_progress=True))
        assert (record.state, record.retryable) == (RunState.FAILED, True)

    def test_a_success_is_not_retryable(self) -> None:
        assert not run(FakeTable()).retryable


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
        record = run(FakeTable(proofs=[PROVEN]))
        assert (record.value_proof, record.message) == (PROVEN, "")

    def test_the_engine_gets_the_verification_store(self) -> None:
        table, store = FakeTable(), object()
        run(table, verification=store)
        assert table.contexts[0].verification is store

    def test_a_mismatch_is_described_although_the_run_succeeded(self) -> None:
        record = run(FakeTable(proofs=[MISMATCHED]))
        assert record.state is RunState.SUCCEEDED
        assert record.message == (
            "The native rewrite changed values of column price; nothing of it was committed. Spark's procedure did "
            "the work, and the native rewrite is off for this table. "
            "To repeat the check: icepack verify lake.sales.orders --repeat"
        )

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ((), "changed rows: 40 before, 39 after; nothing"),
            (("",), "changed rows: 40 before, 39 after; nothing"),
            (("a", "b", "a"), "changed values of columns a, b; nothing"),
            (tuple("abcdefg"), "changed values of columns a, b, c, d, e and 2 more; nothing"),
        ],
    )
    def test_a_message_names_what_differs(self, columns: tuple[str, ...], message: str) -> None:
        assert message in run(FakeTable(proofs=[replace(MISMATCHED, mismatch=mismatch(*columns))])).message

    def test_what_was_proven_before_a_failure_is_kept(self) -> None:
        def script(context: RunContext) -> None:
            context.report_proof(MISMATCHED)
            raise EngineFault("Spark is gone.")

        record = run(FakeTable(script=script))
        assert (record.state, record.value_proof) == (RunState.FAILED, MISMATCHED)
        assert record.message.startswith("Spark is gone. The native rewrite changed values of column price; nothing")
        assert "Spark's procedure did the work" not in record.message

    def test_a_mismatch_of_an_attempt_with_a_lost_commit_is_kept(self) -> None:
        def script(context: RunContext) -> None:
            if context.stamp.attempt == 1:
                context.report_proof(MISMATCHED)
                raise CommitConflict("Another writer won.")

        record = run(FakeTable(script=script, proofs=[PROVEN, PROVEN]))
        assert (record.state, record.attempts) == (RunState.SUCCEEDED, 2)
        assert record.value_proof == replace(PROVEN, mismatch=MISMATCHED.mismatch)

    @pytest.mark.parametrize(("job_id", "is_kept"), [(JOB, True), (uuid4(), False), (None, False)])
    def test_a_mismatch_of_an_earlier_attempt_of_the_job_is_kept(self, job_id: UUID | None, is_kept: bool) -> None:
        record = run(FakeTable(proofs=[PROVEN]), attempt=2, verification=NativeDisabledStore(job_id))
        assert record.value_proof == (replace(PROVEN, mismatch=MISMATCHED.mismatch) if is_kept else PROVEN)
        assert ("changed values of column price" in record.message) == is_kept

    def test_a_job_that_an_earlier_attempt_committed_keeps_its_mismatch(self) -> None:
        record = run(FakeTable(commit(1)), attempt=2, verification=NativeDisabledStore(JOB))
        assert record.value_proof == ValueProof(level=ProofLevel.SAMPLED, mismatch=MISMATCHED.mismatch)


class NativeDisabledStore:
    """A verification store in which a mismatch has disabled the native rewrite."""

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
