"""Schemas of schedules: overrides, their preview, and upcoming runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from icepack.api.schemas.base import JsonObject, Name, RequestModel, ResponseModel, Text


class ScheduleOverride(RequestModel):
    """A schedule for every table that `match` selects, as under `tables` in icepack.yaml."""

    match: Name
    schedule: Annotated[Text, Field(min_length=1)]
    # A compaction with exactly these settings. If empty, the scheduler submits whatever is recommended at that time.
    options: JsonObject = Field(default={}, max_length=50)


class PutSchedules(RequestModel):
    overrides: Annotated[list[ScheduleOverride], Field(max_length=1000)]
    # The version that the change is based on. If the current version differs, nothing is changed.
    version: Annotated[int, Field(ge=0, lt=2**31)] | None = None


class ScheduleRuleView(ResponseModel):
    match: str
    schedule: str
    options: dict[str, Any]


class SchedulesView(ResponseModel):
    enabled: bool
    default_schedule: str
    timezone: str
    jitter: str
    configured: list[ScheduleRuleView]
    overrides: list[ScheduleRuleView]
    version: int
    changed_at: datetime | None
    changed_by: str


class UpcomingRunView(ResponseModel):
    table: str
    due_at: datetime
    tick: datetime
    opens_at: datetime
    jitter_seconds: float
    schedule: str
    compaction: dict[str, Any] | None


class HourView(ResponseModel):
    hour: datetime
    runs: int


class UpcomingView(ResponseModel):
    enabled: bool
    from_: datetime = Field(serialization_alias="from", validation_alias="from")
    until: datetime
    timezone: str
    runs: list[UpcomingRunView]
    total: int
    # The number of runs that may start in each hour, before jitter spreads them; hours without runs are omitted.
    by_hour: list[HourView]


class ScheduleChangeView(ResponseModel):
    table_name: str
    schedule_before: str
    schedule_after: str
    compaction_before: dict[str, Any] | None
    compaction_after: dict[str, Any] | None
    runs_before: int
    runs_after: int
    next_before: datetime | None
    next_after: datetime | None


class SchedulePreviewView(ResponseModel):
    """What the schedules would change; nothing was saved."""

    enabled: bool
    from_: datetime = Field(serialization_alias="from", validation_alias="from")
    until: datetime
    timezone: str
    # The number of tables whose schedule would change.
    tables: int
    changes: list[ScheduleChangeView]
    # The runs on these tables, in order.
    runs: list[UpcomingRunView]
    total: int
