"""`icepack verify`: compares snapshots by value."""

from __future__ import annotations

from collections.abc import Iterable

import click

from icepack.cli.console import console, grid, print_json, row, say
from icepack.cli.context import application, format_option
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.domain.verification import ValueComparison
from icepack.errors import UsageError
from icepack.service.runs.verifier import Verifier

SHOWN_DIFFERENCES = 30


@click.command()
@click.argument("pattern", metavar="TABLE")
@click.option("--snapshot", "snapshot_id", type=int, help="The snapshot to compare. Needs --against.")
@click.option("--against", "against_id", type=int, help="The snapshot to compare it with.")
@click.option("--all-files", is_flag=True, help="Also read the files that both snapshots share.")
@click.option("--repeat", is_flag=True, help="Repeat the check that switched the native rewrite off for the table.")
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
    """Compare two snapshots by value; without any, each commit of icepack with its parent.

    Iceberg's own reader reads both sides. Nothing is changed. Exit code 1 when values differ.
    """
    if (snapshot_id is None) != (against_id is None):
        raise UsageError("--snapshot and --against belong together.", "'icepack inspect TABLE' lists the snapshots.")
    if repeat and (snapshot_id is not None or all_files):
        raise UsageError("--repeat stands alone: it repeats the check that is on record.")
    with application(ctx) as app:
        table = app.service.table(pattern)
        found = _comparisons(app.verifier, table, snapshot_id, against_id, all_files, repeat)
        seen = list(found) if output == "json" else list(_shown(found))
        if output == "json":
            print_json(
                {"table": str(table), "comparisons": [{**to_json(each), "equal": each.is_equal} for each in seen]}
            )
        elif not seen:
            say(f"{table} has no commit of icepack that could be compared: name two with --snapshot and --against.")
        return 0 if all(each.is_equal for each in seen) else 1


def _comparisons(
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


def _shown(found: Iterable[ValueComparison]) -> Iterable[ValueComparison]:
    for comparison in found:
        say(describe(comparison))
        if not comparison.is_equal:
            _show_differences(comparison)
        yield comparison


def describe(comparison: ValueComparison) -> str:
    other = "its native rewrite" if comparison.against_id is None else f"{comparison.against_id}"
    verdict = "equal" if comparison.is_equal else "DIFFERENT"
    rows = f"{comparison.rows_before:,} rows"
    if comparison.rows_before != comparison.rows_after:
        rows = f"{comparison.rows_before:,} and {comparison.rows_after:,} rows"
    shared = f"; {comparison.files_shared:,} files shared" if comparison.files_shared else ""
    files = comparison.files_before + comparison.files_after
    return f"{comparison.snapshot_id} and {other}: {verdict} ({rows} compared in {files:,} files{shared})"


def _show_differences(comparison: ValueComparison) -> None:
    table = grid("column", "measure", "before", "after")
    for difference in comparison.differences[:SHOWN_DIFFERENCES]:
        row(table, difference.column, difference.measure, difference.before, difference.after)
    console().print(table)
    left = len(comparison.differences) - SHOWN_DIFFERENCES
    if left > 0:
        say(f"… and {left} more")
