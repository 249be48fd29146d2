"""Jobs: list, show, cancel, retry, follow."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import AwareDatetime
from starlette.responses import Response

from icepack.api.dependencies import Caller, Operator, Viewer
from icepack.api.parameters import JobId, Limit
from icepack.api.presenters.jobs import accepted, listed_text, shown
from icepack.api.responses import Place, send
from icepack.api.schemas import examples
from icepack.api.schemas.fleet import JobPlan
from icepack.api.schemas.jobs import JobAccepted, JobEvents, JobPage, JobView
from icepack.domain.access import Role
from icepack.domain.actions import ActionKind, Compact
from icepack.domain.job import Job, JobFilter, JobNotFound, JobState
from icepack.service.submission import Accepted

place = Place("jobs")
MOST_PARTITIONS = 1000


@place.get("/jobs", JobPage, examples.ANSWERS["jobs"], role=Role.VIEWER, summary="Jobs, the newest first")
def list_jobs(
    caller: Viewer,
    state: Annotated[list[JobState] | None, Query(max_length=5, description="Only in these states.")] = None,
    table: Annotated[str | None, Query(max_length=2000, description="Only of this table.")] = None,
    catalog: Annotated[str | None, Query(max_length=2000, description="Only of this catalog.")] = None,
    action: Annotated[ActionKind | None, Query(description="Only of this action.")] = None,
    requester: Annotated[str | None, Query(max_length=2000, description="Only those that this one asked for.")] = None,
    since: Annotated[AwareDatetime | None, Query(description="Only those that had not ended before then.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Only those that were asked for before then.")] = None,
    limit: Limit = 25,
    before: Annotated[int | None, Query(ge=0, lt=2**63, description="Older than this number: the page after.")] = None,
) -> Response:
    """Filters narrow one another; `next_before` of one page is `before` of the next."""
    parts = caller.parts
    wanted = JobFilter(
        states=frozenset(state or ()),
        table=parts.directory.listing().within(caller.sees).find(table) if table else None,
        catalog=catalog,
        kind=action,
        requester=requester,
        since=since,
        until=until,
    )
    found, more = parts.board.job_texts(wanted, caller.sees, limit=limit, before=before)
    now = parts.clock()
    texts = ",".join(listed_text(job, now) for job in found)
    body = f'{{"jobs":[{texts}],"next_before":{"null" if more is None else more}}}'
    return Response(body, media_type="application/json")


@place.get("/jobs/{job_id}", JobView, examples.ANSWERS["job"], role=Role.VIEWER, summary="One job and its progress")
def get_job(caller: Viewer, job_id: JobId) -> Response:
    """`details` is the record of the run that ended it."""
    return send(shown(_seen(caller, job_id), caller.parts.clock()))


@place.get("/jobs/{job_id}/events", JobEvents, examples.ANSWERS["events"], role=Role.VIEWER, summary="A job's story")
def get_job_events(caller: Viewer, job_id: JobId) -> Response:
    """The oldest first."""
    _seen(caller, job_id)
    return send({"events": caller.parts.jobs.events(job_id)})


@place.get("/jobs/{job_id}/plan", JobPlan, examples.ANSWERS["job_plan"], role=Role.VIEWER, summary="A job's plan")
def get_job_plan(caller: Viewer, job_id: JobId) -> Response:
    """Which partitions a compaction takes and why not the others, estimated from the cached status of its table."""
    job, intake = _seen(caller, job_id), caller.parts.intake
    cached = intake.known(job.table)
    action = job.action if isinstance(job.action, Compact) else None
    verdicts = intake.why(cached, action) if action else {}
    shown = sorted(verdicts.items(), key=lambda item: (not item[1].planned, item[0]))[:MOST_PARTITIONS]
    return send(
        {
            "job_id": job.id,
            "table_name": str(job.table),
            "observed_at": cached.status.observed_at,
            "looked_at_since": job.started_at is not None and cached.status.observed_at > job.started_at,
            "compaction": intake.plan(cached, action) if action else None,
            "partitions": [{"path": key.path, "spec_id": key.spec_id, **asdict(why)} for key, why in shown],
            "partitions_total": len(verdicts),
        }
    )


@place.post("/jobs/{job_id}/cancel", JobView, examples.ANSWERS["job"], role=Role.OPERATOR, summary="Cancel a job")
def cancel_job(caller: Operator, job_id: JobId) -> Response:
    """At once if it is queued; a running one stops within seconds, before its next commit."""
    job = _mine(caller, job_id)
    cancelled = caller.parts.jobs.cancel(job_id, by=caller.name)
    caller.note("jobs.cancel", str(job_id), cancelled.state.value, table=job.table)
    return send(shown(cancelled, caller.parts.clock()))


@place.post(
    "/jobs/{job_id}/retry",
    JobAccepted,
    examples.ANSWERS["accepted"],
    role=Role.OPERATOR,
    status=202,
    summary="Ask for a finished job once more",
)
def retry_job(caller: Operator, job_id: JobId) -> Response:
    """A new job that asks for the same."""
    job = _mine(caller, job_id)
    submission = caller.parts.jobs.retry(job_id, requester=caller.name)
    caller.note("jobs.retry", str(job_id), str(submission.job.id), table=job.table)
    return send(accepted(Accepted(submission=submission, estimate=None)), 202)


def _seen(caller: Caller, job_id: UUID) -> Job:
    """Who may not see its table is not told of the job either."""
    job = caller.parts.jobs.get(job_id)
    if not caller.principal.may(Role.VIEWER, job.table):
        raise JobNotFound(job_id)
    return job


def _mine(caller: Caller, job_id: UUID) -> Job:
    job = _seen(caller, job_id)
    caller.must(Role.OPERATOR, job.table)
    return job
