"""Health probes and metrics; they are also served at the root, where probes and scrapers expect them."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from icepack import __version__
from icepack.api.dependencies import Anonymous, Viewer, get_services
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import METRICS, RESPONSES
from icepack.api.schemas.probes import Liveness, Readiness
from icepack.domain.access import Role

router = Router("probes")


@router.get(
    "/health", Liveness, RESPONSES["health"], role=None, dependencies=[Anonymous], summary="Liveness of the service"
)
def health() -> Response:
    """Succeeds as long as the process responds; it checks no other component."""
    return json_response({"status": "ok", "version": __version__})


@router.get(
    "/health/ready",
    Readiness,
    RESPONSES["ready"],
    role=None,
    dependencies=[Anonymous],
    summary="Readiness of the service",
    extra_responses={503: {"model": Readiness, "description": "The state database is unreachable."}},
)
def ready(request: Request) -> Response:
    """Returns 503 only if the state database is unreachable; other problems make the status `degraded`."""
    readiness = get_services(request).readiness.read()
    return json_response(readiness, 503 if readiness.status == "unavailable" else 200)


@router.get(
    "/metrics",
    None,
    METRICS,
    role=Role.VIEWER,
    media_type="text/plain; version=0.0.4; charset=utf-8",
    summary="Metrics for Prometheus",
)
def metrics(caller: Viewer) -> Response:
    """Covers all tables, so it requires a viewer of every catalog."""
    caller.require_role_everywhere(Role.VIEWER, "metrics")
    body, content_type = caller.services.exposition()
    return Response(body, media_type=content_type)
