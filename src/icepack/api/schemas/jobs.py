"""Schemas of jobs: requests that submit them, and responses that show them.

Responses use the field names of the command line's JSON.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from icepack.api.schemas.base import DurationText, Name, RequestModel, ResponseModel, SizeText, Text
from icepack.domain.actions import Action, ActionKind, Layout, RewriteEngine, Strategy
from icepack.domain.job import (
    DEFAULT_MAX_ATTEMPTS,
    MAX_PRIORITY,
    JobEventKind,
    JobProgress,
    JobState,
    SubmissionOutcome,
)
from icepack.domain.observability.trace import Phase
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.table import TableId
from icepack.domain.verification import ProofLevel

Columns = Annotated[list[Name], Field(max_length=100)]
Dollars = Annotated[float, Field(ge=0, le=1e9)]
Priority = Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]
MaxAttempts = Annotated[int, Field(ge=1, le=100)]
BigInt = Annotated[int, Field(ge=-(2**63), lt=2**63)]
ProcedureOptions = Annotated[dict[Name, Text], Field(max_length=100)]


class CompactOptions(RequestModel):
    """Parameters of a compaction; the policy supplies those that are omitted."""

    target_file_size: SizeText | None = None
    # In dollars. A request whose estimate exceeds it is refused.
    max_cost: Dollars | None = None
    partition_filter: Text | None = None
    layout: Layout | None = None
    columns: Columns | None = None
    min_input_files: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    engine: RewriteEngine | None = None
    # How much rewritten data is compared by value: only row counts, new file classes and a sample, or all groups.
    proof: ProofLevel | None = None
    partial_progress: bool | None = None
    rewrite_all: bool | None = None


class JobOptions(RequestModel):
    """Options that every job has, whatever its action."""

    priority: Priority = 0
    not_before: AwareDatetime | None = None
    max_attempts: MaxAttempts | None = Field(default=None, description=f"Defaults to {DEFAULT_MAX_ATTEMPTS}.")


class CompactRequest(JobOptions):
    """Catalog and namespace may be omitted if the table name alone is unambiguous."""

    catalog: Name | None = None
    namespace: Name | None = None
    table: Name
    strategy: (
        Literal["small_files", "delete_files", "time_series", "small-files", "delete-files", "time-series"] | None
    ) = None
    options: CompactOptions = CompactOptions()


class ActionOptions(CompactOptions):
    """Parameters of all actions; each action accepts its own, and the policy supplies those that are omitted."""

    strategy: Strategy | None = None
    older_than: DurationText | None = None
    retain_last: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    snapshot_ids: Annotated[list[BigInt], Field(max_length=10_000)] | None = None
    clean_expired_metadata: bool | None = None
    location: Text | None = None
    override_age_floor: bool | None = None
    dry_run: bool | None = None
    spec_id: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    remove_dangling: bool | None = None
    snapshot_id: BigInt | None = None
    partition_stats: bool | None = None
    # Any option of Iceberg's own procedure.
    options: ProcedureOptions | None = None


class RunActionRequest(JobOptions):
    options: ActionOptions = ActionOptions()


class MaintainRequest(RequestModel):
    """Asks for every action that is recommended for these tables."""

    # Table names and globs.
    tables: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    # Only these actions; they run in their usual order.
    actions: Annotated[list[ActionKind], Field(max_length=len(ActionKind))] | None = None
    priority: Priority = 0
    # Only report what would be submitted.
    dry_run: bool = False


class JobAccepted(ResponseModel):
    """A job that was queued."""

    job_id: UUID
    status: JobState
    created_at: datetime
    # An estimate; null if the duration of such an action is unknown.
    estimated_duration_seconds: float | None
    estimated_cost: CostEstimate | None = None
    outcome: SubmissionOutcome
    table_name: str
    action: ActionKind


class MaintainAccepted(ResponseModel):
    jobs: list[JobAccepted]
    # The recommended actions by table: what was submitted, or would be in a dry run.
    recommended: list[dict[str, Any]]


class JobSummaryView(ResponseModel):
    """A job.

    It has the API's field names (`job_id`, `status`, `created_at`) and those of the command line's JSON (`id`,
    `state`, `submitted_at`).
    """

    job_id: UUID
    status: JobState
    created_at: datetime
    estimated_duration_seconds: float | None = None
    # An estimate, extrapolated from the progress once there is some.
    estimated_completion: datetime | None = None
    id: UUID
    number: int
    table: TableId
    table_name: str
    action: Action
    state: JobState
    priority: int
    max_attempts: int
    submitted_at: datetime
    attempts: int = 0
    not_before: datetime | None = None
    waits_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    requester: str = ""
    idempotency_key: str | None = None
    trace_context: str = ""
    worker: str | None = None
    fence: int | None = None
    cancel_requested_at: datetime | None = None
    message: str = ""
    progress: JobProgress = JobProgress()
    retry_of: UUID | None = None
    collapsed_into: UUID | None = None
    estimated_seconds: float | None = None
    version: int = 1


class PhaseView(ResponseModel):
    phase: Phase
    started_at: datetime
    ended_at: datetime | None
    # Elapsed so far if the phase has not ended.
    seconds: float


class JobView(JobSummaryView):
    """A job with the phases of its last attempt and the record of its run."""

    # The phases of the last attempt, in order.
    phases: list[PhaseView] = Field(default=[])
    lease_ends_at: datetime | None = None
    details: dict[str, Any] | None = None


class JobsView(ResponseModel):
    jobs: list[JobSummaryView]
    # Pass it as `before` to get the next page; null on the last page.
    next_before: int | None


class JobEventView(ResponseModel):
    number: int
    job_id: UUID | None
    table: TableId
    at: datetime
    kind: JobEventKind
    actor: str = ""
    attempt: int = 0
    message: str = ""
    # For a span: its ids, its start and end, and its failure.
    details: dict[str, Any] | None = None


class JobEvents(ResponseModel):
    events: list[JobEventView]


class PartitionDecision(ResponseModel):
    path: str
    spec_id: int
    planned: bool
    # Why the compaction selects the partition or skips it.
    reason: str


class JobPlan(ResponseModel):
    """The plan of a job's compaction, estimated from the cached status of its table."""

    job_id: UUID
    table_name: str
    observed_at: datetime
    # Whether the table was inspected after the job started. If so, this plan is what the job would do now.
    looked_at_since: bool
    # Null for other actions.
    compaction: CompactionPlan | None
    # At most 1,000, selected partitions first.
    partitions: list[PartitionDecision]
    partitions_total: int
