"""The commands that change tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from icepack.cli.console import print_json
from icepack.cli.context import application, each_table, format_option
from icepack.cli.interrupt import stoppable
from icepack.cli.options import given_parameters, proof_option, size, strategy_type
from icepack.cli.output import render, runs
from icepack.domain.actions import ActionKind, Layout, RewriteEngine
from icepack.domain.serialization import to_json
from icepack.domain.verification import ProofLevel
from icepack.errors import UsageError
from icepack.service.service import Advice


@click.command()
@click.argument("kind", metavar="ACTION", type=click.Choice(ActionKind, case_sensitive=False))
@click.argument("pattern", metavar="TABLE")
@click.option(
    "--strategy",
    type=strategy_type,
    help="small_files, delete_files or time_series: which files to look for; else the policy's, or by what is wrong.",
)
@click.option("--layout", type=click.Choice([layout.value for layout in Layout]), help="Order of the rewritten rows.")
@click.option("--columns", help="Sort, z-order or Hilbert columns: a,b or 'a desc nulls last,b'.")
@click.option("--where", "partition_filter", help='Partition filter: "date >= current_date - 7" (UTC).')
@click.option("--target-file-size", "target_file_bytes", type=size, help="512MB, 1GB …")
@click.option("--min-input-files", type=click.IntRange(1), help="Merge only where there are this many small files.")
@click.option(
    "--engine",
    type=click.Choice([engine.value for engine in RewriteEngine]),
    help="native: icepack's own kernel where it is exact; spark: Spark's procedure throughout.",
)
@proof_option
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
def run(ctx: click.Context, /, kind: ActionKind, pattern: str, dry_run: bool, output: str, **flags: Any) -> int:
    """Run one action on one table."""
    given = given_parameters(kind, flags)
    with application(ctx) as app:
        table = app.service.table(pattern)
        action = app.service.prepare(table, kind, given)
        if dry_run:
            return runs.dry_run(app.service, table, action, output)
        with stoppable() as cancel, runs.progress_bar(output) as bar:
            record = app.service.run(table, action, progress=bar.tell(f"{kind} {table}"), cancel=cancel)
        if output == "json":
            print_json({"run": to_json(record)})
        else:
            runs.show_record(record)
        return runs.state_code(record.state)


@click.command()
@click.argument("patterns", metavar="[TABLE]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every table of every catalog.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop there.")
@click.option("--strict", is_flag=True, help="Exit with 1 also when a guard rail has refused an action.")
@proof_option
@format_option
@click.pass_context
def maintain(
    ctx: click.Context,
    patterns: tuple[str, ...],
    everything: bool,
    yes: bool,
    dry_run: bool,
    strict: bool,
    proof: str | None,
    output: str,
) -> int:
    """Do everything that is recommended. On a terminal it shows its plan and asks first."""
    if bool(patterns) == everything:
        raise UsageError("Which tables?", "Name some (globs work), or say --all; not both.")
    settings = {} if proof is None else {"proof": ProofLevel(proof)}
    with application(ctx) as app:
        chosen = app.service.discover(() if everything else patterns)
        advice, unreadable = each_table(chosen, lambda table: app.service.advise(table, settings))
        busy = [item for item in advice if item.recommendation.actions]
        if output == "table":
            render.print_recommendations(advice)
            render.show_failures(unreadable)
        if dry_run or not busy or not (yes or _agreed(busy, output)):
            if output == "json":
                print_json(runs.maintenance_json(busy, [], unreadable))
            return 1 if unreadable else 0
        with stoppable() as cancel:
            steps = runs.maintain_with_bar(app.service, busy, cancel, output, settings)
        if output == "json":
            print_json(runs.maintenance_json(busy, steps, unreadable))
        else:
            runs.show_steps(steps)
        return 130 if cancel.is_set() else 1 if unreadable else runs.exit_code(steps, strict=strict)


def _agreed(busy: Sequence[Advice], output: str) -> bool:
    """Asked on a terminal only; what is asked goes to stderr, so that JSON stays one object."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    count = sum(len(item.recommendation.actions) for item in busy)
    if click.confirm(f"Run these {count} actions?", default=True, err=True):
        return True
    click.echo("Nothing was done.", err=True)
    return False
