"""The commands around the lake: configuration, checks, jars."""

from __future__ import annotations

import os
from pathlib import Path

import click

from icepack.cli.console import print_json, say
from icepack.cli.context import format_option, read_config


@click.group(invoke_without_command=True)
@format_option
@click.pass_context
def config(ctx: click.Context, output: str) -> None:
    """Show the merged configuration, secrets masked; `config check` only checks it."""
    if ctx.invoked_subcommand is not None:
        return
    from icepack.config import masked

    loaded = read_config(ctx)
    shown = masked(loaded.config)
    source = str(loaded.source) if loaded.source else None
    if output == "json":
        print_json({"source": source, "config": shown})
        return
    import yaml

    say(f"# {source or 'no file: defaults, environment and flags'}")
    say(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).rstrip())


@config.command()
@format_option
@click.pass_context
def check(ctx: click.Context, output: str) -> None:
    """Say whether the configuration is sound; exit code 2 if not."""
    from icepack.config import catalog_properties

    loaded = read_config(ctx)
    names = list(catalog_properties(loaded.config))
    if output == "json":
        print_json({"source": str(loaded.source) if loaded.source else None, "sound": True, "catalogs": names})
    else:
        say(f"{loaded.source or 'The defaults'}: sound. Catalogs: {', '.join(names)}.")


@click.command()
@click.option("--skip-spark", is_flag=True, help="Do not start Spark; it takes some seconds.")
@format_option
@click.pass_context
def doctor(ctx: click.Context, skip_spark: bool, output: str) -> int:
    """Check Python, Java, Spark, Iceberg, catalogs and storage, each with its remedy."""
    from icepack.doctor import checks
    from icepack.domain.serialization import to_json
    from icepack.wiring import build_app

    app = build_app(read_config(ctx), environ=os.environ, announce=lambda text: click.echo(text, err=True))
    done = []
    try:
        for found in checks(app, start_spark=not skip_spark):
            done.append(found)
            if output == "table":
                say(f"{'✓' if found.ok else '✗'} {found.name}: {found.found}")
                if found.remedy:
                    say(f"    → {found.remedy}")
    finally:
        app.close()
    if output == "json":
        print_json({"checks": [to_json(item) for item in done]})
    return 0 if all(item.ok for item in done) else 1


@click.command()
@click.option(
    "--file",
    "path",
    default="icepack.yaml",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="Where to write it.",
)
def init(path: str) -> None:
    """Write a starter icepack.yaml, from .pyiceberg.yaml or the environment where there is one."""
    from icepack.config import write_starter

    say(write_starter(Path(path), environ=os.environ, cwd=Path.cwd(), home=Path.home()))


@click.group()
def jars() -> None:
    """The jars that Spark needs: fetched once, checked, kept."""


@jars.command()
@click.pass_context
def fetch(ctx: click.Context) -> None:
    """Fetch what the configured catalogs need, unless it is there."""
    from icepack.engine.spark_conf import jar_purposes
    from icepack.wiring import build_app

    app = build_app(read_config(ctx), environ=os.environ, announce=lambda text: click.echo(text, err=True))
    for path in app.jars.ensure(jar_purposes(app.catalog_properties)):
        say(str(path))
