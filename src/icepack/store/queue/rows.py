"""Converts jobs and events between database rows and domain objects.

This module alone defines which column holds which field of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from operator import itemgetter, neg
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, Select, select

from icepack.domain.access import format_namespace
from icepack.domain.actions import ActionKind, action_from_json, action_to_json
from icepack.domain.job import Job, JobEvent, JobEventKind, JobNotFound, JobProgress, JobRequest, JobState
from icepack.domain.observability.metric_totals import EndedJob
from icepack.domain.ports.queries import RunningJob
from icepack.domain.serialization import from_json
from icepack.domain.table import TableId
from icepack.store.schema import events, jobs, table_slots
from icepack.store.sql.text import clean_text

# Fields of Job whose column has another name.
_COLUMN_NAMES = {"table": "table_name", "action": "parameters", "priority": "rank"}
# Fields of Job without a column: the lease is stored in the table slot, the version is a constant.
_WITHOUT_COLUMN = {"lease_ends_at", "version"}

# The column of each field of Job, in the order of the fields.
JOB_COLUMNS = {
    field.name: jobs.c[_COLUMN_NAMES.get(field.name, field.name)]
    for field in fields(Job)
    if field.name not in _WITHOUT_COLUMN
}
# The fields that lists of jobs show: all but the details, which can be large.
LISTED_FIELDS = tuple(name for name in JOB_COLUMNS if name != "details")
# The columns that `to_ended_job` needs, and the number to mark the job as counted.
ENDED_JOB_COLUMNS = (
    *(jobs.c.number, jobs.c.action, jobs.c.state, jobs.c.submitted_at, jobs.c.not_before, jobs.c.started_at),
    *(jobs.c.finished_at, jobs.c.details, jobs.c.collapsed_into),
)
# The columns that `to_running_job` needs.
RUNNING_JOB_COLUMNS = (jobs.c.id, jobs.c.table_name, jobs.c.progress, jobs.c.action, jobs.c.started_at)

# Plain strings: the names that SQLAlchemy gives to columns are of a slower subclass.
_read_columns = itemgetter(*(str(column.name) for column in JOB_COLUMNS.values()))
_LOADERS: dict[str, Callable[[Any], Any]] = {
    "table": TableId.parse,
    "action": action_from_json,
    "state": JobState,
    "priority": neg,
    "progress": partial(from_json, JobProgress),
}


def select_jobs() -> Select[Any]:
    """Jobs with the end of their lease, which is stored in the table slot."""
    holds = (table_slots.c.table_name == jobs.c.table_name) & (table_slots.c.job_number == jobs.c.number)
    columns = (*JOB_COLUMNS.values(), table_slots.c.expires_at.label("lease_ends_at"))
    return select(*columns).select_from(jobs.outerjoin(table_slots, holds))


def read_job(connection: Connection, job_id: UUID) -> Job:
    row = connection.execute(select_jobs().where(jobs.c.id == job_id)).first()
    if row is None:
        raise JobNotFound(job_id)
    return to_job(row._mapping)


def to_job(row: Mapping[Any, Any]) -> Job:
    values = dict(zip(JOB_COLUMNS, _read_columns(row), strict=True))
    for name, load in _LOADERS.items():
        values[name] = load(values[name])
    return Job(**values, lease_ends_at=row.get("lease_ends_at"))


def to_ended_job(row: Mapping[Any, Any]) -> EndedJob:
    return EndedJob(
        kind=ActionKind(row["action"]),
        state=JobState(row["state"]),
        submitted_at=row["submitted_at"],
        not_before=row["not_before"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        record=row["details"],
        collapsed=row["collapsed_into"] is not None,
    )


def to_running_job(row: Mapping[Any, Any]) -> RunningJob:
    return RunningJob(
        job_id=row["id"],
        table=TableId.parse(row["table_name"]),
        progress=from_json(JobProgress, row["progress"]),
        kind=ActionKind(row["action"]),
        started_at=row["started_at"],
    )


def to_document(row: Sequence[Any]) -> dict[str, Any]:
    """The fields of a job's JSON from a row of the listed columns; action and progress stay as they were read."""
    document = dict(zip(LISTED_FIELDS, row, strict=True))
    return {**document, "table_name": document["table"], "priority": -document["priority"]}


def new_job_row(request: JobRequest) -> dict[str, Any]:
    """The columns of a new job that follow from the request."""
    return {
        "id": uuid4(),
        "catalog": request.table.catalog,
        "table_name": str(request.table),
        "action": request.action.kind.value,
        "parameters": action_to_json(request.action),
        "digest": request.digest,
        "state": JobState.QUEUED.value,
        "rank": -request.priority,
        "not_before": request.not_before,
        "attempts": 0,
        "max_attempts": request.max_attempts,
        "requester": clean_text(request.requester),
        "idempotency_key": None if request.idempotency_key is None else clean_text(request.idempotency_key),
        "trace_context": clean_text(request.trace_context),
        "message": "",
        "progress": {},
        "retry_of": request.retry_of,
        "namespace": format_namespace(request.table),
        "estimated_seconds": request.estimated_seconds,
    }


def select_events() -> Select[Any]:
    return select(events).order_by(events.c.number)


def to_event(row: Mapping[Any, Any]) -> JobEvent:
    return JobEvent(
        number=row["number"],
        job_id=row["job_id"],
        table=TableId.parse(row["table_name"]),
        at=row["at"],
        kind=JobEventKind(row["kind"]),
        actor=row["actor"],
        attempt=row["attempt"],
        message=row["message"],
        details=row["details"],
    )
