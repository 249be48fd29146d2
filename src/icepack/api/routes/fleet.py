"""The whole fleet: overview, costs, locks and the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import AwareDatetime
from starlette.responses import Response

from icepack.api.dependencies import Admin, Limit, Viewer
from icepack.api.presenters.fleet import present_lock, present_overview
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import RESPONSES
from icepack.api.schemas.fleet import AuditPage, CostView, LocksView, OverviewView
from icepack.domain.access import Role, is_in_scope
from icepack.domain.serialization import to_json

router = Router("fleet")


@router.get("/overview", OverviewView, RESPONSES["overview"], role=Role.VIEWER, summary="Overview of the fleet")
def overview(caller: Viewer) -> Response:
    """Covers all visible tables; job counts are cached for two seconds."""
    statistics = caller.services.statistics
    return json_response(present_overview(statistics.overview(caller.visible_scopes), statistics.native_disabled()))


@router.get("/cost", CostView, RESPONSES["cost"], role=Role.VIEWER, summary="Estimated and realised costs")
def cost(
    caller: Viewer, days: Annotated[int, Query(ge=1, le=366, description="How many days to look back.")] = 30
) -> Response:
    """The result is cached for 30 seconds."""
    return json_response(caller.services.statistics.cost(caller.visible_scopes, days))


@router.get("/locks", LocksView, RESPONSES["locks"], role=Role.VIEWER, summary="Table locks")
def list_locks(caller: Viewer) -> Response:
    """Returns the locks of workers and of commands."""
    locks = caller.services.locks.list_locks()
    visible = [lock for lock in locks if is_in_scope(caller.visible_scopes, lock.table)]
    return json_response({"locks": [present_lock(lock) for lock in visible]})


@router.get("/audit", AuditPage, RESPONSES["audit"], role=Role.ADMIN, summary="Audit log")
def list_audit(
    caller: Admin,
    actor: Annotated[str | None, Query(max_length=2000, description="Only entries of this actor.")] = None,
    action: Annotated[str | None, Query(max_length=200, description="Only entries with this action.")] = None,
    subject: Annotated[str | None, Query(max_length=2000, description="Only entries with this subject.")] = None,
    since: Annotated[AwareDatetime | None, Query(description="Only entries at or after this time.")] = None,
    limit: Limit = 100,
    before: Annotated[
        int | None, Query(ge=0, lt=2**63, description="Only entries before this number: the next page.")
    ] = None,
) -> Response:
    """Returns the newest entries first. Admins of some tables only see the entries about those tables."""
    entries = caller.services.audit.entries(
        actor=actor,
        action=action,
        subject=subject,
        since=since,
        limit=limit + 1,
        before=before,
        scopes=caller.principal.scopes(Role.ADMIN),
    )
    page = entries[:limit]
    next_before = page[-1].number if len(entries) > limit else None
    return json_response({"entries": [to_json(entry) for entry in page], "next_before": next_before})
