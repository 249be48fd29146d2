"""RunRecord: what a run planned, what it did, and its estimated and actual cost and effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain
from math import inf
from typing import Any
from uuid import UUID

from icepack.domain.actions import Action, ActionKind
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.recommendation import ExpectedEffect
from icepack.domain.status import SizeBucket, TableStatus
from icepack.domain.table import TableId
from icepack.domain.verification import ValueProof


class RunState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Identifies a run in the summary of every snapshot that it commits."""

    job_id: UUID
    # The attempt of the job; a manual run, which has no job, counts its own attempts.
    attempt: int = 1
    # Increases each time that an attempt is planned again.
    batch: int = 1

    def properties(self, version: str) -> dict[str, str]:
        return {
            "icepack.job-id": str(self.job_id),
            "icepack.attempt": str(self.attempt),
            "icepack.batch": str(self.batch),
            "icepack.version": version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of a table at one time, small enough to keep forever."""

    snapshot_id: int | None
    data_files: int
    delete_files: int
    bytes: int
    records: int
    snapshots: int
    manifests: int
    score: int

    @property
    def average_bytes(self) -> float:
        return self.bytes / self.data_files if self.data_files else 0.0


def compute_totals(status: TableStatus, score: int) -> Totals:
    return Totals(
        snapshot_id=status.snapshot_id,
        data_files=status.data.count,
        delete_files=status.deletes.files,
        bytes=status.data.bytes,
        records=status.data.records,
        snapshots=status.snapshots.count,
        manifests=status.manifests.count,
        score=score,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """One of icepack's commits compared with its parent snapshot, according to the manifests."""

    snapshot_id: int
    parent_id: int | None
    operation: str
    added_data_files: int
    removed_data_files: int
    added_records: int
    removed_records: int
    added_bytes: int
    removed_bytes: int
    added_delete_files: int
    removed_delete_files: int
    # Delete files of the parent in the rewritten partitions; if 0, record counts alone prove that no row changed.
    deletes_before: int
    live_files_before: int
    live_files_after: int
    live_records_before: int
    live_records_after: int
    # False if the parent has expired in the meantime, so that there is nothing to compare with.
    parent_known: bool = True
    # The attempt in its stamp; 0 if it has none.
    attempt: int = 0
    # Deleted rows that a native rewrite dropped, counted before its commit; None for other commits.
    rows_dropped: int | None = None
    # Whether the commit contains only a part of what the action planned.
    is_part: bool = False
    # Added data files by size; empty size buckets are omitted.
    added_sizes: tuple[SizeBucket, ...] = ()

    @property
    def is_native(self) -> bool:
        """Only the native rewrite reports how many deleted rows it dropped."""
        return self.rows_dropped is not None

    @property
    def touches_files(self) -> bool:
        """False for a commit that only rewrites manifests."""
        changed = (
            self.added_data_files, self.removed_data_files, self.added_delete_files, self.removed_delete_files,
        )  # fmt: skip
        return any(changed)


def sum_sizes(distributions: Iterable[tuple[SizeBucket, ...]]) -> tuple[SizeBucket, ...]:
    """Adds up several size distributions; the smallest sizes come first."""
    counts: Counter[float] = Counter()
    volume: Counter[float] = Counter()
    for bucket in chain.from_iterable(distributions):
        bound = inf if bucket.below_bytes is None else bucket.below_bytes
        counts[bound] += bucket.count
        volume[bound] += bucket.bytes
    return tuple(
        SizeBucket(below_bytes=None if bound == inf else int(bound), count=counts[bound], bytes=volume[bound])
        for bound in sorted(counts)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Evidence that a run did not change any rows: the row counts before and after."""

    method: str
    rows_before: int
    rows_after: int

    @property
    def holds(self) -> bool:
        return self.rows_before == self.rows_after


@dataclass(frozen=True, slots=True, kw_only=True)
class RealisedEffect:
    """The measured effect of a run, read from snapshots and storage, not from the engine's result."""

    files_rewritten: int = 0
    files_added: int = 0
    bytes_rewritten: int = 0
    bytes_added: int = 0
    # Added data files by size; empty size buckets are omitted.
    added_sizes: tuple[SizeBucket, ...] = ()
    delete_files_removed: int = 0
    manifests_before: int = 0
    manifests_after: int = 0
    snapshots_removed: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0

    @property
    def is_empty(self) -> bool:
        return self == RealisedEffect(manifests_before=self.manifests_before, manifests_after=self.manifests_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run of one action on one table."""

    job_id: UUID
    table: TableId
    # Distinguishes the table from an earlier one of the same name.
    table_uuid: str = ""
    action: Action
    state: RunState
    started_at: datetime
    finished_at: datetime | None = None
    attempts: int = 1
    message: str = ""
    # Whether a retry may succeed.
    retryable: bool = False
    # The type of the error that ended the run; empty if it did not fail.
    error: str = ""
    before: Totals | None = None
    after: Totals | None = None
    effect: RealisedEffect = RealisedEffect()
    proofs: tuple[Proof, ...] = ()
    # What was compared by value; None for actions that do not rewrite rows.
    value_proof: ValueProof | None = None
    commits: tuple[int, ...] = ()
    expected: ExpectedEffect | None = None
    estimate: CostEstimate | None = None
    realised_seconds: float = 0.0
    details: dict[str, Any] | None = None
    version: int = 1

    @property
    def kind(self) -> ActionKind:
        return self.action.kind

    @property
    def changed_nothing(self) -> bool:
        return self.state is RunState.SUCCEEDED and self.effect.is_empty
