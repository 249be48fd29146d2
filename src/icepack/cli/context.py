"""What commands share: the application built from the configuration, formats, arguments."""

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
from icepack.domain.ports.engine import DiscoveredTables
from icepack.domain.table import TableId
from icepack.errors import ConfigError, IcepackError
from icepack.logs import LogFormat, configure
from icepack.wiring import App, build_app, cleaner

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

SERVICES = frozenset({"api", "up", "worker", "scheduler", "orchestrate", "health-sync", "metrics"})
"""Commands that may run unwatched and for ever."""


def format_option(command: F) -> F:
    return click.option(
        "--format",
        "output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="JSON is one stable object, described in docs/reference/json.md.",
    )(command)


def read_config(ctx: click.Context) -> LoadedConfig:
    options = ctx.find_root().obj
    path = Path(options["config_file"]) if options["config_file"] else None
    loaded = load_config(path, environ=os.environ, overrides=_overrides(options["settings"]), cwd=Path.cwd())
    options["logs"] = configure(
        _log_format(ctx, options["log_format"]),
        level=logging.INFO if options["verbose"] else logging.ERROR,
        clean=cleaner(loaded),
    )
    logging.getLogger("py4j").setLevel(logging.ERROR)
    return loaded


def _log_format(ctx: click.Context, asked: str) -> LogFormat:
    """Only a service's lines are for machines unless that is asked for."""
    wanted = LogFormat(asked)
    is_service = ctx.info_name in SERVICES
    return LogFormat.HUMAN if wanted is LogFormat.AUTO and not is_service else wanted


@contextmanager
def application(ctx: click.Context) -> Iterator[App]:
    """The application, closed at the end; says what to do where there is no lake yet."""
    loaded = read_config(ctx)
    loaded.need_lake()
    app = build_app(loaded, environ=os.environ, announce=lambda text: click.echo(text, err=True))
    try:
        yield app
    finally:
        app.close()


@contextmanager
def stateful(ctx: click.Context) -> Iterator[App]:
    """The application for commands that need its state, whether there is a lake or not."""
    app = build_app(read_config(ctx), environ=os.environ, announce=lambda text: click.echo(text, err=True))
    try:
        yield app
    finally:
        app.close()


def _overrides(settings: tuple[str, ...]) -> dict[str, Any]:
    """`spark.conf.a.b=c` sets one entry of a mapping whose keys have dots; everything else nests by dots."""
    tree: dict[str, Any] = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator:
            raise ConfigError(f"--set {setting}: write it as KEY=VALUE.")
        parts = key.split(".")
        if parts[:2] == ["spark", "conf"]:
            parts = ["spark", "conf", ".".join(parts[2:])]
        elif parts[0] == "catalogs":
            parts = ["catalogs", *parts[1:2], ".".join(parts[2:])]
        elif parts[0] == "catalog":
            parts = ["catalog", ".".join(parts[1:])]
        node = tree
        for part in parts[:-1]:
            node = node.setdefault(part, {})
        node[parts[-1]] = value
    return tree


@dataclass(frozen=True, slots=True)
class Failures:
    """What a command over many tables could not look at."""

    tables: Sequence[tuple[TableId, str]] = ()
    silent_catalogs: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tables or self.silent_catalogs)


def each_table(found: DiscoveredTables, look: Callable[[TableId], Any]) -> tuple[list[Any], Failures]:
    """Looks at every table; one that cannot be read, or a catalog that does not answer, does not hide the others."""
    seen, failed = [], []
    for table in found.tables:
        try:
            seen.append(look(table))
        except IcepackError as exc:
            failed.append((table, str(exc)))
        except Exception as exc:
            log.exception("%s could not be looked at", table)
            failed.append((table, f"Unexpected {type(exc).__name__}: {exc}"))
    return seen, Failures(failed, found.silent_catalogs)
