"""The commands that only read."""

from __future__ import annotations

import click

from icepack.cli.commands.native import disabled_tables
from icepack.cli.context import application, each_table, format_option
from icepack.cli.output import render
from icepack.domain.actions import ActionKind
from icepack.domain.run import RunState

SOME_TABLES = click.argument("patterns", metavar="[TABLE]...", nargs=-1)
ONE_TABLE = click.argument("pattern", metavar="TABLE")


@click.command()
@SOME_TABLES
@click.option("--internal", "include_internal", is_flag=True, help="Also tables whose name starts with an underscore.")
@format_option
@click.pass_context
def tables(ctx: click.Context, patterns: tuple[str, ...], include_internal: bool, output: str) -> int:
    """List every table of the lake, or those that the names and globs mean."""
    with application(ctx) as app:
        found = app.service.discover(patterns, include_internal=include_internal)
        render.show_tables(found, output)
        return 1 if found.silent_catalogs else 0


@click.command()
@ONE_TABLE
@format_option
@click.pass_context
def inspect(ctx: click.Context, pattern: str, output: str) -> None:
    """Show what a table's metadata says: files, deletes, partitions, snapshots, manifests."""
    with application(ctx) as app:
        render.show_status(app.service.assess(app.service.table(pattern)), output)


@click.command()
@SOME_TABLES
@format_option
@click.pass_context
def health(ctx: click.Context, patterns: tuple[str, ...], output: str) -> int:
    """Score tables from 0 to 100 and say what is wrong with them."""
    with application(ctx) as app:
        seen, failed = each_table(app.service.discover(patterns), app.service.assess)
        render.show_health(seen, failed, output, off=disabled_tables(app), detailed=len(seen) == 1)
        return 1 if failed else 0


@click.command()
@SOME_TABLES
@click.option("--explain", is_flag=True, help="Reasons, parameters, costs, and what was left out and why.")
@format_option
@click.pass_context
def recommend(ctx: click.Context, patterns: tuple[str, ...], explain: bool, output: str) -> int:
    """Say what to do about tables, in which order, at what cost."""
    with application(ctx) as app:
        seen, failed = each_table(app.service.discover(patterns), app.service.advise)
        render.show_recommendations(seen, failed, output, explain=explain)
        return 1 if failed else 0


@click.command()
@SOME_TABLES
@click.option("--files", is_flag=True, help="Name every file of every group.")
@format_option
@click.pass_context
def plan(ctx: click.Context, patterns: tuple[str, ...], files: bool, output: str) -> int:
    """Dry run: file groups, order, bytes, expected cost and time. Nothing is touched."""
    with application(ctx) as app:
        seen, failed = each_table(app.service.discover(patterns), app.service.plan)
        render.show_plans(seen, failed, output, with_files=files)
        return 1 if failed else 0


@click.command()
@click.argument("pattern", metavar="[TABLE]", required=False)
@click.option("--action", type=click.Choice([kind.value for kind in ActionKind]), help="Only this action.")
@click.option("--state", type=click.Choice([state.value for state in RunState]), help="Only runs that ended so.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most this many runs.")
@format_option
@click.pass_context
def history(
    ctx: click.Context, pattern: str | None, action: str | None, state: str | None, limit: int, output: str
) -> None:
    """Show what was done, what it gained and cost, the newest first."""
    with application(ctx) as app:
        runs = app.service.history.runs(
            table=app.service.table(pattern) if pattern else None,
            kind=ActionKind(action) if action else None,
            state=RunState(state) if state else None,
            limit=limit,
        )
        render.show_history(runs, output)
