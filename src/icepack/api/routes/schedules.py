"""Schedules: read, replace and preview, and the runs that are due next."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from icepack.api.dependencies import Admin, Limit, Viewer, example_body
from icepack.api.presenters.schedules import present_schedule_preview
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import RESPONSES
from icepack.api.schemas.schedules import PutSchedules, SchedulePreviewView, SchedulesView, UpcomingView
from icepack.domain.access import Role

router = Router("schedules")
Hours = Annotated[int, Query(ge=1, le=24 * 31, description="How many hours to look ahead.")]


@router.get("/schedules", SchedulesView, RESPONSES["schedules"], role=Role.VIEWER, summary="Schedules")
def get_schedules(caller: Viewer) -> Response:
    """Returns the schedules of the configuration and the overrides that were set through the API."""
    return json_response(caller.services.schedules.read(caller.visible_scopes))


@router.put(
    "/schedules", SchedulesView, RESPONSES["schedules"], role=Role.ADMIN, summary="Replace the schedule overrides"
)
def put_schedules(caller: Admin, body: Annotated[PutSchedules, example_body("schedules")]) -> Response:
    """Replaces all schedule overrides; schedulers apply them at their next poll. Requires an admin of every catalog."""
    caller.require_role_everywhere(Role.ADMIN, "schedules")
    schedules = caller.services.schedules
    before = schedules.read(caller.visible_scopes)["overrides"]
    stored = schedules.replace(body, caller.name)
    outcome = f"version {stored.version}"
    caller.record_audit("schedules.put", "schedules", outcome, before=before, after=list(stored.entries))
    schedules.clear_cache()
    return json_response(schedules.read(caller.visible_scopes))


@router.get("/schedule/upcoming", UpcomingView, RESPONSES["upcoming"], role=Role.VIEWER, summary="Upcoming runs")
def upcoming(
    caller: Viewer,
    table: Annotated[str | None, Query(max_length=2000, description="Only tables with this name or glob.")] = None,
    hours: Hours = 24,
    limit: Limit = 100,
) -> Response:
    """Returns the runs in order; the result is cached for 30 seconds."""
    found = caller.services.schedules.read_upcoming(caller.visible_scopes, timedelta(hours=hours), limit, table)
    return Response(found, media_type="application/json")


@router.post(
    "/schedules/preview",
    SchedulePreviewView,
    RESPONSES["schedule_preview"],
    role=Role.ADMIN,
    summary="Preview schedule overrides",
)
def preview_schedules(
    caller: Admin,
    body: Annotated[PutSchedules, example_body("schedules")],
    hours: Hours = 24 * 7,
    limit: Limit = 100,
) -> Response:
    """Takes the body of `PUT /schedules`, saves nothing, and returns the next runs of tables that would change."""
    horizon = timedelta(hours=hours)
    preview = caller.services.previews.preview_schedules(body, caller.visible_scopes, horizon, limit)
    return json_response(present_schedule_preview(preview))
