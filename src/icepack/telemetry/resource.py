"""The OpenTelemetry resource that spans and metrics are exported with."""

from __future__ import annotations

from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from icepack import __version__

SCOPE = InstrumentationScope("icepack", __version__)


def create_resource() -> Resource:
    """Creates the resource; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override its attributes."""
    detected = Resource.create()
    own = {SERVICE_VERSION: __version__}
    if str(detected.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        own[SERVICE_NAME] = "icepack"
    return detected.merge(Resource(own))
