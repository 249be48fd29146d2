"""What a run record says about the outcome of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from icepack.clock import utc_now
from icepack.domain.actions import Action, ActionKind, RemoveOrphanFiles, deletes_files
from icepack.domain.ports.engine import EngineResult
from icepack.domain.run import CommitFacts, RealisedEffect, RunRecord, RunState, sum_sizes
from icepack.domain.status import TableStatus
from icepack.errors import IcepackError, Refused, RowsChanged, UsageError
from icepack.service.runs.proof import build_mismatch_message
from icepack.service.runs.request import RunRequest


def is_dry_run(action: Action) -> bool:
    """Whether the action changes nothing.

    Dry runs are not recorded: the record would prevent the real run from being recommended.
    """
    return isinstance(action, RemoveOrphanFiles) and action.dry_run


def is_retryable(failure: Exception) -> bool:
    """Whether a later attempt may succeed: not if the request is wrong, was refused, or changed the rows."""
    return not isinstance(failure, UsageError | Refused | RowsChanged)


def may_have_changed_table(record: RunRecord) -> bool:
    """Whether the table may differ from what it was before the run.

    A failed run counts as a change, because it may have committed part of its work.
    """
    if record.state in (RunState.REFUSED, RunState.CANCELLED):
        return False
    return bool(record.commits) or not record.changed_nothing


def build_failed_record(request: RunRequest, failure: Exception, now: datetime | None = None) -> RunRecord:
    """Records a run that failed before it could start."""
    failed_at = now or utc_now()
    message = str(failure) if isinstance(failure, IcepackError) else f"{type(failure).__name__}: {failure}"
    return RunRecord(
        job_id=request.job_id or uuid4(),
        table=request.table,
        action=request.action,
        state=RunState.REFUSED if isinstance(failure, Refused) else RunState.FAILED,
        started_at=failed_at,
        finished_at=failed_at,
        message=message,
        retryable=is_retryable(failure),
        error=type(failure).__name__,
        expected=request.expected,
        estimate=request.estimate,
    )


def add_mismatch_message(record: RunRecord) -> RunRecord:
    """Appends what a value mismatch means to the record's message."""
    proof = record.value_proof
    if proof is None or proof.mismatch is None:
        return record
    note = build_mismatch_message(record.table, proof.mismatch, replaced=record.state is RunState.SUCCEEDED)
    return replace(record, message=f"{record.message} {note}".strip())


def format_failed_groups(result: EngineResult) -> str:
    if not result.failed_groups:
        return ""
    failures = result.details.get("failures") or [""]
    return f"{result.failed_groups} groups failed; the others were committed. {failures[0]}".strip()


def list_snapshot_ids(status: TableStatus) -> set[int]:
    return {entry.snapshot_id for entry in status.snapshots.entries}


def compute_realised_effect(
    before: TableStatus,
    after: TableStatus,
    commits: Sequence[CommitFacts],
    result: EngineResult,
    kind: ActionKind,
) -> RealisedEffect:
    """Computes what the run changed from its own commits, so that other writers' changes are not included."""
    removed_snapshots = list_snapshot_ids(before) - list_snapshot_ids(after)
    return RealisedEffect(
        files_rewritten=sum(commit.removed_data_files for commit in commits),
        files_added=sum(commit.added_data_files for commit in commits),
        bytes_rewritten=sum(commit.removed_bytes for commit in commits),
        bytes_added=sum(commit.added_bytes for commit in commits),
        added_sizes=sum_sizes(commit.added_sizes for commit in commits),
        delete_files_removed=sum(commit.removed_delete_files - commit.added_delete_files for commit in commits),
        manifests_before=before.manifests.count,
        manifests_after=after.manifests.count if commits else before.manifests.count,
        snapshots_removed=len(removed_snapshots) if kind is ActionKind.EXPIRE_SNAPSHOTS else 0,
        files_deleted=result.files_deleted if deletes_files(kind) else 0,
        bytes_deleted=result.bytes_deleted if deletes_files(kind) else 0,
    )
