"""Settings of the service and its doctor checks."""

from __future__ import annotations

from starlette.responses import Response

from icepack.api.dependencies import Admin, Viewer
from icepack.api.presenters.settings import present_checks
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import RESPONSES
from icepack.api.schemas.settings import ChecksView, SettingsView
from icepack.domain.access import Role, is_unlimited

router = Router("settings")


@router.get("/settings", SettingsView, RESPONSES["settings"], role=Role.VIEWER, summary="Settings of the service")
def get_settings(caller: Viewer) -> Response:
    """Versions, catalogs, windows and budgets; admins of every catalog also get the state database and the checks."""
    services = caller.services
    is_full_admin = is_unlimited(caller.principal.scopes(Role.ADMIN))
    return json_response(
        {
            **services.settings.present_settings(caller.visible_scopes),
            "budgets": services.budgets.read(caller.visible_scopes),
            "state": services.settings.present_state() if is_full_admin else None,
            "checkup": present_checks(services.doctor) if is_full_admin else None,
        }
    )


@router.post(
    "/settings/checks",
    ChecksView,
    RESPONSES["checks"],
    role=Role.ADMIN,
    status=202,
    summary="Check Java, jars, catalogs and storage",
)
def start_checks(caller: Admin) -> Response:
    """Starts the slow checks of `icepack doctor` except Spark's; `GET /settings` returns their results."""
    caller.require_role_everywhere(Role.ADMIN, "settings.check")
    was_started = caller.services.doctor.start()
    caller.record_audit("settings.check", "checks", "started" if was_started else "under way")
    return json_response(present_checks(caller.services.doctor), 202)
