"""Status lines of services that run until they are stopped."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import click

from icepack.logs import LogFormat

_logger = logging.getLogger(__name__)
# Status lines are always logged, whatever the level of other loggers.
_logger.setLevel(logging.INFO)


def log_status(text: str) -> None:
    """Logs a line as JSON if that is the log format, else prints it on stderr with the time."""
    if _logs_as_json():
        _logger.info(text)
    else:
        click.echo(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}", err=True)


def _logs_as_json() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and (context.find_root().obj or {}).get("logs") is LogFormat.JSON
