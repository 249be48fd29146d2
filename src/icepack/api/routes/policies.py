"""Policies, schedules and what comes next."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Body, Query
from starlette.responses import Response

from icepack.api.dependencies import Admin, Viewer
from icepack.api.overrides.policies import run_line
from icepack.api.overrides.previews import PolicyChange, ScheduleChange
from icepack.api.parameters import Limit
from icepack.api.responses import Place, send
from icepack.api.schemas import examples
from icepack.api.schemas.fleet import (
    PoliciesView,
    PolicyPreviewView,
    PutPolicies,
    PutSchedules,
    SchedulePreviewView,
    SchedulesView,
    UpcomingView,
)
from icepack.domain.access import Role
from icepack.domain.actions import Action
from icepack.domain.recommendation.recommend import Recommendation

place = Place("agenda")


def _body(name: str) -> Any:
    return Body(openapi_examples={name: {"value": examples.REQUESTS[name]}})


@place.get("/policies", PoliciesView, examples.ANSWERS["policies"], role=Role.VIEWER, summary="Policies, by layer")
def get_policies(caller: Viewer) -> Response:
    """What the configuration says, and what was set on top of it here."""
    return send(caller.parts.agenda.policies(caller.sees))


@place.put("/policies", PoliciesView, examples.ANSWERS["policies"], role=Role.ADMIN, summary="Set policies")
def put_policies(caller: Admin, asked: Annotated[PutPolicies, _body("policies")]) -> Response:
    """Replaces all that was set here before; heeded everywhere within seconds. Needs an admin of every catalog."""
    caller.must_everywhere(Role.ADMIN, "policies")
    agenda = caller.parts.agenda
    before = agenda.policies(caller.sees)["overrides"]
    found = agenda.put_policies(asked, caller.name)
    caller.note("policies.put", "policies", f"version {found.version}", before=before, after=list(found.entries))
    agenda.forget()
    return send(agenda.policies(caller.sees))


@place.get("/schedules", SchedulesView, examples.ANSWERS["schedules"], role=Role.VIEWER, summary="Schedules")
def get_schedules(caller: Viewer) -> Response:
    """What the configuration says, and what was set on top of it here."""
    return send(caller.parts.agenda.schedules(caller.sees))


@place.put("/schedules", SchedulesView, examples.ANSWERS["schedules"], role=Role.ADMIN, summary="Set schedules")
def put_schedules(caller: Admin, asked: Annotated[PutSchedules, _body("schedules")]) -> Response:
    """Replaces all that was set here before; schedulers heed it at their next look. Needs an admin of every catalog."""
    caller.must_everywhere(Role.ADMIN, "schedules")
    agenda = caller.parts.agenda
    before = agenda.schedules(caller.sees)["overrides"]
    found = agenda.put_schedules(asked, caller.name)
    caller.note("schedules.put", "schedules", f"version {found.version}", before=before, after=list(found.entries))
    agenda.forget()
    return send(agenda.schedules(caller.sees))


@place.get("/schedule/upcoming", UpcomingView, examples.ANSWERS["upcoming"], role=Role.VIEWER, summary="What runs next")
def upcoming(
    caller: Viewer,
    table: Annotated[str | None, Query(max_length=2000, description="Only what this name or glob means.")] = None,
    hours: Annotated[int, Query(ge=1, le=24 * 31, description="How far to look ahead.")] = 24,
    limit: Limit = 100,
) -> Response:
    """In order; worked out at most half a minute ago."""
    found = caller.parts.agenda.ahead(caller.sees, timedelta(hours=hours), limit, table)
    return Response(found, media_type="application/json")


@place.post(
    "/policies/preview",
    PolicyPreviewView,
    examples.ANSWERS["policy_preview"],
    role=Role.ADMIN,
    summary="What policies would change",
)
def preview_policies(caller: Admin, asked: Annotated[PutPolicies, _body("policies")], limit: Limit = 50) -> Response:
    """Takes what `PUT /policies` takes, and saves nothing: tables that may be seen, before and after."""
    found = caller.parts.previews.policies(asked, caller.sees, limit)
    changes = [_policy_change(change) for change in found.changes]
    recommendations = sum(change["recommendation_changes"] for change in changes)
    return send({"tables": found.tables, "recommendations": recommendations, "changes": changes})


@place.post(
    "/schedules/preview",
    SchedulePreviewView,
    examples.ANSWERS["schedule_preview"],
    role=Role.ADMIN,
    summary="What schedules would change",
)
def preview_schedules(
    caller: Admin,
    asked: Annotated[PutSchedules, _body("schedules")],
    hours: Annotated[int, Query(ge=1, le=24 * 31, description="How far to look ahead.")] = 24 * 7,
    limit: Limit = 100,
) -> Response:
    """Takes what `PUT /schedules` takes, and saves nothing: the next runs of tables whose schedule would be another."""
    found = caller.parts.previews.schedules(asked, caller.sees, timedelta(hours=hours), limit)
    return send(
        {
            "enabled": found.enabled,
            "from": found.since,
            "until": found.until,
            "timezone": found.timezone,
            "tables": found.tables,
            "changes": [_schedule_change(change) for change in found.changes],
            "runs": [run_line(item) for item in found.runs],
            "total": found.total,
        }
    )


def _policy_change(change: PolicyChange) -> dict[str, Any]:
    return {
        "table_name": str(change.table),
        "settings": {name: {"before": old, "after": new} for name, (old, new) in change.settings.items()},
        "actions_before": [item.kind for item in change.before.actions],
        "actions_after": [item.kind for item in change.after.actions],
        "recommendation_changes": _advised(change.before) != _advised(change.after),
        "before": change.before,
        "after": change.after,
        "estimated": change.estimated,
    }


def _advised(recommendation: Recommendation) -> list[Action]:
    return [item.action for item in recommendation.actions]


def _schedule_change(change: ScheduleChange) -> dict[str, Any]:
    old, new = change.before.compaction, change.after.compaction
    return {
        "table_name": str(change.table),
        "schedule_before": change.before.line,
        "schedule_after": change.after.line,
        "compaction_before": None if old is None else dict(old),
        "compaction_after": None if new is None else dict(new),
        "runs_before": change.runs_before,
        "runs_after": change.runs_after,
        "next_before": change.next_before,
        "next_after": change.next_after,
    }
