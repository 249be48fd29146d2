"""What probes and scrapers ask for; also at the root, where they look."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from icepack import __version__
from icepack.api.dependencies import Anybody, Viewer, parts_of
from icepack.api.responses import Place, send
from icepack.api.schemas import examples
from icepack.api.schemas.jobs import Liveness, Readiness
from icepack.domain.access import Role

place = Place("probes")


@place.get(
    "/health",
    Liveness,
    examples.ANSWERS["health"],
    role=None,
    dependencies=[Anybody],
    summary="Whether the service lives",
)
def health() -> Response:
    """Asks nothing of anybody."""
    return send({"status": "ok", "version": __version__})


@place.get(
    "/health/ready",
    Readiness,
    examples.ANSWERS["ready"],
    role=None,
    dependencies=[Anybody],
    summary="Whether it can do its work",
    also={503: {"model": Readiness, "description": "It cannot."}},
)
def ready(request: Request) -> Response:
    """503 only without a database; what is degraded says so."""
    found = parts_of(request).readiness.read()
    status = 503 if found.status == "unavailable" else 200
    return send(found, status)


@place.get(
    "/metrics",
    None,
    examples.METRICS,
    role=Role.VIEWER,
    media_type="text/plain; version=0.0.4; charset=utf-8",
    summary="Figures for Prometheus",
)
def metrics(caller: Viewer) -> Response:
    """They are of all tables, so this needs a viewer of every catalog."""
    caller.must_everywhere(Role.VIEWER, "metrics")
    body, content_type = caller.parts.exposition()
    return Response(body, media_type=content_type)
