"""One run of one action on one table: plan, run the engine, retry lost commits, prove the result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from threading import Event

from icepack.domain.actions import (
    ActionKind,
    Compact,
    RewriteEngine,
    RewritePositionDeletes,
    commits_snapshot,
)
from icepack.domain.health import assess_health
from icepack.domain.locations import AssumedLocations
from icepack.domain.observability.trace import Phase
from icepack.domain.plan.compaction import CompactionPlan, plan_action
from icepack.domain.plan.expression import Expression, parse_filter
from icepack.domain.plan.select import SelectionRules
from icepack.domain.ports.engine import EngineResult, Progress, RunContext
from icepack.domain.run import CommitFacts, RunRecord, RunState, Stamp, Totals, compute_totals
from icepack.domain.status import TableStatus
from icepack.domain.verification import ProofLevel, ValueProof
from icepack.errors import (
    Cancelled,
    CommitConflict,
    CommitStateUnknown,
    EngineFault,
    IcepackError,
    Refused,
    RowsChanged,
)
from icepack.service.runs.cost_limit import check_cost_limit
from icepack.service.runs.outcome import (
    add_mismatch_message,
    compute_realised_effect,
    format_failed_groups,
    is_retryable,
    list_snapshot_ids,
)
from icepack.service.runs.proof import VALUES, keep_earlier_mismatch, prove_commits, prove_expiry
from icepack.service.runs.request import RunDependencies, RunRequest
from icepack.service.runs.resume import select_commits_of_attempt, was_committed_earlier

log = logging.getLogger(__name__)

COMMITTED_EARLIER = EngineResult(details={"commit": "made by an earlier attempt of the job and found by its stamp"})
COMMIT_FOUND = EngineResult(details={"commit": "the catalog's answer was lost, its snapshot was found by its stamp"})


class RunExecution:
    """The state of one run while it is in progress."""

    def __init__(
        self,
        dependencies: RunDependencies,
        request: RunRequest,
        record: RunRecord,
        on_start: Callable[[RunRecord], None],
    ) -> None:
        self._dependencies = dependencies
        self._request = request
        self._table = request.table
        self._action = request.action
        self._cancel = request.cancel or Event()
        self._on_start = on_start
        self._before: TableStatus | None = None
        self._has_committed = False
        self.record = record

    def run(self) -> RunRecord:
        """Runs the action; every outcome is a record, never an exception."""
        return add_mismatch_message(self._add_mismatch_of_earlier_attempt(self._run()))

    def _add_mismatch_of_earlier_attempt(self, record: RunRecord) -> RunRecord:
        """Finds a mismatch by the entry that disabled the native rewrite: the earlier attempt's record is replaced."""
        store = self._dependencies.verification
        if store is None or (self._request.attempt or 1) == 1 or not isinstance(self._action, Compact):
            return record
        disabled = store.native_disabled(self._table)
        if disabled is None or disabled.mismatch is None or disabled.job_id != record.job_id:
            return record
        proof = record.value_proof or ValueProof(level=self._action.proof)
        return replace(record, value_proof=replace(proof, mismatch=proof.mismatch or disabled.mismatch))

    def _run(self) -> RunRecord:
        try:
            return self._run_and_prove()
        except Cancelled as exc:
            return self._cancelled(exc)
        except Refused as exc:
            return replace(self.record, state=RunState.REFUSED, message=str(exc), error=type(exc).__name__)
        except IcepackError as exc:
            return replace(self._failed(str(exc), retryable=is_retryable(exc)), error=type(exc).__name__)
        except Exception as exc:
            log.exception("%s on %s failed unexpectedly", self._action.kind, self._table)
            message = f"{type(exc).__name__}: {exc}"
            return replace(self._failed(message, retryable=True), error=type(exc).__name__)

    def _run_and_prove(self) -> RunRecord:
        self._request.phase(Phase.PLANNING)
        self._before = before = self._dependencies.inspector.inspect(self._table)
        self.record = replace(self.record, table_uuid=before.table_uuid, before=self._totals(before))
        try:
            result = self._find_earlier_commit() or self._attempt_until_done()
        except Exception as exc:
            self._prove_partial_work(exc)
            raise
        self._request.phase(Phase.COMMIT)
        return self._succeeded(before, result, self._prove())

    def _totals(self, status: TableStatus) -> Totals:
        return compute_totals(status, assess_health(status, self._dependencies.clock()).score)

    def _find_earlier_commit(self) -> EngineResult | None:
        """An earlier attempt of the job may have committed and died before it could report it."""
        attempt = self._request.attempt
        if attempt is None or attempt == 1 or not was_committed_earlier(self._action, self._commits(), attempt):
            return None
        return COMMITTED_EARLIER

    def _attempt_until_done(self) -> EngineResult:
        """Plans every attempt from the current snapshot, where a lost commit may have left nothing to do."""
        retry = self._dependencies.retry
        attempt, known_commits = 1, 0
        while True:
            try:
                return self._attempt(attempt)
            except (CommitConflict, CommitStateUnknown) as exc:
                commits = self._commits()
                if was_committed_earlier(self._action, commits, self._request.attempt):
                    return COMMITTED_EARLIER
                found = len(select_commits_of_attempt(commits, self._request.attempt))
                if isinstance(exc, CommitStateUnknown) and found > known_commits:
                    return COMMIT_FOUND
                if attempt >= retry.max_attempts:
                    raise
                known_commits = found
                log.info("attempt %d of %s on %s failed: %s", attempt, self._action.kind, self._table, exc)
                self._cancel.wait(retry.delay_seconds(attempt))
                attempt += 1

    def _attempt(self, attempt: int) -> EngineResult:
        if self._cancel.is_set():
            raise Cancelled("Stopped before it started.")
        self.record = replace(self.record, attempts=attempt)
        context = self._build_context(attempt)
        if attempt == 1:
            self._on_start(self.record)
        context.confirm_ownership()
        self._request.phase(Phase.EXECUTION)
        result = self._dependencies.engine.run(self._table, self._action, context)
        if result.value_proof is not None:
            self._record_proof(result.value_proof)
        return result

    def _build_context(self, attempt: int) -> RunContext:
        now = self._dependencies.clock()
        return RunContext(
            stamp=Stamp(job_id=self.record.job_id, attempt=self._request.attempt or attempt, batch=attempt),
            now=now,
            where=self._where(now),
            foreign_locations=self._foreign_locations(),
            progress=self._report_progress,
            cancel=self._cancel,
            confirm_ownership=self._request.confirm_ownership,
            plan=self._plan(now),
            verification=self._dependencies.verification,
            report_proof=self._record_proof,
        )

    def _plan(self, now: datetime) -> CompactionPlan | None:
        """Plans a compaction, and checks the plan's cost unless an estimate was checked before.

        Spark's procedure plans by itself, so for Spark the plan is needed only for its cost.
        """
        if not isinstance(self._action, Compact) or self._before is None:
            return None
        if self._action.engine is RewriteEngine.SPARK and self.record.estimate is not None:
            return None
        listing = self._dependencies.inspector.files(self._table, self._where(now))
        rules = SelectionRules.iceberg_defaults(self._before.target_file_bytes)
        plan = plan_action(self._action, listing, defaults=rules, now=now, model=self._dependencies.cost_model)
        if self.record.estimate is None:
            self.record = replace(self.record, estimate=plan.cost)
            check_cost_limit(self._action, plan.cost)
        return plan

    def _where(self, now: datetime) -> Expression | None:
        if isinstance(self._action, Compact | RewritePositionDeletes) and self._action.partition_filter:
            return parse_filter(self._action.partition_filter, now)
        return None

    def _foreign_locations(self) -> Mapping[str, str]:
        if self._action.kind is not ActionKind.REMOVE_ORPHAN_FILES:
            return {}
        found = self._dependencies.locations()
        assumed = found.assumed_except(self._table)
        if assumed:
            sentences = " ".join(item.sentence for item in assumed)
            log.warning("%s on %s assumes locations of other tables: %s", self._action.kind, self._table, sentences)
            self.record = replace(self.record, details={"assumed_locations": [item.to_details() for item in assumed]})
        for item in assumed:
            check_has_location(item)
        return found.others(self._table)

    def _record_proof(self, proof: ValueProof) -> None:
        """Keeps the latest proof in the record, even if the attempt then fails."""
        self.record = replace(self.record, value_proof=keep_earlier_mismatch(self.record.value_proof, proof))

    def _report_progress(self, progress: Progress) -> None:
        """Starts the commit phase once the engine has written its last group of files."""
        if progress.groups and progress.groups_done >= progress.groups:
            self._request.phase(Phase.COMMIT)
        self._request.progress(progress)

    def _prove(self) -> Sequence[CommitFacts]:
        commits = self._commits()
        self._has_committed = bool(select_commits_of_attempt(commits, self._request.attempt))
        self.record = replace(self.record, commits=tuple(commit.snapshot_id for commit in commits))
        by_value = isinstance(self._action, Compact) and self._action.proof is ProofLevel.FULL
        proofs = prove_commits(self._table, commits, self._dependencies.engine, by_value=by_value)
        self.record = replace(self.record, proofs=proofs)
        self._count_compared_commits()
        return commits

    def _prove_partial_work(self, failure: Exception) -> None:
        """Proves what a failed attempt has committed; the phase stays the one that failed."""
        try:
            self._prove()
        except RowsChanged:
            raise
        except IcepackError as exc:
            raise EngineFault(f"{failure} Its commits could not be read: {exc}") from failure

    def _count_compared_commits(self) -> None:
        compared = [proof for proof in self.record.proofs if proof.method == VALUES]
        if not compared:
            return
        known = self.record.value_proof or ValueProof(level=ProofLevel.FULL, spark_groups=len(compared))
        rows = known.rows_compared + sum(proof.rows_before for proof in compared)
        proof = replace(known, commits_compared=len(compared), rows_compared=rows)
        self.record = replace(self.record, value_proof=proof)

    def _commits(self) -> Sequence[CommitFacts]:
        if not commits_snapshot(self._action.kind):
            return ()
        return self._dependencies.commit_reader.commits_of(self._table, self.record.job_id)

    def _succeeded(self, before: TableStatus, result: EngineResult, commits: Sequence[CommitFacts]) -> RunRecord:
        failed = result.failed_groups
        if failed and not commits and commits_snapshot(self._action.kind) and self._cancel.is_set():
            raise Cancelled("Stopped before anything was committed.")
        after = self._dependencies.inspector.inspect(self._table)
        if self._action.kind is ActionKind.EXPIRE_SNAPSHOTS:
            self.record = replace(self.record, proofs=prove_expiry(before, after))
        return replace(
            self.record,
            state=RunState.FAILED if failed else RunState.SUCCEEDED,
            message=format_failed_groups(result),
            after=self._totals(after),
            effect=compute_realised_effect(before, after, commits, result, self._action.kind),
            retryable=bool(failed),
            details={**(self.record.details or {}), **result.details} or None,
        )

    def _cancelled(self, exc: Cancelled) -> RunRecord:
        """The run counts as cancelled only if it has committed nothing; else it has failed, with part of it done."""
        try:
            committed = self._has_committed or self._committed_without_snapshot()
        except IcepackError as unread:
            return self._failed(f"{exc} Its commits could not be read: {unread}", retryable=True)
        if not committed:
            return replace(self.record, state=RunState.CANCELLED, message=str(exc))
        message = "Stopped after part of the work had been committed; what was committed is complete."
        return self._failed(message, retryable=True)

    def _committed_without_snapshot(self) -> bool:
        """Whether snapshots were removed or statistics added, for actions that add no snapshot."""
        if self._before is None or commits_snapshot(self._action.kind):
            return False
        after = self._dependencies.inspector.inspect(self._table)
        removed = list_snapshot_ids(self._before) - list_snapshot_ids(after)
        added = set(after.metadata.statistics_snapshot_ids) - set(self._before.metadata.statistics_snapshot_ids)
        return bool(removed or added)

    def _failed(self, message: str, *, retryable: bool) -> RunRecord:
        return replace(self.record, state=RunState.FAILED, message=message, retryable=retryable)


def check_has_location(item: AssumedLocations) -> None:
    """Raises Refused if the files may be anywhere, so that no file can be taken for an orphan."""
    if not item.locations:
        raise Refused(
            f"{item.sentence} Its files may be inside this table's location.",
            "Run `icepack health-sync --once` when it can be read, or set the catalog's warehouse to a location.",
        )
