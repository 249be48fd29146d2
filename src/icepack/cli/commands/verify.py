"""The verify command: compares snapshots by value."""

from __future__ import annotations

from collections.abc import Iterable

import click

from icepack.cli.console import add_row, console, create_table, print_json, print_text
from icepack.cli.context import format_option, open_app
from icepack.cli.exit_codes import FAILED, SUCCEEDED
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.domain.verification import ValueComparison
from icepack.errors import UsageError
from icepack.service.runs.verifier import Verifier

MAX_DIFFERENCES_SHOWN = 30


@click.command()
@click.argument("pattern", metavar="TABLE")
@click.option("--snapshot", "snapshot_id", type=int, help="Snapshot to compare; needs --against.")
@click.option("--against", "against_id", type=int, help="Snapshot to compare it with.")
@click.option("--all-files", is_flag=True, help="Also read the files that both snapshots share.")
@click.option("--repeat", is_flag=True, help="Repeat the check that disabled the native rewrite of the table.")
@format_option
@click.pass_context
def verify(
    ctx: click.Context,
    pattern: str,
    snapshot_id: int | None,
    against_id: int | None,
    all_files: bool,
    repeat: bool,
    output: str,
) -> int:
    """Compare two snapshots by value; by default, each commit of icepack with its parent.

    Iceberg's own reader reads both sides. Nothing is changed. The exit code is 1 if values differ.
    """
    if (snapshot_id is None) != (against_id is None):
        raise UsageError(
            "--snapshot and --against must be used together.",
            "`icepack inspect TABLE --format json` lists the snapshots.",
        )
    if repeat and (snapshot_id is not None or all_files):
        raise UsageError("--repeat cannot be combined with other options: it repeats the recorded check.")
    with open_app(ctx) as app:
        table = app.service.table(pattern)
        comparisons = _compare(app.verifier, table, snapshot_id, against_id, all_files, repeat)
        done = list(comparisons) if output == "json" else list(_print_each(comparisons))
        if output == "json":
            documents = [{**to_json(comparison), "equal": comparison.is_equal} for comparison in done]
            print_json({"table": str(table), "comparisons": documents})
        elif not done:
            print_text(
                f"{table} has no commit of icepack to compare; name two snapshots with --snapshot and --against."
            )
        return SUCCEEDED if all(comparison.is_equal for comparison in done) else FAILED


def _compare(
    verifier: Verifier,
    table: TableId,
    snapshot_id: int | None,
    against_id: int | None,
    all_files: bool,
    repeat: bool,
) -> Iterable[ValueComparison]:
    if repeat:
        return [verifier.repeat(table)]
    if snapshot_id is not None and against_id is not None:
        return [verifier.compare(table, snapshot_id, against_id, all_files=all_files)]
    return verifier.compare_commits(table, all_files=all_files)


def _print_each(comparisons: Iterable[ValueComparison]) -> Iterable[ValueComparison]:
    for comparison in comparisons:
        print_text(describe_comparison(comparison))
        if not comparison.is_equal:
            _show_differences(comparison)
        yield comparison


def describe_comparison(comparison: ValueComparison) -> str:
    other = "its native rewrite" if comparison.against_id is None else f"{comparison.against_id}"
    result = "equal" if comparison.is_equal else "DIFFERENT"
    rows = f"{comparison.rows_before:,} rows"
    if comparison.rows_before != comparison.rows_after:
        rows = f"{comparison.rows_before:,} and {comparison.rows_after:,} rows"
    shared = f"; {comparison.files_shared:,} files shared" if comparison.files_shared else ""
    files = comparison.files_before + comparison.files_after
    return f"{comparison.snapshot_id} and {other}: {result} ({rows} compared in {files:,} files{shared})"


def _show_differences(comparison: ValueComparison) -> None:
    table = create_table("column", "measure", "before", "after")
    for difference in comparison.differences[:MAX_DIFFERENCES_SHOWN]:
        add_row(table, difference.column, difference.measure, difference.before, difference.after)
    console().print(table)
    remaining = len(comparison.differences) - MAX_DIFFERENCES_SHOWN
    if remaining > 0:
        print_text(f"… and {remaining} more")
