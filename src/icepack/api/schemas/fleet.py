"""What goes over the wire about tables and the whole fleet."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from icepack.api.schemas.jobs import Asked, JsonObject, Name, Text, Wire
from icepack.domain.actions import ActionKind
from icepack.domain.health import HealthReport, IssueCode, Severity
from icepack.domain.health_explanation import Gain, Reason
from icepack.domain.job import JobProgress, JobState
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.plan.score import PartitionScore
from icepack.domain.policy import Policy
from icepack.domain.ports.access import WorkerCounts
from icepack.domain.recommendation.recommend import Recommendation
from icepack.domain.run import RunRecord, Totals
from icepack.domain.status import PartitionStatus, Ref, SizeBucket, SmallFiles, TableStatus
from icepack.domain.table import TableId
from icepack.domain.verification import NativeDisabled
from icepack.service.views.overview import CostFigures, TableFigures


class RunningView(Wire):
    """The job that works on a table just now."""

    job_id: UUID
    action: ActionKind
    started_at: datetime | None
    progress: JobProgress


class TableListed(Wire):
    table: TableId
    table_name: str
    score: int
    inspected_at: datetime
    totals: Totals
    issues: list[IssueCode]
    severity: Severity | None
    """That of the worst issue."""
    actions: list[ActionKind]
    """What is recommended, in order."""
    estimated_dollars: float
    """An estimate: what that should cost."""
    partitions: int
    last_compaction_at: datetime | None
    last_commit_at: datetime | None
    native_disabled: bool = False
    """Whether the native rewrite is switched off for it."""
    running: RunningView | None = None


class TablePage(Wire):
    tables: list[TableListed]
    total: int
    """How many there are on all pages."""
    next_cursor: str | None


class TableView(Wire):
    """All that is known of a table; `status` leaves its partitions and snapshots to pages of their own."""

    table: TableId
    table_name: str
    status: TableStatus
    health: HealthReport
    recommendation: Recommendation | None
    reasons: list[Reason]
    """Why points are missing from 100, the heaviest first."""
    gains: list[Gain]
    """What each recommended action should bring, in the order in which they run."""
    expected_score: int
    """An estimate: the score once all of that has run."""
    policy: Policy | None
    """All layers merged; null where the table's own properties cannot be read."""
    native_disabled: NativeDisabled | None = None
    """Set while the native rewrite is switched off for the table: since when, why, and what differed."""
    running: RunningView | None


class PlanView(Wire):
    """The dry run, estimated partition by partition from the cached status."""

    table_name: str
    observed_at: datetime
    compaction: CompactionPlan
    recommendation: Recommendation | None


class PartitionWhy(Wire):
    path: str
    spec_id: int
    planned: bool
    reason: str
    """Why, or why not."""


class JobPlan(Wire):
    """What a job's compaction takes, estimated from the cached status of its table."""

    job_id: UUID
    table_name: str
    observed_at: datetime
    looked_at_since: bool
    """Whether the table was looked at after the job had begun: then this is what it would do now."""
    compaction: CompactionPlan | None
    """Null for other actions."""
    partitions: list[PartitionWhy]
    """Those that are taken first; at most a thousand."""
    partitions_total: int


class StatusPointView(Wire):
    observed_at: datetime
    totals: Totals


class HistoryView(Wire):
    table_name: str
    runs: list[RunRecord]
    """The newest first."""
    points: list[StatusPointView]
    """The table's figures over time, the oldest first."""
    next_before: datetime | None


class SnapshotShown(Wire):
    """Ids also as text: they are too large for some readers of JSON."""

    snapshot_id: int
    parent_id: int | None
    id: str
    parent: str | None
    committed_at: datetime
    operation: str
    current: bool
    refs: list[str]
    """Branches and tags that point here."""
    job_id: str | None = None
    """Of the run of icepack that committed it."""
    action: ActionKind | None = None
    """What that run did, while it is remembered."""
    has_job: bool = False
    """Whether there is a job of that id to look at."""


class SnapshotList(Wire):
    count: int
    oldest_at: datetime | None
    newest_at: datetime | None
    refs: list[Ref]
    entries: list[SnapshotShown]


class SnapshotsView(Wire):
    table_name: str
    observed_at: datetime
    snapshot_id: int | None
    snapshots: SnapshotList


class HistogramView(Wire):
    table_name: str
    observed_at: datetime
    count: int
    bytes: int
    target_file_bytes: int
    histogram: list[SizeBucket]
    small: list[SmallFiles]


class ScoredPartition(Wire):
    partition: PartitionStatus
    score: float
    """From 0, leave it, to 1, first in line."""
    parts: PartitionScore
    """What the score is the sum of."""
    planned: bool
    """Whether the next compaction takes it; an estimate."""
    reason: str
    """Why, or why not."""


class PartitionPage(Wire):
    table_name: str
    observed_at: datetime
    partitions: list[ScoredPartition]
    total: int
    next_offset: int | None


class CacheView(Wire):
    generation: int | None
    refreshed_at: datetime | None
    age: str | None
    refreshing_since: datetime | None
    failed_at: datetime | None
    failure: str


