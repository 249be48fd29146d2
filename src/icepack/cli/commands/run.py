"""The commands that change tables: `run` and `maintain`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from icepack.cli.console import print_json
from icepack.cli.context import format_option, open_app, print_notice, read_tables
from icepack.cli.exit_codes import FAILED, INTERRUPTED, SUCCEEDED
from icepack.cli.options import parse_parameters, proof_option, size_type, strategy_type
from icepack.cli.output.dry_run import show_dry_run
from icepack.cli.output.failures import show_failures
from icepack.cli.output.maintenance import maintenance_exit_code, maintenance_json, run_maintenance, show_steps
from icepack.cli.output.progress import progress_bar
from icepack.cli.output.recommendations import print_recommendations
from icepack.cli.output.runs import exit_code_of, show_record
from icepack.cli.signals import cancel_on_signal
from icepack.domain.actions import ActionKind, Layout, RewriteEngine
from icepack.domain.serialization import to_json
from icepack.domain.verification import ProofLevel
from icepack.errors import UsageError
from icepack.service.advice import Advice


@click.command()
@click.argument("kind", metavar="ACTION", type=click.Choice(ActionKind, case_sensitive=False))
@click.argument("pattern", metavar="TABLE")
@click.option(
    "--strategy",
    type=strategy_type,
    help="Which files to rewrite: small_files, delete_files or time_series; default: by policy, else by issues.",
)
@click.option("--layout", type=click.Choice([layout.value for layout in Layout]), help="Order of the rewritten rows.")
@click.option("--columns", help="Columns of the layout: a,b or 'a desc nulls last,b'.")
@click.option("--where", "partition_filter", help='Rewrite only these partitions: "date >= current_date - 7" (UTC).')
@click.option("--target-file-size", "target_file_bytes", type=size_type, help="Target size: 512MB, 1GB.")
@click.option(
    "--min-input-files", type=click.IntRange(1), help="Merge only partitions with at least this many small files."
)
@click.option(
    "--engine",
    type=click.Choice([engine.value for engine in RewriteEngine]),
    help="native: icepack's own kernel wherever it supports the files; spark: always Spark's procedure.",
)
@proof_option
@click.option("--partial-progress", is_flag=True, default=None, help="Commit each file group separately.")
@click.option("--rewrite-all", is_flag=True, default=None, help="Rewrite every file, not only those that need it.")
@click.option(
    "--max-cost", "max_cost_dollars", type=float, help="Refuse to run if the estimated cost is over this many dollars."
)
@click.option("--older-than", help="Minimum age of the snapshots or orphan files to remove: 7d, 12h.")
@click.option(
    "--retain-last", type=click.IntRange(1), help="Number of snapshots to keep on each branch, whatever their age."
)
@click.option(
    "--snapshot-id", "snapshot_ids", type=int, multiple=True, help="Expire this snapshot, or compute its statistics."
)
@click.option("--clean-expired-metadata", is_flag=True, default=None, help="Remove unused schemas and partition specs.")
@click.option("--location", help="Search only this folder for orphan files.")
@click.option(
    "--override-age-floor", is_flag=True, default=None, help="Also remove orphan files younger than 24 hours."
)
@click.option("--partition-stats", is_flag=True, default=None, help="Also compute partition statistics.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="Any option of Iceberg's procedure.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and exit.")
@format_option
@click.pass_context
def run(ctx: click.Context, /, kind: ActionKind, pattern: str, dry_run: bool, output: str, **flags: Any) -> int:
    """Run one action on one table."""
    parameters = parse_parameters(kind, flags)
    with open_app(ctx) as app:
        table = app.service.table(pattern)
        action = app.service.prepare(table, kind, parameters)
        if dry_run:
            return show_dry_run(app.service, table, action, output)
        with cancel_on_signal() as cancel, progress_bar(output) as bar:
            progress = bar.start_action(f"{kind} {table}")
            record = app.service.run(table, action, progress=progress, cancel=cancel)
        if output == "json":
            print_json({"run": to_json(record)})
        else:
            show_record(record)
        return exit_code_of(record.state)


@click.command()
@click.argument("patterns", metavar="[TABLE]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All tables of all catalogs.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show the recommendations, and exit.")
@click.option("--strict", is_flag=True, help="Exit with 1 also if a safety check refused an action.")
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
    """Run all recommended actions. On a terminal, show them and ask for confirmation first."""
    if bool(patterns) == everything:
        raise UsageError("Either name tables or use --all.", "Names may be globs, such as sales.*.")
    settings = {} if proof is None else {"proof": ProofLevel(proof)}
    with open_app(ctx) as app:
        found = app.service.discover(() if everything else patterns)
        advice, failures = read_tables(found, lambda table: app.service.advise(table, settings))
        selected = [item for item in advice if item.recommendation.actions]
        if output == "table":
            print_recommendations(advice)
            show_failures(failures)
        if dry_run or not selected or not (yes or _confirm(selected)):
            if output == "json":
                print_json(maintenance_json(selected, [], failures))
            return FAILED if failures else SUCCEEDED
        with cancel_on_signal() as cancel:
            steps = run_maintenance(app.service, selected, cancel, output, settings)
        if output == "json":
            print_json(maintenance_json(selected, steps, failures))
        else:
            show_steps(steps)
        if cancel.is_set():
            return INTERRUPTED
        return FAILED if failures else maintenance_exit_code(steps, strict=strict)


def _confirm(advice: Sequence[Advice]) -> bool:
    """Asks on a terminal only, and on stderr, so that JSON output stays one object."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    count = sum(len(item.recommendation.actions) for item in advice)
    if click.confirm(f"Run these {count} actions?", default=True, err=True):
        return True
    print_notice("Nothing was run.")
    return False
