"""The command that shows the figures."""

from __future__ import annotations

import signal
from threading import Event

import click

from icepack.cli.commands.worker import INTERRUPTED, told_to_stop
from icepack.cli.context import stateful
from icepack.cli.output.fleet import tell
from icepack.errors import ConfigError
from icepack.metrics import exposition
from icepack.wiring import App


@click.command()
@click.option("--push", is_flag=True, help="Push them to the OpenTelemetry collector until told to stop.")
@click.pass_context
def metrics(ctx: click.Context, push: bool) -> int:
    """Print the figures that Prometheus scrapes, as /metrics does."""
    with stateful(ctx) as app:
        if push:
            return _push(app)
        click.echo(exposition(app.figures)[0].decode(), nl=False)
        return 0


def _push(app: App) -> int:
    export = app.figure_export()
    if export is None:
        raise ConfigError(
            "There is no OpenTelemetry collector to push to.",
            "Set OTEL_EXPORTER_OTLP_ENDPOINT, and install icepack[otel].",
        )
    stop = Event()
    with told_to_stop(stop.set) as received, export:
        tell("Started; pushing figures until told to stop.")
        stop.wait()
    return INTERRUPTED if signal.SIGINT in received else 0
