"""Work to be done: compact, any other action, or all that is recommended."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body
from starlette.responses import Response

from icepack.api.dependencies import Caller, Operator
from icepack.api.parameters import IdempotencyKey, TableName
from icepack.api.presenters.jobs import accepted
from icepack.api.requests import check_risks, fingerprint, given_options, meant, order, own_key
from icepack.api.responses import Place, send
from icepack.api.schemas import examples
from icepack.api.schemas.jobs import (
    ActionOptions,
    ActionRequest,
    CompactRequest,
    JobAccepted,
    MaintainAccepted,
    MaintainRequest,
)
from icepack.domain.access import Role
from icepack.domain.actions import ActionKind, Strategy
from icepack.domain.job import Submission, Submitted
from icepack.domain.table import TableId
from icepack.errors import InvalidOption
from icepack.service.submission import Accepted, CostLimitExceeded, Order

place = Place("work")

MOST_TABLES = 500


def _body(name: str) -> Any:
    return Body(openapi_examples={name: {"value": examples.REQUESTS[name]}})


@place.post(
    "/compact",
    JobAccepted,
    examples.ANSWERS["accepted"],
    role=Role.OPERATOR,
    status=202,
    summary="Compact a table",
)
def compact(
    caller: Operator, asked: Annotated[CompactRequest, _body("compact")], key: IdempotencyKey = None
) -> Response:
    """Queued at once, with an estimate from the cached status; refused when that is over `max_cost`."""
    table = meant(caller.parts.directory.listing().within(caller.sees), asked)
    options = ActionOptions(
        **asked.options.model_dump(exclude_unset=True), strategy=Strategy(asked.strategy) if asked.strategy else None
    )
    return _submit(caller, table, ActionKind.COMPACT, options, asked, key)


@place.post(
    "/tables/{table:path}/actions/{action}",
    JobAccepted,
    examples.ANSWERS["accepted"],
    role=Role.OPERATOR,
    status=202,
    summary="Run one action on a table",
)
def act(
    caller: Operator,
    table: TableName,
    action: ActionKind,
    asked: Annotated[ActionRequest | None, _body("action")] = None,
    key: IdempotencyKey = None,
) -> Response:
    """An option that the action does not have is refused; `location` and `override_age_floor` are for admins."""
    wishes = asked or ActionRequest()
    found = caller.parts.directory.listing().within(caller.sees).find(table)
    return _submit(caller, found, action, wishes.options, wishes, key)


@place.post(
    "/maintain",
    MaintainAccepted,
    examples.ANSWERS["maintain"],
    role=Role.OPERATOR,
    status=202,
    summary="Do all that is recommended",
)
def maintain(
    caller: Operator, asked: Annotated[MaintainRequest, _body("maintain")], key: IdempotencyKey = None
) -> Response:
    """For every table that the names and globs mean; the order of a table's actions is kept."""
    chosen = _chosen(caller, asked)
    recommended = [{"table_name": str(table), "actions": kinds} for table, kinds in chosen.items()]
    if asked.dry_run:
        return send({"jobs": [], "recommended": recommended}, 202)
    jobs = _repeated(caller, key) or [
        done for table, kinds in chosen.items() for done in _maintain_one(caller, table, kinds, asked, key)
    ]
    return send({"jobs": [accepted(job) for job in jobs], "recommended": recommended}, 202)


def _submit(
    caller: Caller, table: TableId, kind: ActionKind, options: ActionOptions, wishes: Any, key: str | None
) -> Response:
    caller.must(Role.OPERATOR, table)
    given = given_options(kind, options)
    check_risks(caller, table, given)
    found = caller.parts.intake.submit(order(caller, table, kind, given, wishes, key))
    _note(caller, found)
    return send(accepted(found), 202)


def _note(caller: Caller, found: Accepted) -> None:
    job = found.submission.job
    caller.note("jobs.submit", str(job.id), found.submission.outcome.value, table=job.table, kind=job.kind.value)


def _chosen(caller: Caller, asked: MaintainRequest) -> dict[TableId, list[ActionKind]]:
    """Tables for which something is recommended, and may be done by this caller."""
    listing = caller.parts.directory.listing().within(caller.sees)
    wanted = set(asked.actions) if asked.actions is not None else set(ActionKind)
    found = {
        table: [kind for kind in listing.by_name[table].brief.actions if kind in wanted]
        for table in listing.select(asked.tables)
    }
    busy = {table: kinds for table, kinds in found.items() if kinds}
    if len(busy) > MOST_TABLES:
        raise InvalidOption(f"That means {len(busy):,} tables.", f"Name at most {MOST_TABLES} at a time.")
    for table in busy:
        caller.must(Role.OPERATOR, table)
    return busy


def _maintain_one(
    caller: Caller, table: TableId, kinds: list[ActionKind], asked: MaintainRequest, key: str | None
) -> list[Accepted]:
    cached = caller.parts.intake.known(table)
    advised = cached.recommendation.actions if cached.recommendation else ()
    done = []
    for recommended in advised:
        if recommended.kind not in kinds:
            continue
        found = Order(
            table=table,
            kind=recommended.kind,
            priority=asked.priority,
            requester=caller.name,
            key=None if key is None else f"{own_key(caller, key)}{table}:{recommended.kind.value}",
            fingerprint=fingerprint(asked.model_dump(mode="json")),
            trace_context=caller.trace_context,
        )
        try:
            done.append(caller.parts.intake.place(cached, recommended.action, found))
        except CostLimitExceeded:
            # The recommendation kept to the limit by the table as it was; the next one will.
            continue
        _note(caller, done[-1])
    return done


def _repeated(caller: Caller, key: str | None) -> list[Accepted]:
    """What came of the key before: by now something else may be recommended."""
    ids = caller.parts.board.keyed_jobs(own_key(caller, key)) if key else []
    jobs = [caller.parts.jobs.get(job_id) for job_id in ids]
    return [Accepted(submission=Submission(job=job, outcome=Submitted.REPEATED), estimate=None) for job in jobs]
