"""Exports spans and metrics to an OpenTelemetry collector if one is configured; needs `icepack[otel]`."""

from icepack.telemetry.exporters import open_metric_export, open_span_export

__all__ = ["open_metric_export", "open_span_export"]
