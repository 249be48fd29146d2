"""The commands that change tables."""

from __future__ import annotations

import sys
from typing import Any

import click

from icepack.cli import render, runs
from icepack.cli.context import application, each_table, format_option
from icepack.cli.interrupt import stoppable
from icepack.cli.options import build_action, size
from icepack.cli.pictures import print_json, say, show_errors
from icepack.domain.actions import ActionKind, Layout, Strategy, action_to_json
from icepack.domain.run import RunState
from icepack.domain.wire import to_json
from icepack.errors import UsageError

DONE = (RunState.SUCCEEDED,)


@click.command()
@click.argument("action", type=click.Choice([kind.value for kind in ActionKind]))
@click.argument("pattern", metavar="TABLE")
@click.option(
    "--strategy", type=click.Choice([s.value for s in Strategy] + ["time-series", "small-files", "delete-files"])
)
@click.option("--layout", type=click.Choice([layout.value for layout in Layout]), help="Order of the rewritten rows.")
@click.option("--columns", help="Sort, z-order or Hilbert columns: a,b or 'a desc nulls last,b'.")
@click.option("--where", "partition_filter", help='Partition filter: "date >= current_date - 7" (UTC).')
@click.option("--target-file-size", "target_file_bytes", type=size, help="512MB, 1GB …")
@click.option("--min-input-files", type=click.IntRange(1))
@click.option("--partial-progress", is_flag=True, default=None, help="Commit group by group.")
@click.option("--rewrite-all", is_flag=True, default=None, help="Every file, not only those worth it.")
@click.option("--max-cost", "max_cost_dollars", type=float, help="Refuse when the estimate is over this many dollars.")
@click.option("--older-than", help="Retention for snapshots or orphans: 7d, 12h.")
@click.option("--retain-last", type=click.IntRange(1), help="Snapshots to keep on each branch, whatever their age.")
@click.option("--snapshot-id", "snapshot_ids", type=int, multiple=True, help="Expire this one, or compute its stats.")
@click.option("--clean-expired-metadata", is_flag=True, default=None, help="Drop schemas and specs nobody uses.")
@click.option("--location", help="Search only this folder for orphans.")
@click.option("--override-age-floor", is_flag=True, default=None, help="Take orphans younger than 24 hours too.")
@click.option("--partition-stats", is_flag=True, default=None, help="Compute partition statistics as well.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="Any option of Iceberg's own procedure.")
@click.option("--dry-run", is_flag=True, help="Show what it would do and stop there.")
@format_option
@click.pass_context
def run(ctx: click.Context, /, action: str, pattern: str, dry_run: bool, output: str, **flags: Any) -> int:
    """Run one action on one table."""
    wanted = build_action(ActionKind(action), flags, dry_run=dry_run)
    with application(ctx) as app, stoppable() as cancel:
        table = app.service.table(pattern)
        if dry_run:
            return runs.dry_run(app.service, table, wanted, output)
        with runs.progress_bar(output) as bar:
            record = app.service.run(table, wanted, progress=bar.tell(f"{action} {table}"), cancel=cancel)
        if output == "json":
            print_json({"run": to_json(record)})
        else:
            runs.show_record(record)
        return _exit_code([record.state])


@click.command()
@click.argument("patterns", metavar="[TABLE]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every table of every catalog.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop there.")
@format_option
@click.pass_context
def maintain(
    ctx: click.Context, patterns: tuple[str, ...], everything: bool, yes: bool, dry_run: bool, output: str
) -> int:
    """Do everything that is recommended. On a terminal it shows its plan and asks first."""
    if not patterns and not everything:
        raise UsageError("Which tables?", "Name some (globs work), or say --all.")
    with application(ctx) as app, stoppable() as cancel:
        chosen = app.service.tables(() if everything else patterns)
        advice, unreadable = each_table(chosen, app.service.advise)
        if output == "table":
            render.print_recommendations(advice)
            show_errors(unreadable)
        busy = [item for item in advice if item.recommendation.actions]
        if dry_run or not busy:
            if output == "json":
                print_json(
                    {"steps": [], "plan": [_planned(item) for item in busy], "errors": render.errors_json(unreadable)}
                )
            return 1 if unreadable else 0
        if sys.stdin.isatty() and output == "table" and not yes:
            click.confirm("Go ahead?", default=True, abort=True)
        steps = runs.maintain_with_bar(app.service, busy, cancel, output)
        if output == "json":
            print_json(runs.steps_json(steps, unreadable))
        else:
            runs.show_steps(steps)
        states = [step.record.state for step in steps if step.record] + [
            RunState.FAILED for step in steps if step.error
        ]
        if cancel.is_set():
            say("Stopped; what is listed above is complete.")
            return 130
        return 1 if unreadable else _exit_code(states)


def _planned(item: Any) -> dict[str, Any]:
    return {
        "table": str(item.status.table),
        "actions": [action_to_json(recommended.action) for recommended in item.recommendation.actions],
    }


def _exit_code(states: list[RunState]) -> int:
    if RunState.CANCELLED in states:
        return 130
    return 0 if all(state in DONE for state in states) else 1
