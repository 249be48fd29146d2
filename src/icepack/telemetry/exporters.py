"""Opens the exporters that OpenTelemetry's environment variables configure."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from icepack.domain.observability.metric_definitions import MetricsSource
from icepack.errors import ConfigError

if TYPE_CHECKING:
    from icepack.telemetry.metrics import MetricExport
    from icepack.telemetry.spans import SpanExport

log = logging.getLogger(__name__)

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_MISSING = "OpenTelemetry is configured but not installed, so nothing is exported: pip install 'icepack[otel]'"


def open_span_export(environ: Mapping[str, str]) -> SpanExport | None:
    """Returns None if no collector is configured for traces."""
    if not is_enabled(environ, "TRACES"):
        return None
    try:
        from icepack.telemetry.spans import SpanExport, create_otlp_exporter
    except ImportError:
        log.warning(_MISSING)
        return None
    return SpanExport(create_otlp_exporter())


def open_metric_export(environ: Mapping[str, str], source: MetricsSource) -> MetricExport | None:
    """Returns None if no collector is configured for metrics."""
    if not is_enabled(environ, "METRICS"):
        return None
    try:
        from icepack.telemetry.metrics import MetricExport, create_otlp_exporter
    except ImportError:
        log.warning(_MISSING)
        return None
    return MetricExport(create_otlp_exporter(), source, interval=export_interval(environ))


def is_enabled(environ: Mapping[str, str], signal: str) -> bool:
    """Returns whether OpenTelemetry's variables enable the export of a signal (TRACES or METRICS)."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get(f"OTEL_{signal}_EXPORTER") == "none"
    return not is_off and bool(environ.get(ENDPOINT) or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))


def export_interval(environ: Mapping[str, str]) -> timedelta:
    """Reads the interval, which OpenTelemetry defines in milliseconds."""
    text = environ.get(INTERVAL) or "60000"
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"{INTERVAL} is '{text}'.", "Set it to a whole number of milliseconds.")
    return timedelta(milliseconds=int(text))
