"""The whole fleet: figures, costs, locks, the audit log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import AwareDatetime
from starlette.responses import Response

from icepack.api.dependencies import Admin, Viewer
from icepack.api.parameters import Limit
from icepack.api.responses import Place, send
from icepack.api.schemas import examples
from icepack.api.schemas.examples import listed
from icepack.api.schemas.fleet import AuditPage, CostView, LocksView, OverviewView
from icepack.domain.access import Role, covered
from icepack.domain.ports.queue import AuditEvent
from icepack.domain.serialization import to_json

place = Place("fleet")


@place.get("/overview", OverviewView, examples.ANSWERS["overview"], role=Role.VIEWER, summary="Figures of the fleet")
def overview(caller: Viewer) -> Response:
    """Of all tables that may be seen; jobs are counted at most two seconds ago."""
    found = caller.parts.figures.overview(caller.sees)
    off = caller.parts.figures.native_disabled()
    return send(
        {
            "tables": found.tables,
            "trend": found.trend,
            "maintenance": found.maintenance,
            "sickest": [listed(item) | {"native_disabled": item.table in off} for item in found.sickest],
            "workers": found.workers,
            "jobs": dict(found.jobs),
            "jobs_last_day": dict(found.jobs_last_day),
            "cache": to_json(found.cache),
            "native_disabled": found.native_disabled,
        }
    )


@place.get("/cost", CostView, examples.ANSWERS["cost"], role=Role.VIEWER, summary="Costs, estimated and realised")
def cost(
    caller: Viewer, days: Annotated[int, Query(ge=1, le=366, description="How far to look back.")] = 30
) -> Response:
    """Added up at most half a minute ago."""
    return send(caller.parts.figures.cost(caller.sees, days))


@place.get("/locks", LocksView, examples.ANSWERS["locks"], role=Role.VIEWER, summary="Who works on which table")
def list_locks(caller: Viewer) -> Response:
    """Held by workers and by commands."""
    held = caller.parts.locks.list_locks()
    mine = [lock for lock in held if covered(caller.sees, lock.table)]
    return send({"locks": [{**to_json(lock), "table_name": str(lock.table)} for lock in mine]})


@place.get("/audit", AuditPage, examples.ANSWERS["audit"], role=Role.ADMIN, summary="Who changed what, and when")
def list_audit(
    caller: Admin,
    actor: Annotated[str | None, Query(max_length=2000, description="Only by this one.")] = None,
    action: Annotated[str | None, Query(max_length=200, description="Only of this kind.")] = None,
    subject: Annotated[str | None, Query(max_length=2000, description="Only about this.")] = None,
    since: Annotated[AwareDatetime | None, Query(description="Only from this moment on.")] = None,
    limit: Limit = 100,
    before: Annotated[int | None, Query(ge=0, lt=2**63, description="Older than this number.")] = None,
) -> Response:
    """The newest first. Who is no admin everywhere sees what concerns their own tables."""
    scopes = caller.principal.scopes(Role.ADMIN)
    found = caller.parts.audit.entries(
        actor=actor, action=action, subject=subject, since=since, limit=limit + 1, before=before, scopes=scopes
    )
    shown = found[:limit]
    more = shown[-1].number if len(found) > limit else None
    return send({"entries": [_shown(entry) for entry in shown], "next_before": more})


def _shown(entry: AuditEvent) -> dict[str, Any]:
    document: dict[str, Any] = to_json(entry)
    return document
