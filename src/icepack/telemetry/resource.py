"""Who the spans and figures come from."""

from __future__ import annotations

from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from icepack import __version__

SCOPE = InstrumentationScope("icepack", __version__)


def resource() -> Resource:
    """`OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win."""
    told = Resource.create()
    own = {SERVICE_VERSION: __version__}
    if str(told.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        own[SERVICE_NAME] = "icepack"
    return told.merge(Resource(own))
