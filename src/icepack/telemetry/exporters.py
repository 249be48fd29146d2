"""Whether there is a collector to tell, by OpenTelemetry's own variables."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from icepack.domain.observability.metric_definitions import FiguresPort
from icepack.errors import ConfigError

if TYPE_CHECKING:
    from icepack.telemetry.metrics import FigureExport
    from icepack.telemetry.spans import SpanExport

log = logging.getLogger(__name__)

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_MISSING = "OpenTelemetry is configured but not installed, so nothing is exported: pip install 'icepack[otel]'"


def open_span_export(environ: Mapping[str, str]) -> SpanExport | None:
    """None without a collector."""
    if not is_wanted(environ, "TRACES"):
        return None
    try:
        from icepack.telemetry.spans import SpanExport, otlp_exporter
    except ImportError:
        log.warning(_MISSING)
        return None
    return SpanExport(otlp_exporter())


def open_figure_export(environ: Mapping[str, str], port: FiguresPort) -> FigureExport | None:
    """None without a collector."""
    if not is_wanted(environ, "METRICS"):
        return None
    try:
        from icepack.telemetry.metrics import FigureExport, otlp_exporter
    except ImportError:
        log.warning(_MISSING)
        return None
    return FigureExport(otlp_exporter(), port, every=interval(environ))


def is_wanted(environ: Mapping[str, str], signal: str) -> bool:
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get(f"OTEL_{signal}_EXPORTER") == "none"
    return not off and bool(environ.get(ENDPOINT) or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))


def interval(environ: Mapping[str, str]) -> timedelta:
    """In milliseconds, as OpenTelemetry has it."""
    text = environ.get(INTERVAL) or "60000"
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"{INTERVAL} is '{text}'.", "Write the milliseconds as a whole number.")
    return timedelta(milliseconds=int(text))
