"""What commands share: the application built from the configuration, the --format option, reading many tables."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from icepack.config import LoadedConfig, load_config
from icepack.domain.ports.catalog import DiscoveredTables
from icepack.domain.table import TableId
from icepack.errors import ConfigError, IcepackError
from icepack.logs import LogFormat, configure_logging
from icepack.wiring import App, build_app, build_redactor

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

# Commands that may run unattended until they are stopped.
SERVICE_COMMANDS = frozenset({"api", "up", "worker", "scheduler", "orchestrate", "health-sync", "metrics"})


def format_option(command: F) -> F:
    return click.option(
        "--format",
        "output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Output format; docs/reference/json.md describes the JSON.",
    )(command)


def read_config(ctx: click.Context) -> LoadedConfig:
    """Loads the configuration and configures logging with it."""
    options = ctx.find_root().obj
    path = Path(options["config_file"]) if options["config_file"] else None
    loaded = load_config(path, environ=os.environ, overrides=_parse_settings(options["settings"]), cwd=Path.cwd())
    options["logs"] = configure_logging(
        _choose_log_format(ctx, options["log_format"]),
        level=logging.INFO if options["verbose"] else logging.ERROR,
        clean=build_redactor(loaded),
    )
    logging.getLogger("py4j").setLevel(logging.ERROR)
    return loaded


def _choose_log_format(ctx: click.Context, option: str) -> LogFormat:
    """Uses JSON by default for services only: other commands log for the person who called them."""
    log_format = LogFormat(option)
    is_service = ctx.info_name in SERVICE_COMMANDS
    return LogFormat.HUMAN if log_format is LogFormat.AUTO and not is_service else log_format


def print_notice(text: str) -> None:
    """Prints a message on stderr, where it does not mix with the output."""
    click.echo(text, err=True)


@contextmanager
def open_app(ctx: click.Context, *, require_lake: bool = True) -> Iterator[App]:
    """Builds the application and closes it; fails with a hint if the lake is required and does not exist yet."""
    loaded = read_config(ctx)
    if require_lake:
        loaded.require_lake()
    app = build_app(loaded, environ=os.environ, announce=print_notice)
    try:
        yield app
    finally:
        app.close()


def _parse_settings(settings: tuple[str, ...]) -> dict[str, Any]:
    """Parses `--set KEY=VALUE` into nested settings.

    Dots nest, except in the keys of Spark's and catalogs' own properties: `spark.conf.a.b=c` sets `a.b`.
    """
    tree: dict[str, Any] = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator:
            raise ConfigError(f"--set {setting}: expected KEY=VALUE.")
        *parents, last = _split_key(key)
        node = tree
        for part in parents:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


def _split_key(key: str) -> list[str]:
    parts = key.split(".")
    if parts[:2] == ["spark", "conf"]:
        return ["spark", "conf", ".".join(parts[2:])]
    if parts[0] == "catalogs":
        return ["catalogs", *parts[1:2], ".".join(parts[2:])]
    if parts[0] == "catalog":
        return ["catalog", ".".join(parts[1:])]
    return parts


@dataclass(frozen=True, slots=True)
class ReadFailures:
    """The tables that could not be read, and the catalogs that did not respond, each with the reason."""

    tables: Sequence[tuple[TableId, str]] = ()
    silent_catalogs: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tables or self.silent_catalogs)


def read_tables(found: DiscoveredTables, read: Callable[[TableId], T]) -> tuple[list[T], ReadFailures]:
    """Reads every table; one that fails, or a catalog that does not respond, does not stop the others."""
    results, failed = [], []
    for table in found.tables:
        try:
            results.append(read(table))
        except IcepackError as exc:
            failed.append((table, str(exc)))
        except Exception as exc:
            log.exception("reading %s failed", table)
            failed.append((table, f"Unexpected {type(exc).__name__}: {exc}"))
    return results, ReadFailures(failed, found.silent_catalogs)
