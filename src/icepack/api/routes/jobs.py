"""Jobs: list, show, cancel and retry."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import AwareDatetime
from starlette.responses import Response

from icepack.api.dependencies import Caller, JobId, Limit, Operator, Viewer
from icepack.api.presenters.jobs import present_accepted_job, present_job, present_job_plan, render_list_item
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import RESPONSES
from icepack.api.schemas.jobs import JobAccepted, JobEvents, JobPlan, JobsView, JobView
from icepack.domain.access import Role
from icepack.domain.actions import ActionKind, Compact
from icepack.domain.job import Job, JobFilter, JobNotFound, JobState
from icepack.service.submission import AcceptedJob

router = Router("jobs")


@router.get("/jobs", JobsView, RESPONSES["jobs"], role=Role.VIEWER, summary="List jobs")
def list_jobs(
    caller: Viewer,
    state: Annotated[list[JobState] | None, Query(max_length=5, description="Only jobs in these states.")] = None,
    table: Annotated[str | None, Query(max_length=2000, description="Only jobs of this table.")] = None,
    catalog: Annotated[str | None, Query(max_length=2000, description="Only jobs of this catalog.")] = None,
    action: Annotated[ActionKind | None, Query(description="Only jobs with this action.")] = None,
    requester: Annotated[str | None, Query(max_length=2000, description="Only jobs of this requester.")] = None,
    since: Annotated[AwareDatetime | None, Query(description="Only jobs that did not finish before this time.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Only jobs that were submitted before this time.")] = None,
    limit: Limit = 25,
    before: Annotated[
        int | None, Query(ge=0, lt=2**63, description="Only jobs before this number: the next page.")
    ] = None,
) -> Response:
    """Returns the newest jobs that match all filters; pass `next_before` as `before` to get the next page."""
    services, visible = caller.services, caller.visible_scopes
    wanted = JobFilter(
        states=frozenset(state or ()),
        table=services.table_index.listing().within(visible).find(table) if table else None,
        catalog=catalog,
        kind=action,
        requester=requester,
        since=since,
        until=until,
    )
    jobs, next_before = services.fleet_queries.list_jobs_as_json(wanted, visible, limit=limit, before=before)
    now = services.clock()
    return json_response({"jobs": [render_list_item(job, now) for job in jobs], "next_before": next_before})


@router.get("/jobs/{job_id}", JobView, RESPONSES["job"], role=Role.VIEWER, summary="Get a job and its progress")
def get_job(caller: Viewer, job_id: JobId) -> Response:
    """Once the job has finished, `details` is the record of its run."""
    return json_response(present_job(_get_visible_job(caller, job_id), caller.services.clock()))


@router.get("/jobs/{job_id}/events", JobEvents, RESPONSES["events"], role=Role.VIEWER, summary="Events of a job")
def get_job_events(caller: Viewer, job_id: JobId) -> Response:
    """Returns the oldest events first."""
    _get_visible_job(caller, job_id)
    return json_response({"events": caller.services.jobs.events(job_id)})


@router.get("/jobs/{job_id}/plan", JobPlan, RESPONSES["job_plan"], role=Role.VIEWER, summary="Plan of a job")
def get_job_plan(caller: Viewer, job_id: JobId) -> Response:
    """Returns which partitions a compaction selects and why, estimated from the cached status of its table."""
    job, submitter = _get_visible_job(caller, job_id), caller.services.submitter
    cached = submitter.get_table(job.table)
    action = job.action if isinstance(job.action, Compact) else None
    plan = submitter.plan(cached, action) if action else None
    explanations = submitter.explain_partitions(cached, action) if action else {}
    return json_response(present_job_plan(job, cached, plan, explanations))


@router.post("/jobs/{job_id}/cancel", JobView, RESPONSES["job"], role=Role.OPERATOR, summary="Cancel a job")
def cancel_job(caller: Operator, job_id: JobId) -> Response:
    """Cancels a queued job immediately; a running one stops within seconds, before its next commit."""
    job = _get_own_job(caller, job_id)
    cancelled = caller.services.jobs.cancel(job_id, by=caller.name)
    caller.record_audit("jobs.cancel", str(job_id), cancelled.state.value, table=job.table)
    return json_response(present_job(cancelled, caller.services.clock()))


@router.post(
    "/jobs/{job_id}/retry",
    JobAccepted,
    RESPONSES["accepted"],
    role=Role.OPERATOR,
    status=202,
    summary="Retry a finished job",
)
def retry_job(caller: Operator, job_id: JobId) -> Response:
    """Submits a new job with the same action and parameters."""
    job = _get_own_job(caller, job_id)
    submission = caller.services.jobs.retry(job_id, requester=caller.name)
    caller.record_audit("jobs.retry", str(job_id), str(submission.job.id), table=job.table)
    return json_response(present_accepted_job(AcceptedJob(submission=submission, estimate=None)), 202)


def _get_visible_job(caller: Caller, job_id: UUID) -> Job:
    """Raises JobNotFound also for jobs of tables that the caller may not see."""
    job = caller.services.jobs.get(job_id)
    if not caller.principal.has_role(Role.VIEWER, job.table):
        raise JobNotFound(job_id)
    return job


def _get_own_job(caller: Caller, job_id: UUID) -> Job:
    job = _get_visible_job(caller, job_id)
    caller.require_role(Role.OPERATOR, job.table)
    return job
