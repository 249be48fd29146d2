"""What goes over the wire: the shapes of requests and answers, in the words of the command line's JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from icepack.domain.access import Role
from icepack.domain.actions import Action, ActionKind, Layout, RewriteEngine, Strategy
from icepack.domain.job import DEFAULT_MAX_ATTEMPTS, MAX_PRIORITY, JobEventKind, JobProgress, JobState, Submitted
from icepack.domain.observability.trace import Phase
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.table import TableId
from icepack.domain.units import parse_duration, parse_size
from icepack.domain.verification import ProofLevel

LONGEST_TEXT = 2000
LARGEST_SIZE_BYTES = 2**50
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Wire(BaseModel):
    """An answer."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Asked(BaseModel):
    """A request: no unknown keys, no text that no database can keep."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _is_storable(cls, value: Any) -> Any:
        _check_text(value)
        return value


def _check_text(value: Any) -> None:
    if isinstance(value, str) and _UNSTORABLE.search(value):
        raise PydanticCustomError("unstorable", "has a character that is no text (NUL or half a surrogate pair)")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_text(key)
            _check_text(item)
    elif isinstance(value, list):
        for item in value:
            _check_text(item)


def _size(text: str) -> str:
    try:
        size = parse_size(text)
    except (ValueError, OverflowError) as exc:
        raise PydanticCustomError("size", "should be a size such as 512MB or 1GB") from exc
    if not 0 < size <= LARGEST_SIZE_BYTES:
        raise PydanticCustomError("size", "should be a size between 1B and 1024TB")
    return text


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except (ValueError, OverflowError) as exc:
        raise PydanticCustomError("duration", "should be a duration such as 7d, 12h, 30m or 45s") from exc
    return text


Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
SizeText = Annotated[str, Field(max_length=50, examples=["512MB"]), AfterValidator(_size)]
DurationText = Annotated[str, Field(max_length=50, examples=["7d"]), AfterValidator(_duration)]
Columns = Annotated[list[Name], Field(max_length=100)]
Dollars = Annotated[float, Field(ge=0, le=1e9)]
Priority = Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]
Attempts = Annotated[int, Field(ge=1, le=100)]
BigInt = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Extra = Annotated[dict[Name, Text], Field(max_length=100)]


class CompactOptions(Asked):
    """How to compact; the policy says what is not said here."""

    target_file_size: SizeText | None = None
    max_cost: Dollars | None = None
    """In dollars: a request whose estimate is over it is refused."""
    partition_filter: Text | None = None
    layout: Layout | None = None
    columns: Columns | None = None
    min_input_files: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    engine: RewriteEngine | None = None
    proof: ProofLevel | None = None
    """How much of what is rewritten is compared by value: row counts only, new classes and a sample, or all groups."""
    partial_progress: bool | None = None
    rewrite_all: bool | None = None


class Wishes(Asked):
    """What may be said of any job."""

    priority: Priority = 0
    not_before: AwareDatetime | None = None
    max_attempts: Attempts | None = Field(default=None, description=f"By default {DEFAULT_MAX_ATTEMPTS}.")


class CompactRequest(Wishes):
    """Catalog and namespace may be left out where the table's name alone is clear."""

    catalog: Name | None = None
    namespace: Name | None = None
    table: Name
    strategy: (
        Literal["small_files", "delete_files", "time_series", "small-files", "delete-files", "time-series"] | None
    ) = None
    options: CompactOptions = CompactOptions()


class ActionOptions(CompactOptions):
    """Each action takes those that are its own; the policy says what is not said here."""

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
    options: Extra | None = None
    """Any option of Iceberg's own procedure."""


class ActionRequest(Wishes):
    options: ActionOptions = ActionOptions()


class MaintainRequest(Asked):
    """Everything that is recommended for these tables."""

    tables: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    """Names and globs."""
    actions: Annotated[list[ActionKind], Field(max_length=len(ActionKind))] | None = None
    """Only these, in their usual order."""
    priority: Priority = 0
    dry_run: bool = False
    """Only say what would be submitted."""


class JobAccepted(Wire):
    """A job that was taken on."""

    job_id: UUID
    status: JobState
    created_at: datetime
    estimated_duration_seconds: float | None
    """An estimate; null where nothing is known of what such an action takes."""
    estimated_cost: CostEstimate | None = None
    outcome: Submitted
    table_name: str
    action: ActionKind


class MaintainAccepted(Wire):
    jobs: list[JobAccepted]
    recommended: list[dict[str, Any]]
    """By table: what is recommended, and so what was, or would be, submitted."""


class JobListed(Wire):
    """A job, by the names of the contract (`job_id`, `status`, `created_at`) and by those of the command line."""

    job_id: UUID
    status: JobState
    created_at: datetime
    estimated_duration_seconds: float | None = None
    estimated_completion: datetime | None = None
    """An estimate, by its progress where there is some."""
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


class PhaseView(Wire):
    phase: Phase
    started_at: datetime
    ended_at: datetime | None
    seconds: float
    """So far, where it has not ended."""


class JobView(JobListed):
    """A job with the record of the run that ended it."""

    phases: list[PhaseView] = []
    """Of the last attempt, in order."""
    lease_ends_at: datetime | None = None
    details: dict[str, Any] | None = None


class JobPage(Wire):
    jobs: list[JobListed]
    next_before: int | None
    """Asks for the page after this one, as `before`; null on the last."""


class JobEventView(Wire):
    number: int
    job_id: UUID | None
    table: TableId
    at: datetime
    kind: JobEventKind
    actor: str = ""
    attempt: int = 0
    message: str = ""
    details: dict[str, Any] | None = None
    """Of a span: its ids, when it started and ended, and what went wrong."""


class JobEvents(Wire):
    events: list[JobEventView]


class GrantView(Wire):
    role: Role
    scopes: list[str]


class SessionRequest(Asked):
    """A key, where it is not in the Authorization header."""

    key: Annotated[str, Field(max_length=500)] | None = None


class SessionView(Wire):
    """Who is asking."""

    name: str
    role: Role | None
    grants: list[GrantView]
    expires_at: datetime | None = None
    authentication: bool
    """Whether the service asks for it at all."""


class FieldMistake(Wire):
    field: str
    message: str


class Problem(Wire):
    """RFC 9457: what went wrong, in one sentence."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    field: str | None = None
    """The first offending field."""
    errors: list[FieldMistake] | None = None
    estimate: CostEstimate | None = None


class Liveness(Wire):
    status: Literal["ok"]
    version: str


class Component(Wire):
    name: str
    status: Literal["ok", "degraded", "down"]
    detail: str


class Readiness(Wire):
    status: Literal["ready", "degraded", "unavailable"]
    components: list[Component]


JsonObject = dict[str, JsonValue]
