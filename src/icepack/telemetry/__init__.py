"""Spans and figures on their way to an OpenTelemetry collector, where one is configured; `icepack[otel]` brings it."""

from icepack.telemetry.exporters import open_figure_export, open_span_export

__all__ = ["open_figure_export", "open_span_export"]
