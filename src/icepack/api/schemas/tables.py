"""Schemas of tables: their status, health, plans, history, snapshots and partitions."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from icepack.api.schemas.base import ResponseModel
from icepack.domain.actions import ActionKind
from icepack.domain.health import HealthReport, IssueCode, Severity
from icepack.domain.health_explanation import ExpectedGain, IssueExplanation
from icepack.domain.job import JobProgress
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.plan.score import PartitionScore
from icepack.domain.policy import Policy
from icepack.domain.recommendation import Recommendation
from icepack.domain.run import RunRecord, Totals
from icepack.domain.status import PartitionStatus, Ref, SizeBucket, SmallFiles, TableStatus
from icepack.domain.table import TableId
from icepack.domain.verification import NativeDisabled


class RunningJobView(ResponseModel):
    """The job that is running on a table."""

    job_id: UUID
    action: ActionKind
    started_at: datetime | None
    progress: JobProgress


class TableSummaryView(ResponseModel):
    table: TableId
    table_name: str
    score: int
    inspected_at: datetime
    totals: Totals
    issues: list[IssueCode]
    # The severity of the worst issue.
    severity: Severity | None
    # The recommended actions, in order.
    actions: list[ActionKind]
    # The estimated cost of these actions.
    estimated_dollars: float
    partitions: int
    last_compaction_at: datetime | None
    last_commit_at: datetime | None
    # Whether the native rewrite is disabled for the table.
    native_disabled: bool = False
    running: RunningJobView | None = None


class TablePage(ResponseModel):
    tables: list[TableSummaryView]
    # The number of tables on all pages.
    total: int
    next_cursor: str | None


class TableView(ResponseModel):
    """A table; the partitions and snapshots of its `status` are omitted, because they have their own pages."""

    table: TableId
    table_name: str
    status: TableStatus
    health: HealthReport
    recommendation: Recommendation | None
    # Why the score is below 100: the deductions, the largest first.
    reasons: list[IssueExplanation]
    # The expected gain of each recommended action, in the order in which they run.
    gains: list[ExpectedGain]
    # The estimated score after all of these actions.
    expected_score: int
    # The effective policy; null if the table's own properties are invalid.
    policy: Policy | None
    # Set while the native rewrite is disabled for the table: since when, why, and what differed.
    native_disabled: NativeDisabled | None = None
    running: RunningJobView | None


class PlanView(ResponseModel):
    """A dry run, estimated by partition from the cached status."""

    table_name: str
    observed_at: datetime
    compaction: CompactionPlan
    recommendation: Recommendation | None


class StatusPointView(ResponseModel):
    observed_at: datetime
    totals: Totals


class HistoryView(ResponseModel):
    table_name: str
    # The newest first.
    runs: list[RunRecord]
    # The table's totals over time, the oldest first.
    points: list[StatusPointView]
    next_before: datetime | None


class SnapshotView(ResponseModel):
    """A snapshot; its ids are also strings, because they exceed the integer precision of some JSON parsers."""

    snapshot_id: int
    parent_id: int | None
    id: str
    parent: str | None
    committed_at: datetime
    operation: str
    current: bool
    # The branches and tags that point to the snapshot.
    refs: list[str]
    # The icepack run that committed the snapshot.
    job_id: str | None = None
    # The action of that run, as long as its record is kept.
    action: ActionKind | None = None
    # Whether a job with that id exists.
    has_job: bool = False


class SnapshotList(ResponseModel):
    count: int
    oldest_at: datetime | None
    newest_at: datetime | None
    refs: list[Ref]
    entries: list[SnapshotView]


class SnapshotsView(ResponseModel):
    table_name: str
    observed_at: datetime
    snapshot_id: int | None
    snapshots: SnapshotList


class HistogramView(ResponseModel):
    table_name: str
    observed_at: datetime
    count: int
    bytes: int
    target_file_bytes: int
    histogram: list[SizeBucket]
    small: list[SmallFiles]


class ScoredPartition(ResponseModel):
    partition: PartitionStatus
    # From 0 (leave it) to 1 (most urgent).
    score: float
    # The terms that add up to the score.
    parts: PartitionScore
    # Whether the next compaction is expected to select the partition.
    planned: bool
    # Why the compaction selects the partition or skips it.
    reason: str


class PartitionPage(ResponseModel):
    table_name: str
    observed_at: datetime
    partitions: list[ScoredPartition]
    total: int
    next_offset: int | None
