"""How the service is set up, and whether its parts are in order."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from icepack.api.dependencies import Admin, Caller, Viewer
from icepack.api.responses import Place, send
from icepack.api.schemas import examples
from icepack.api.schemas.keys import ChecksView, SettingsShown
from icepack.domain.access import Role, unlimited
from icepack.domain.serialization import to_json

place = Place("settings")


@place.get("/settings", SettingsShown, examples.ANSWERS["settings"], role=Role.VIEWER, summary="How it is set up")
def get_settings(caller: Viewer) -> Response:
    """Versions, catalogs, windows and budgets; for admins of every catalog also the state database and the checks."""
    parts = caller.parts
    may_know = unlimited(caller.principal.scopes(Role.ADMIN))
    return send(
        {
            **parts.settings.read(caller.sees),
            "budgets": parts.budgets.read(caller.sees),
            "state": parts.settings.state() if may_know else None,
            "checkup": _checks(caller) if may_know else None,
        }
    )


@place.post(
    "/settings/checks",
    ChecksView,
    examples.ANSWERS["checks"],
    role=Role.ADMIN,
    status=202,
    summary="Look at Java, jars, catalogs and storage",
)
def start_checks(caller: Admin) -> Response:
    """Starts the slow checks of `icepack doctor`, all but Spark's; `GET /settings` shows what they found."""
    caller.must_everywhere(Role.ADMIN, "settings.check")
    started = caller.parts.checkup.start()
    caller.note("settings.check", "checks", "started" if started else "under way")
    return send(_checks(caller), 202)


def _checks(caller: Caller) -> dict[str, Any]:
    checkup = caller.parts.checkup
    running = checkup.running
    found = [{**to_json(item.check), "checked_at": item.at} for item in checkup.read()]
    return {"running": running, "checks": found}
