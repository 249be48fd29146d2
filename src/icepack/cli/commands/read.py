"""The commands that only read tables and history."""

from __future__ import annotations

import click

from icepack.cli.commands.native import native_disabled_by_table
from icepack.cli.context import format_option, open_app, read_tables
from icepack.cli.output.health import show_health
from icepack.cli.output.history import show_history
from icepack.cli.output.plans import show_plans
from icepack.cli.output.recommendations import show_recommendations
from icepack.cli.output.status import show_status, show_tables
from icepack.domain.actions import ActionKind
from icepack.domain.run import RunState

TABLES_ARGUMENT = click.argument("patterns", metavar="[TABLE]...", nargs=-1)
TABLE_ARGUMENT = click.argument("pattern", metavar="TABLE")


@click.command()
@TABLES_ARGUMENT
@click.option("--internal", "include_internal", is_flag=True, help="Include tables whose name starts with _.")
@format_option
@click.pass_context
def tables(ctx: click.Context, patterns: tuple[str, ...], include_internal: bool, output: str) -> int:
    """List the tables of all catalogs, or those that match the given names and globs."""
    with open_app(ctx) as app:
        found = app.service.discover(patterns, include_internal=include_internal)
        show_tables(found, output)
        return 1 if found.silent_catalogs else 0


@click.command()
@TABLE_ARGUMENT
@format_option
@click.pass_context
def inspect(ctx: click.Context, pattern: str, output: str) -> None:
    """Show the status of a table: files, deletes, partitions, snapshots, manifests."""
    with open_app(ctx) as app:
        show_status(app.service.assess(app.service.table(pattern)), output)


@click.command()
@TABLES_ARGUMENT
@format_option
@click.pass_context
def health(ctx: click.Context, patterns: tuple[str, ...], output: str) -> int:
    """Score tables from 0 to 100 and list their issues."""
    with open_app(ctx) as app:
        assessments, failures = read_tables(app.service.discover(patterns), app.service.assess)
        disabled = native_disabled_by_table(app)
        show_health(assessments, failures, output, native_disabled=disabled, detailed=len(assessments) == 1)
        return 1 if failures else 0


@click.command()
@TABLES_ARGUMENT
@click.option(
    "--explain", is_flag=True, help="Show reasons, parameters and costs, and which actions were skipped and why."
)
@format_option
@click.pass_context
def recommend(ctx: click.Context, patterns: tuple[str, ...], explain: bool, output: str) -> int:
    """Recommend actions for tables, with their order and estimated cost."""
    with open_app(ctx) as app:
        advice, failures = read_tables(app.service.discover(patterns), app.service.advise)
        show_recommendations(advice, failures, output, explain=explain)
        return 1 if failures else 0


@click.command()
@TABLES_ARGUMENT
@click.option("--files", is_flag=True, help="List every file of every group.")
@format_option
@click.pass_context
def plan(ctx: click.Context, patterns: tuple[str, ...], files: bool, output: str) -> int:
    """Dry run: show file groups, order, bytes, estimated cost and time. Nothing is changed."""
    with open_app(ctx) as app:
        plans, failures = read_tables(app.service.discover(patterns), app.service.plan)
        show_plans(plans, failures, output, with_files=files)
        return 1 if failures else 0


@click.command()
@click.argument("pattern", metavar="[TABLE]", required=False)
@click.option("--action", type=click.Choice([kind.value for kind in ActionKind]), help="Show only this action.")
@click.option("--state", type=click.Choice([state.value for state in RunState]), help="Show only runs in this state.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Maximum number of runs.")
@format_option
@click.pass_context
def history(
    ctx: click.Context, pattern: str | None, action: str | None, state: str | None, limit: int, output: str
) -> None:
    """Show past runs, their effect and cost, newest first."""
    with open_app(ctx) as app:
        runs = app.service.history.runs(
            table=app.service.table(pattern) if pattern else None,
            kind=ActionKind(action) if action else None,
            state=RunState(state) if state else None,
            limit=limit,
        )
        show_history(runs, output)
