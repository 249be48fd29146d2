"""RunRecord: what was planned, what happened, and what it cost and gained."""

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
from icepack.domain.recommendation.recommend import ExpectedEffect
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
    """What a run writes into the summary of every snapshot it commits."""

    job_id: UUID
    attempt: int = 1
    """The job's; a run by hand, which has no job, counts its own."""
    batch: int = 1
    """Grows with each time that an attempt is planned anew."""

    def properties(self, version: str) -> dict[str, str]:
        return {
            "icepack.job-id": str(self.job_id),
            "icepack.attempt": str(self.attempt),
            "icepack.batch": str(self.batch),
            "icepack.version": version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """A table's figures at one moment, small enough to keep forever."""

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


def totals(status: TableStatus, score: int) -> Totals:
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
    """One snapshot of ours beside its own parent, as the manifests tell it."""

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
    deletes_before: int
    """Delete files the parent had in the partitions that were rewritten; 0 makes the records conclusive."""
    live_files_before: int
    live_files_after: int
    live_records_before: int
    live_records_after: int
    parent_known: bool = True
    """False when the parent has expired meanwhile, so that there is nothing to compare with."""
    attempt: int = 0
    """As its stamp says; 0 where it does not."""
    rows_dropped: int | None = None
    """Deleted rows that a native rewrite has left out, counted before its commit."""
    is_part: bool = False
    """Whether the commit holds only part of what the action planned."""
    added_sizes: tuple[SizeBucket, ...] = ()
    """The data files that it added, by size; sizes that none has are left out."""

    @property
    def is_native(self) -> bool:
        """Only the native rewrite says how many deleted rows it has left out."""
        return self.rows_dropped is not None

    @property
    def touches_files(self) -> bool:
        """Rewriting manifests touches none."""
        changed = (
            self.added_data_files, self.removed_data_files, self.added_delete_files, self.removed_delete_files,
        )  # fmt: skip
        return any(changed)


def sum_sizes(many: Iterable[tuple[SizeBucket, ...]]) -> tuple[SizeBucket, ...]:
    """Several distributions as one, the smallest sizes first."""
    counts: Counter[float] = Counter()
    volume: Counter[float] = Counter()
    for bucket in chain.from_iterable(many):
        bound = inf if bucket.below_bytes is None else bucket.below_bytes
        counts[bound] += bucket.count
        volume[bound] += bucket.bytes
    return tuple(
        SizeBucket(below_bytes=None if bound == inf else int(bound), count=counts[bound], bytes=volume[bound])
        for bound in sorted(counts)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How it is known that no row changed."""

    method: str
    rows_before: int
    rows_after: int

    @property
    def holds(self) -> bool:
        return self.rows_before == self.rows_after


@dataclass(frozen=True, slots=True, kw_only=True)
class RealisedEffect:
    """Read from the snapshots and the storage, not from what the engine returned."""

    files_rewritten: int = 0
    files_added: int = 0
    bytes_rewritten: int = 0
    bytes_added: int = 0
    added_sizes: tuple[SizeBucket, ...] = ()
    """The data files that were added, by size; sizes that none has are left out."""
    delete_files_removed: int = 0
    manifests_before: int = 0
    manifests_after: int = 0
    snapshots_removed: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0

    @property
    def is_nothing(self) -> bool:
        return self == RealisedEffect(manifests_before=self.manifests_before, manifests_after=self.manifests_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One action on one table, from start to end."""

    job_id: UUID
    table: TableId
    table_uuid: str = ""
    """Tells a table from another that had its name before."""
    action: Action
    state: RunState
    started_at: datetime
    finished_at: datetime | None = None
    attempts: int = 1
    message: str = ""
    retryable: bool = False
    """Whether the same again, later, may succeed."""
    error: str = ""
    """Which kind of error ended it; empty when none did."""
    before: Totals | None = None
    after: Totals | None = None
    effect: RealisedEffect = RealisedEffect()
    proofs: tuple[Proof, ...] = ()
    value_proof: ValueProof | None = None
    """What was compared by value; None for actions that rewrite no rows."""
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
        return self.state is RunState.SUCCEEDED and self.effect.is_nothing
