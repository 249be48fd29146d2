"""The commands for setting up: config, doctor, init, jars."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from icepack.cli.console import print_json, print_text
from icepack.cli.context import format_option, open_app, read_config
from icepack.cli.exit_codes import FAILED, SUCCEEDED

if TYPE_CHECKING:
    from icepack.doctor import Check


@click.group(invoke_without_command=True)
@format_option
@click.pass_context
def config(ctx: click.Context, output: str) -> None:
    """Show the effective configuration with secrets masked; `config check` only validates it."""
    if ctx.invoked_subcommand is not None:
        return
    from icepack.config import mask_config

    loaded = read_config(ctx)
    settings = mask_config(loaded.config)
    source = str(loaded.source) if loaded.source else None
    if output == "json":
        print_json({"source": source, "config": settings})
        return
    import yaml

    print_text(f"# {source or 'no file: defaults, environment variables and flags'}")
    print_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).rstrip())


@config.command()
@format_option
@click.pass_context
def check(ctx: click.Context, output: str) -> None:
    """Validate the configuration; the exit code is 2 if it is invalid."""
    from icepack.config import build_catalog_properties

    loaded = read_config(ctx)
    names = list(build_catalog_properties(loaded.config))
    if output == "json":
        print_json({"source": str(loaded.source) if loaded.source else None, "sound": True, "catalogs": names})
    else:
        print_text(f"{loaded.source or 'The defaults'}: valid. Catalogs: {', '.join(names)}.")


@click.command()
@click.option("--skip-spark", is_flag=True, help="Skip the Spark check, which takes some seconds.")
@format_option
@click.pass_context
def doctor(ctx: click.Context, skip_spark: bool, output: str) -> int:
    """Check Python, Java, Spark, Iceberg, catalogs and storage, and show a remedy for each problem."""
    from icepack.doctor import run_checks
    from icepack.domain.serialization import to_json

    done = []
    with open_app(ctx, require_lake=False) as app:
        for check in run_checks(app, start_spark=not skip_spark):
            done.append(check)
            if output == "table":
                _print_check(check)
    if output == "json":
        print_json({"checks": [to_json(check) for check in done]})
    return SUCCEEDED if all(check.ok for check in done) else FAILED


def _print_check(check: Check) -> None:
    print_text(f"{'✓' if check.ok else '✗'} {check.name}: {check.found}")
    if check.remedy:
        print_text(f"    → {check.remedy}")


@click.command()
@click.option(
    "--file",
    "path",
    default="icepack.yaml",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="File to write.",
)
def init(path: str) -> None:
    """Write a starter icepack.yaml, with the catalogs of .pyiceberg.yaml or the environment if there are any."""
    from icepack.config import write_starter_file

    print_text(write_starter_file(Path(path), environ=os.environ, cwd=Path.cwd(), home=Path.home()))


@click.group()
def jars() -> None:
    """Download the jars that Spark needs."""


@jars.command()
@click.pass_context
def fetch(ctx: click.Context) -> None:
    """Download the jars for the configured catalogs, verify and cache them."""
    from icepack.engine.spark_conf import jar_purposes

    with open_app(ctx, require_lake=False) as app:
        for path in app.jars.ensure(jar_purposes(app.catalog_properties)):
            print_text(str(path))
