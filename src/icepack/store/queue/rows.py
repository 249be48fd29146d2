"""Jobs and events between their rows and the domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Select, or_, select

from icepack.domain.access import namespace_text
from icepack.domain.actions import action_from_json, action_to_json
from icepack.domain.job import Job, JobEvent, JobEventKind, JobFilter, JobProgress, JobRequest, JobState
from icepack.domain.serialization import from_json
from icepack.domain.table import TableId
from icepack.store.schema import events, jobs, lanes
from icepack.store.sql.text import storable


def select_jobs() -> Select[Any]:
    """Each job with the end of its lease, which its table's lane knows."""
    holds = (lanes.c.table_name == jobs.c.table_name) & (lanes.c.job_number == jobs.c.number)
    return select(*jobs.c, lanes.c.expires_at.label("lease_ends_at")).select_from(jobs.outerjoin(lanes, holds))


def read_job(connection: Connection, condition: ColumnElement[bool]) -> Job | None:
    row = connection.execute(select_jobs().where(condition)).first()
    return None if row is None else to_job(row._mapping)


def conditions(wanted: JobFilter, before: int | None) -> list[ColumnElement[bool]]:
    equal = {
        jobs.c.table_name: wanted.table,
        jobs.c.catalog: wanted.catalog,
        jobs.c.action: wanted.kind,
        jobs.c.requester: wanted.requester,
    }
    narrowing = [column == str(value) for column, value in equal.items() if value is not None]
    if wanted.states:
        narrowing.append(jobs.c.state.in_(sorted(wanted.states)))
    if before is not None:
        narrowing.append(jobs.c.number < before)
    if wanted.since is not None:
        narrowing.append(or_(jobs.c.finished_at.is_(None), jobs.c.finished_at >= wanted.since))
    if wanted.until is not None:
        narrowing.append(jobs.c.submitted_at < wanted.until)
    return narrowing


def select_events() -> Select[Any]:
    return select(events).order_by(events.c.number)


def new_row(request: JobRequest) -> dict[str, Any]:
    """What a request alone decides of its job's row."""
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
        "requester": storable(request.requester),
        "idempotency_key": None if request.idempotency_key is None else storable(request.idempotency_key),
        "trace_context": storable(request.trace_context),
        "message": "",
        "progress": {},
        "retry_of": request.retry_of,
        "namespace": namespace_text(request.table),
        "estimated_seconds": request.estimated_seconds,
    }


def to_job(row: Mapping[Any, Any]) -> Job:
    return Job(
        id=row["id"],
        number=row["number"],
        table=TableId.parse(row["table_name"]),
        action=action_from_json(row["parameters"]),
        state=JobState(row["state"]),
        priority=-row["rank"],
        max_attempts=row["max_attempts"],
        submitted_at=row["submitted_at"],
        attempts=row["attempts"],
        not_before=row["not_before"],
        waits_until=row["waits_until"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        requester=row["requester"],
        idempotency_key=row["idempotency_key"],
        trace_context=row["trace_context"],
        worker=row["worker"],
        fence=row["fence"],
        lease_ends_at=row.get("lease_ends_at"),
        cancel_requested_at=row["cancel_requested_at"],
        message=row["message"],
        progress=from_json(JobProgress, row["progress"]),
        details=row["details"],
        retry_of=row["retry_of"],
        collapsed_into=row["collapsed_into"],
        estimated_seconds=row["estimated_seconds"],
    )


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