class OverviewView(Wire):
    tables: TableFigures
    trend: list[TrendPoint]
    """The last thirty days, the oldest first; days on which nobody looked are left out."""
    maintenance: CostFigures
    """Runs of the last thirty days: what they saved and cost, estimated beside realised."""
    sickest: list[TableListed]
    jobs: dict[JobState, int]
    jobs_last_day: dict[JobState, int]
    """Those that have ended within 24 hours, by how they did."""
    workers: WorkerCounts
    cache: CacheView
    native_disabled: int = 0
    """Tables for which the native rewrite is switched off."""


class CostView(Wire):
    """What runs should cost beside what they did; the seconds were measured, prices are those of the configuration."""

    since: datetime
    until: datetime
    total: CostFigures
    by_day: dict[str, CostFigures]
    by_action: dict[str, CostFigures]
    by_table: dict[str, CostFigures]
    """Those that took longest."""


class LockView(Wire):
    table: TableId
    table_name: str
    owner: str
    token: int
    purpose: str
    taken_at: datetime
    expires_at: datetime
    expired: bool
    job_id: UUID | None


class LocksView(Wire):
    locks: list[LockView]


class AuditEntry(Wire):
    number: int
    at: datetime
    actor: str
    action: str
    subject: str
    origin: str
    outcome: str
    details: dict[str, Any]


class AuditPage(Wire):
    entries: list[AuditEntry]
    next_before: int | None


class UpcomingRun(Wire):
    table: str
    due_at: datetime
    tick: datetime
    opens_at: datetime
    jitter_seconds: float
    schedule: str
    compaction: dict[str, Any] | None


class HourView(Wire):
    hour: datetime
    runs: int


class UpcomingView(Wire):
    enabled: bool
    from_: datetime = Field(serialization_alias="from", validation_alias="from")
    until: datetime
    timezone: str
    runs: list[UpcomingRun]
    total: int
    by_hour: list[HourView]
    """How many may begin in each hour that has any; jitter, which spreads them, is left out."""


class PolicyOverride(Asked):
    """Settings for every table that `match` means, in the words of `policies` in icepack.yaml."""

    match: Name
    settings: Annotated[JsonObject, Field(min_length=1, max_length=50)]


class ScheduleOverride(Asked):
    """A schedule for every table that `match` means, in the words of `tables` in icepack.yaml."""

    match: Name
    schedule: Annotated[Text, Field(min_length=1)]
    options: JsonObject = Field(default={}, max_length=50)
    """A compaction with exactly these settings; without any, whatever is recommended then."""


class PutPolicies(Asked):
    overrides: Annotated[list[PolicyOverride], Field(max_length=1000)]
    version: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """The version that was read; if it is another by now, nothing is changed."""


class PutSchedules(Asked):
    overrides: Annotated[list[ScheduleOverride], Field(max_length=1000)]
    version: Annotated[int, Field(ge=0, lt=2**31)] | None = None


class SettingChange(Wire):
    before: Any
    after: Any


class PolicyChangeView(Wire):
    """A table whose effective policy would be another, and what that would do to what is recommended."""

    table_name: str
    settings: dict[str, SettingChange]
    actions_before: list[ActionKind]
    actions_after: list[ActionKind]
    recommendation_changes: bool
    """Also where the same action would be recommended with other parameters."""
    before: Recommendation
    after: Recommendation
    estimated: bool
    """Whether the new settings also change what counts as small: then the next look at the table will tell."""


class PolicyPreviewView(Wire):
    """Nothing was saved."""

    tables: int
    """Tables whose effective policy would be another."""
    recommendations: int
    """Among the tables below, those for which something else would be recommended."""
    changes: list[PolicyChangeView]
    """As many of them as were asked for."""


class ScheduleChangeView(Wire):
    table_name: str
    schedule_before: str
    schedule_after: str
    compaction_before: dict[str, Any] | None
    compaction_after: dict[str, Any] | None
    runs_before: int
    runs_after: int
    next_before: datetime | None
    next_after: datetime | None


class SchedulePreviewView(Wire):
    """Nothing was saved."""

    enabled: bool
    from_: datetime = Field(serialization_alias="from", validation_alias="from")
    until: datetime
    timezone: str
    tables: int
    """Tables whose schedule would be another."""
    changes: list[ScheduleChangeView]
    runs: list[UpcomingRun]
    """What would run on these tables, in order."""
    total: int


class PolicyLine(Wire):
    match: str
    settings: dict[str, Any]


class ScheduleLine(Wire):
    match: str
    schedule: str
    options: dict[str, Any]


class PoliciesView(Wire):
    """Layers, later wins: `base`, `configured`, `overrides`, the table's own properties."""

    base: dict[str, Any]
    configured: list[PolicyLine]
    overrides: list[PolicyLine]
    version: int
    changed_at: datetime | None
    changed_by: str


class SchedulesView(Wire):
    enabled: bool
    default_schedule: str
    timezone: str
    jitter: str
    configured: list[ScheduleLine]
    overrides: list[ScheduleLine]
    version: int
    changed_at: datetime | None
    changed_by: str
