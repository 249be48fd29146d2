"""Prints the result of one run: its outcome, proofs, and the table before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icepack.cli.console import (
    add_row,
    console,
    create_table,
    format_change,
    format_score_change,
    print_text,
    short_names,
)
from icepack.cli.exit_codes import FAILED, INTERRUPTED, SUCCEEDED
from icepack.cli.output.history import describe_result
from icepack.domain.run import Proof, RunRecord, RunState, Totals
from icepack.domain.table import TableId
from icepack.domain.units import format_duration, format_size
from icepack.domain.verification import ValueProof

FAILURE_MARK = "✗"
MARKS = {RunState.SUCCEEDED: "✓", RunState.CANCELLED: "–", RunState.REFUSED: "!"}

MAX_DIFFERENCES_SHOWN = 20


def exit_code_of(state: RunState) -> int:
    return {RunState.SUCCEEDED: SUCCEEDED, RunState.CANCELLED: INTERRUPTED}.get(state, FAILED)


def show_record(record: RunRecord) -> None:
    print_run(record, short_names([record.table])[record.table])
    for proof in record.proofs:
        print_text(f"  proof: {describe_proof(proof)}")
    if record.value_proof is not None:
        for line in describe_value_proof(record.value_proof):
            print_text(f"  {line}")
    print_before_after([record])


def print_run(record: RunRecord, name: str) -> None:
    """Prints one line for a run, and the assumptions it made."""
    duration = format_duration(record.realised_seconds)
    prefix = "refused: " if record.state is RunState.REFUSED else ""
    print_text(f"{_mark(record)} {name}: {record.kind} — {prefix}{describe_result(record)} ({duration})")
    print_assumptions(record.details or {})


def print_assumptions(details: Mapping[str, Any]) -> None:
    """Prints what an orphan removal assumed about the locations of tables that could not be read."""
    for item in details.get("assumed_locations", ()):
        print_text(f"    assumed: {item['sentence']}")


def _mark(record: RunRecord) -> str:
    """Marks a success with a value mismatch like a refusal, because it needs attention."""
    has_mismatch = record.value_proof is not None and record.value_proof.mismatch is not None
    return "!" if has_mismatch and record.state is RunState.SUCCEEDED else MARKS.get(record.state, FAILURE_MARK)


def print_before_after(records: Sequence[RunRecord], title: str | None = None) -> None:
    totals = before_and_after(records)
    if not totals:
        return
    numbers = ("files", "average size", "delete files", "snapshots", "manifests", "size", "score")
    table = create_table("table", *numbers, title=title, numbers=numbers)
    names = short_names(totals)
    for name, (before, after) in totals.items():
        add_row(table, names[name], *_change_cells(before, after), format_score_change(before.score, after.score))
    console().print(table)


def before_and_after(records: Sequence[RunRecord]) -> dict[TableId, tuple[Totals, Totals]]:
    """Returns the first known `before` and the last known `after` of each table."""
    totals: dict[TableId, tuple[Totals, Totals]] = {}
    for record in records:
        if record.before is None:
            continue
        first = totals[record.table][0] if record.table in totals else record.before
        totals[record.table] = (first, record.after or record.before)
    return totals


def _change_cells(before: Totals, after: Totals) -> tuple[str, ...]:
    return (
        format_change(f"{before.data_files:,}", f"{after.data_files:,}"),
        format_change(format_size(before.average_bytes), format_size(after.average_bytes)),
        format_change(f"{before.delete_files:,}", f"{after.delete_files:,}"),
        format_change(f"{before.snapshots:,}", f"{after.snapshots:,}"),
        format_change(f"{before.manifests:,}", f"{after.manifests:,}"),
        format_change(format_size(before.bytes), format_size(after.bytes)),
    )


def describe_proof(proof: Proof) -> str:
    result = "equal" if proof.holds else "DIFFERENT"
    return f"{proof.method}, {proof.rows_before:,} before and {proof.rows_after:,} after: {result}"


def describe_value_proof(proof: ValueProof) -> Iterator[str]:
    """Yields a line for the compared rows, each group that the native rewrite failed on, and each difference."""
    if proof.rows_compared:
        reasons = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in sorted(proof.reasons.items()))
        yield f"values: {proof.rows_compared:,} rows compared" + (f" ({reasons})" if reasons else "")
    for failure in proof.failures:
        where = f" of {failure.partition}" if failure.partition else ""
        yield f"native rewrite{where} failed, Spark's procedure was used instead: {failure.error}"
    if proof.mismatch is not None:
        for difference in proof.mismatch.differences[:MAX_DIFFERENCES_SHOWN]:
            where = f" in {difference.file}" if difference.file else ""
            yield (
                f"different: {difference.column or 'rows'} {difference.measure}{where}: "
                f"{difference.before} before, {difference.after} after"
            )
