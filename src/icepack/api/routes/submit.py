"""Submission of jobs: a compaction, any other action, or all recommended actions."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from icepack.api.dependencies import Caller, IdempotencyKey, Operator, TableName, example_body
from icepack.api.errors import InvalidParameter
from icepack.api.presenters.jobs import present_accepted_job
from icepack.api.requests import (
    build_action_request,
    check_admin_options,
    compute_fingerprint,
    parse_options,
    resolve_table,
    scope_key,
)
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import RESPONSES
from icepack.api.schemas.jobs import (
    ActionOptions,
    CompactRequest,
    JobAccepted,
    JobOptions,
    MaintainAccepted,
    MaintainRequest,
    RunActionRequest,
)
from icepack.domain.access import Role
from icepack.domain.actions import ActionKind, Strategy
from icepack.domain.job import Submission, SubmissionOutcome
from icepack.domain.table import TableId
from icepack.service.runs.cost_limit import CostLimitExceeded
from icepack.service.submission import AcceptedJob, ActionRequest

router = Router("maintenance")

MAX_TABLES = 500


@router.post("/compact", JobAccepted, RESPONSES["accepted"], role=Role.OPERATOR, status=202, summary="Compact a table")
def compact(
    caller: Operator, body: Annotated[CompactRequest, example_body("compact")], key: IdempotencyKey = None
) -> Response:
    """Queues a job with an estimate from the cached status; refused if the estimate exceeds `max_cost`."""
    table = resolve_table(caller.services.table_index.listing().within(caller.visible_scopes), body)
    strategy = Strategy(body.strategy) if body.strategy else None
    options = ActionOptions(**body.options.model_dump(exclude_unset=True), strategy=strategy)
    return _submit(caller, table, ActionKind.COMPACT, options, body, key)


@router.post(
    "/tables/{table:path}/actions/{action}",
    JobAccepted,
    RESPONSES["accepted"],
    role=Role.OPERATOR,
    status=202,
    summary="Run one action on a table",
)
def act(
    caller: Operator,
    table: TableName,
    action: ActionKind,
    body: Annotated[RunActionRequest | None, example_body("action")] = None,
    key: IdempotencyKey = None,
) -> Response:
    """Refuses options that the action does not have; `location` and `override_age_floor` require an admin."""
    request = body or RunActionRequest()
    found = caller.services.table_index.listing().within(caller.visible_scopes).find(table)
    return _submit(caller, found, action, request.options, request, key)


@router.post(
    "/maintain",
    MaintainAccepted,
    RESPONSES["maintain"],
    role=Role.OPERATOR,
    status=202,
    summary="Run all recommended actions",
)
def maintain(
    caller: Operator, body: Annotated[MaintainRequest, example_body("maintain")], key: IdempotencyKey = None
) -> Response:
    """Submits the recommended actions of every table that matches, in the recommended order."""
    selected = _select_actions(caller, body)
    recommended = [{"table_name": str(table), "actions": kinds} for table, kinds in selected.items()]
    if body.dry_run:
        return json_response({"jobs": [], "recommended": recommended}, 202)
    jobs = _find_repeated(caller, key) or [
        job for table, kinds in selected.items() for job in _submit_recommended(caller, table, kinds, body, key)
    ]
    return json_response({"jobs": [present_accepted_job(job) for job in jobs], "recommended": recommended}, 202)


def _submit(
    caller: Caller, table: TableId, kind: ActionKind, options: ActionOptions, request: JobOptions, key: str | None
) -> Response:
    caller.require_role(Role.OPERATOR, table)
    parameters = parse_options(kind, options)
    check_admin_options(caller, table, parameters)
    accepted = caller.services.submitter.submit(build_action_request(caller, table, kind, parameters, request, key))
    _record_submission(caller, accepted)
    return json_response(present_accepted_job(accepted), 202)


def _record_submission(caller: Caller, accepted: AcceptedJob) -> None:
    job, outcome = accepted.submission.job, accepted.submission.outcome
    caller.record_audit("jobs.submit", str(job.id), outcome.value, table=job.table, kind=job.kind.value)


def _select_actions(caller: Caller, request: MaintainRequest) -> dict[TableId, list[ActionKind]]:
    """Returns the recommended actions by table; raises Forbidden if the caller may not run one of them."""
    listing = caller.services.table_index.listing().within(caller.visible_scopes)
    wanted = set(request.actions) if request.actions is not None else set(ActionKind)
    found = {
        table: [kind for kind in listing.by_name[table].brief.actions if kind in wanted]
        for table in listing.select(request.tables)
    }
    selected = {table: kinds for table, kinds in found.items() if kinds}
    if len(selected) > MAX_TABLES:
        message = f"The request selects {len(selected):,} tables."
        raise InvalidParameter("tables", message, f"Select at most {MAX_TABLES} with one request.")
    for table in selected:
        caller.require_role(Role.OPERATOR, table)
    return selected


def _submit_recommended(
    caller: Caller, table: TableId, kinds: list[ActionKind], request: MaintainRequest, key: str | None
) -> list[AcceptedJob]:
    submitter = caller.services.submitter
    cached = submitter.get_table(table)
    recommended = cached.recommendation.actions if cached.recommendation else ()
    accepted = []
    for item in recommended:
        if item.kind not in kinds:
            continue
        action_request = ActionRequest(
            table=table,
            kind=item.kind,
            priority=request.priority,
            requester=caller.name,
            key=None if key is None else f"{scope_key(caller, key)}{table}:{item.kind.value}",
            fingerprint=compute_fingerprint(request.model_dump(mode="json")),
            trace_context=caller.trace_context,
        )
        try:
            accepted.append(submitter.submit_action(cached, item.action, action_request))
        except CostLimitExceeded:
            # The table has grown since the recommendation, which was within the limit; the next one will be too.
            continue
        _record_submission(caller, accepted[-1])
    return accepted


def _find_repeated(caller: Caller, key: str | None) -> list[AcceptedJob]:
    """Returns the jobs of an earlier request with this key: other actions may be recommended by now."""
    ids = caller.services.fleet_queries.keyed_jobs(scope_key(caller, key)) if key else []
    jobs = [caller.services.jobs.get(job_id) for job_id in ids]
    submissions = [Submission(job=job, outcome=SubmissionOutcome.REPEATED) for job in jobs]
    return [AcceptedJob(submission=submission, estimate=None) for submission in submissions]
