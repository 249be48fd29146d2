"""The metrics command: prints the metrics, or pushes them to an OpenTelemetry collector."""

from __future__ import annotations

import signal
from threading import Event

import click

from icepack.cli.context import open_app
from icepack.cli.exit_codes import INTERRUPTED, SUCCEEDED
from icepack.cli.output.service_log import log_status
from icepack.cli.signals import stop_on_signal
from icepack.errors import ConfigError
from icepack.wiring import App


@click.command()
@click.option("--push", is_flag=True, help="Push the metrics to the OpenTelemetry collector until stopped.")
@click.pass_context
def metrics(ctx: click.Context, push: bool) -> int:
    """Print the metrics in Prometheus' text format, as /metrics serves them."""
    with open_app(ctx, require_lake=False) as app:
        if push:
            return _push(app)
        click.echo(app.exposition()[0].decode(), nl=False)
        return SUCCEEDED


def _push(app: App) -> int:
    export = app.metric_export()
    if export is None:
        raise ConfigError(
            "No OpenTelemetry collector is configured.",
            "Set OTEL_EXPORTER_OTLP_ENDPOINT, and install icepack[otel].",
        )
    stop = Event()
    with stop_on_signal(stop.set) as received, export:
        log_status("Started; pushing metrics until stopped.")
        stop.wait()
    return INTERRUPTED if signal.SIGINT in received else SUCCEEDED
