"""MaintenanceRunner: one action on one table, retried, proven and recorded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Protocol
from uuid import UUID, uuid4

from icepack.domain.actions import (
    Action,
    ActionKind,
    Compact,
    RemoveOrphanFiles,
    RewritePositionDeletes,
    commits_snapshot,
    deletes_files,
)
from icepack.domain.health import assess
from icepack.domain.locations import AssumedLocations, TableLocations
from icepack.domain.observability.trace import Phase, PhaseSink, no_phase
from icepack.domain.plan.compaction import CompactionPlan, plan_action
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.plan.expression import Expression, parse_filter
from icepack.domain.plan.select import SelectionRules
from icepack.domain.ports.engine import (
    ActionEngine,
    CommitLedger,
    EngineResult,
    HistoryStore,
    MetadataInspector,
    Progress,
    ProgressSink,
    RunContext,
    no_progress,
    unquestioned,
)
from icepack.domain.recommendation.recommend import ExpectedEffect
from icepack.domain.run import CommitFacts, RealisedEffect, RunRecord, RunState, Stamp, sum_sizes, totals
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.domain.verification import ProofLevel, ValueProof, VerificationStore
from icepack.errors import (
    Cancelled,
    CommitConflict,
    CommitStateUnknown,
    EngineFault,
    IcepackError,
    Refused,
    RowsChanged,
    UsageError,
)
from icepack.service.runs.proof import VALUES, carry_over, mismatch_message, prove, prove_expiry
from icepack.service.runs.resume import done_earlier, of_attempt

log = logging.getLogger(__name__)

DONE_EARLIER = EngineResult(details={"commit": "made by an earlier attempt of the job and found by its stamp"})


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential backoff between attempts that lost to another writer."""

    max_attempts: int = 5
    base_delay: timedelta = timedelta(milliseconds=200)

    def delay_seconds(self, attempt: int) -> float:
        return float(self.base_delay.total_seconds() * 2 ** (attempt - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to run, and what was expected of it."""

    table: TableId
    action: Action
    expected: ExpectedEffect | None = None
    estimate: CostEstimate | None = None
    progress: ProgressSink = no_progress
    cancel: Event | None = None
    job_id: UUID | None = None
    attempt: int | None = None
    """Which attempt of its job this is; None for a run by hand."""
    still_mine: Callable[[], None] = unquestioned
    """Raises Cancelled when the right to work on the table, and to speak for the job, is lost."""
    phase: PhaseSink = no_phase
    """Told which phase begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTools:
    """The ports a run works with."""

    inspector: MetadataInspector
    ledger: CommitLedger
    engine: ActionEngine
    history: HistoryStore
    locations: Callable[[], TableLocations]
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    clock: Callable[[], datetime] = utc_now
    verification: VerificationStore | None = None


class Runner(Protocol):
    """Whatever happens ends in a RunRecord, never in an exception."""

    def run(self, request: RunRequest) -> RunRecord: ...


class MaintenanceRunner:
    """Runs one action; whatever happens ends in a RunRecord, never in an exception."""

    def __init__(self, tools: RunTools) -> None:
        self._tools = tools

    def run(self, request: RunRequest) -> RunRecord:
        record = RunRecord(
            job_id=request.job_id or uuid4(),
            table=request.table,
            action=request.action,
            state=RunState.RUNNING,
            started_at=self._tools.clock(),
            expected=request.expected,
            estimate=request.estimate,
        )
        self._remember(record, request)
        ended = _Execution(self._tools, request, record).finish()
        finished = self._tools.clock()
        ended = replace(ended, finished_at=finished, realised_seconds=(finished - record.started_at).total_seconds())
        self._remember(ended, request)
        return ended

    def _remember(self, record: RunRecord, request: RunRequest) -> None:
        if is_dry_run(record.action):
            return
        try:
            if request.attempt is not None:
                # A job has one record: whoever lost the job must not write over its successor's.
                request.still_mine()
        except Cancelled as exc:
            log.warning("%s on %s is not remembered: %s", record.kind, record.table, exc)
        else:
            self._tools.history.save(record)


class _Execution:
    """The state of one run while it is under way."""

    def __init__(self, tools: RunTools, request: RunRequest, record: RunRecord) -> None:
        self._tools = tools
        self._request = request
        self._table = request.table
        self._action = request.action
        self._cancel = request.cancel or Event()
        self._before: TableStatus | None = None
        self._has_committed = False
        self.record = record

    def finish(self) -> RunRecord:
        return _with_mismatch(self._with_earlier_mismatch(self._end()))

    def _with_earlier_mismatch(self, record: RunRecord) -> RunRecord:
        """An earlier attempt of the job has no record any more; a mismatch that it found is known by the switch."""
        store = self._tools.verification
        if store is None or (self._request.attempt or 1) == 1 or not isinstance(self._action, Compact):
            return record
        off = store.native_disabled(self._table)
        if off is None or off.mismatch is None or off.job_id != record.job_id:
            return record
        proof = record.value_proof or ValueProof(level=self._action.proof)
        return replace(record, value_proof=replace(proof, mismatch=proof.mismatch or off.mismatch))

    def _end(self) -> RunRecord:
        try:
            return self._carry_out()
        except Cancelled as exc:
            return self._cancelled(exc)
        except Refused as exc:
            return replace(self.record, state=RunState.REFUSED, message=str(exc), error=type(exc).__name__)
        except IcepackError as exc:
            return replace(self._failed(str(exc), retryable=is_worth_retrying(exc)), error=type(exc).__name__)
        except Exception as exc:
            log.exception("%s on %s failed unexpectedly", self._action.kind, self._table)
            said = f"{type(exc).__name__}: {exc}"
            return replace(self._failed(said, retryable=True), error=type(exc).__name__)

    def _carry_out(self) -> RunRecord:
        self._request.phase(Phase.PLANNING)
        self._before = before = self._tools.inspector.inspect(self._table)
        score = assess(before, self._tools.clock()).score
        self.record = replace(self.record, table_uuid=before.table_uuid, before=totals(before, score))
        try:
            result = self._resumed() or self._attempt_until_done()
        except Exception as exc:
            self._account_for(exc)
            raise
        return self._succeeded(before, result, self._prove())

    def _prove(self) -> Sequence[CommitFacts]:
        self._request.phase(Phase.COMMIT)
        return self._look_back()

    def _look_back(self) -> Sequence[CommitFacts]:
        commits = self._commits()
        self._has_committed = bool(of_attempt(commits, self._request.attempt))
        self.record = replace(self.record, commits=tuple(commit.snapshot_id for commit in commits))
        by_value = isinstance(self._action, Compact) and self._action.proof is ProofLevel.FULL
        proofs = prove(self._table, commits, self._tools.engine, by_value=by_value)
        self.record = replace(self.record, proofs=proofs)
        self._count_compared_commits()
        return commits

    def _count_compared_commits(self) -> None:
        compared = [proof for proof in self.record.proofs if proof.method == VALUES]
        if not compared:
            return
        known = self.record.value_proof or ValueProof(level=ProofLevel.FULL, spark_groups=len(compared))
        rows = known.rows_compared + sum(proof.rows_before for proof in compared)
        proof = replace(known, commits_compared=len(compared), rows_compared=rows)
        self.record = replace(self.record, value_proof=proof)

    def _account_for(self, failure: Exception) -> None:
        """An attempt that failed may have committed part of its work, for which the same proof holds.

        The phase stays the one in which it failed.
        """
        try:
            self._look_back()
        except RowsChanged:
            raise
        except IcepackError as exc:
            raise EngineFault(f"{failure} Whether anything was committed could not be read: {exc}") from failure

    def _resumed(self) -> EngineResult | None:
        """A job that was tried before may have been done, and only nobody lived to tell."""
        attempt = self._request.attempt
        if attempt is None or attempt == 1 or not done_earlier(self._action, self._commits(), attempt):
            return None
        return DONE_EARLIER

    def _attempt_until_done(self) -> EngineResult:
        """A lost attempt is planned again from the current snapshot; nothing left to do is a success."""
        retry = self._tools.retry
        attempt, known = 1, 0
        while True:
            try:
                return self._attempt(attempt)
            except (CommitConflict, CommitStateUnknown) as exc:
                commits = self._commits()
                if done_earlier(self._action, commits, self._request.attempt):
                    return DONE_EARLIER
                found = len(of_attempt(commits, self._request.attempt))
                if isinstance(exc, CommitStateUnknown) and found > known:
                    return EngineResult(details={"commit": "its answer was lost, its snapshot was found by its stamp"})
                if attempt >= retry.max_attempts:
                    raise
                known = found
                log.info("attempt %d of %s on %s: %s", attempt, self._action.kind, self._table, exc)
                self._cancel.wait(retry.delay_seconds(attempt))
                attempt += 1

    def _attempt(self, attempt: int) -> EngineResult:
        if self._cancel.is_set():
            raise Cancelled("Stopped before it began.")
        self.record = replace(self.record, attempts=attempt)
        now = self._tools.clock()
        context = RunContext(
            stamp=Stamp(job_id=self.record.job_id, attempt=self._request.attempt or attempt, batch=attempt),
            now=now,
            where=self._where(now),
            foreign_locations=self._foreign_locations(),
            progress=self._tell,
            cancel=self._cancel,
            still_mine=self._request.still_mine,
            plan=lambda: self._plan(now),
            verification=self._tools.verification,
            proven=self._note_proof,
        )
        context.still_mine()
        self._request.phase(Phase.EXECUTION)
        result = self._tools.engine.run(self._table, self._action, context)
        if result.value_proof is not None:
            self._note_proof(result.value_proof)
        return result

    def _note_proof(self, proof: ValueProof) -> None:
        """The last one counts, also if the attempt then fails."""
        self.record = replace(self.record, value_proof=carry_over(self.record.value_proof, proof))

    def _plan(self, now: datetime) -> CompactionPlan:
        assert isinstance(self._action, Compact)
        assert self._before is not None
        listing = self._tools.inspector.files(self._table, self._where(now))
        rules = SelectionRules.by_hand(self._before.target_file_bytes)
        return plan_action(self._action, listing, otherwise=rules, now=now)

    def _tell(self, progress: Progress) -> None:
        """Once its last group of files is written, all that an engine has left to do is to commit."""
        if progress.groups and progress.groups_done >= progress.groups:
            self._request.phase(Phase.COMMIT)
        self._request.progress(progress)

    def _where(self, now: datetime) -> Expression | None:
        if isinstance(self._action, Compact | RewritePositionDeletes) and self._action.partition_filter:
            return parse_filter(self._action.partition_filter, now)
        return None

    def _foreign_locations(self) -> Mapping[str, str]:
        if self._action.kind is not ActionKind.REMOVE_ORPHAN_FILES:
            return {}
        found = self._tools.locations()
        assumed = found.assumed_besides(self._table)
        if assumed:
            log.warning("%s on %s assumes: %s", self._action.kind, self._table, " ".join(i.sentence for i in assumed))
            self.record = replace(self.record, details={"assumed_locations": [item.to_details() for item in assumed]})
        for item in assumed:
            check_is_somewhere(item)
        return found.besides(self._table)

    def _commits(self) -> Sequence[CommitFacts]:
        if not commits_snapshot(self._action.kind):
            return ()
        return self._tools.ledger.commits_of(self._table, self.record.job_id)

    def _succeeded(self, before: TableStatus, result: EngineResult, commits: Sequence[CommitFacts]) -> RunRecord:
        failed = result.failed_groups
        if failed and not commits and commits_snapshot(self._action.kind) and self._cancel.is_set():
            raise Cancelled("Stopped before anything was committed.")
        after = self._tools.inspector.inspect(self._table)
        if self._action.kind is ActionKind.EXPIRE_SNAPSHOTS:
            self.record = replace(self.record, proofs=prove_expiry(before, after))
        return replace(
            self.record,
            state=RunState.FAILED if failed else RunState.SUCCEEDED,
            message=f"{failed} parts failed; the rest was committed. {_failure_text(result)}".strip() if failed else "",
            after=totals(after, assess(after, self._tools.clock()).score),
            effect=realised(before, after, commits, result, self._action.kind),
            retryable=bool(failed),
            details={**(self.record.details or {}), **result.details} or None,
        )

    def _cancelled(self, exc: Cancelled) -> RunRecord:
        """Cancelled only if nothing was committed; else it is what it is: done in part."""
        try:
            committed = self._has_committed or self._committed_without_snapshot()
        except IcepackError as unread:
            return self._failed(f"{exc} Whether anything was committed could not be read: {unread}", retryable=True)
        if not committed:
            return replace(self.record, state=RunState.CANCELLED, message=str(exc))
        said = "Stopped after part of the work had been committed; what was committed is complete."
        return self._failed(said, retryable=True)

    def _committed_without_snapshot(self) -> bool:
        """Whether snapshots went or statistics came, for the actions that leave no snapshot of their own."""
        if self._before is None or commits_snapshot(self._action.kind):
            return False
        after = self._tools.inspector.inspect(self._table)
        lost = _snapshot_ids(self._before) - _snapshot_ids(after)
        new = set(after.metadata.statistics_snapshot_ids) - set(self._before.metadata.statistics_snapshot_ids)
        return bool(lost or new)

    def _failed(self, message: str, *, retryable: bool) -> RunRecord:
        return replace(self.record, state=RunState.FAILED, message=message, retryable=retryable)


def _with_mismatch(record: RunRecord) -> RunRecord:
    proof = record.value_proof
    if proof is None or proof.mismatch is None:
        return record
    said = mismatch_message(record.table, proof.mismatch, replaced=record.state is RunState.SUCCEEDED)
    return replace(record, message=f"{record.message} {said}".strip())


def is_dry_run(action: Action) -> bool:
    """It touches nothing; and it is not remembered, since that would keep the real one from being recommended."""
    return isinstance(action, RemoveOrphanFiles) and action.dry_run


def check_is_somewhere(item: AssumedLocations) -> None:
    """What may lie anywhere may lie here: then no file can be taken for an orphan."""
    if not item.locations:
        raise Refused(
            f"{item.sentence} They might lie inside this table's location.",
            "Run `icepack health-sync --once` while it can be read, or set the catalog's warehouse to a location.",
        )


def is_worth_retrying(failure: Exception) -> bool:
    """Whether the same again, later, may succeed: not where the request, a guard rail or the rows were the trouble."""
    return not isinstance(failure, UsageError | Refused | RowsChanged)


def failed_record(request: RunRequest, failure: Exception, now: datetime | None = None) -> RunRecord:
    """For a run that did not come to its start."""
    moment = now or utc_now()
    said = str(failure) if isinstance(failure, IcepackError) else f"{type(failure).__name__}: {failure}"
    return RunRecord(
        job_id=request.job_id or uuid4(),
        table=request.table,
        action=request.action,
        state=RunState.REFUSED if isinstance(failure, Refused) else RunState.FAILED,
        started_at=moment,
        finished_at=moment,
        message=said,
        retryable=is_worth_retrying(failure),
        error=type(failure).__name__,
        expected=request.expected,
        estimate=request.estimate,
    )


def _snapshot_ids(status: TableStatus) -> set[int]:
    return {entry.snapshot_id for entry in status.snapshots.entries}


def _failure_text(result: EngineResult) -> str:
    failures = result.details.get("failures") or []
    return str(failures[0]) if failures else ""


def realised(
    before: TableStatus,
    after: TableStatus,
    commits: Sequence[CommitFacts],
    result: EngineResult,
    kind: ActionKind,
) -> RealisedEffect:
    """What really changed: from our own commits, so that other writers' work is not claimed."""
    gone = _snapshot_ids(before) - _snapshot_ids(after)
    return RealisedEffect(
        files_rewritten=sum(commit.removed_data_files for commit in commits),
        files_added=sum(commit.added_data_files for commit in commits),
        bytes_rewritten=sum(commit.removed_bytes for commit in commits),
        bytes_added=sum(commit.added_bytes for commit in commits),
        added_sizes=sum_sizes(commit.added_sizes for commit in commits),
        delete_files_removed=sum(commit.removed_delete_files - commit.added_delete_files for commit in commits),
        manifests_before=before.manifests.count,
        manifests_after=after.manifests.count if commits else before.manifests.count,
        snapshots_removed=len(gone) if kind is ActionKind.EXPIRE_SNAPSHOTS else 0,
        files_deleted=result.files_deleted if deletes_files(kind) else 0,
        bytes_deleted=result.bytes_deleted if deletes_files(kind) else 0,
    )
