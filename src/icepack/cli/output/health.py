"""Prints the health of tables: scores and issues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from icepack.cli.console import add_row, console, create_table, format_score, print_json, print_text, short_names
from icepack.cli.context import ReadFailures
from icepack.cli.output.failures import failures_json, show_failures
from icepack.domain.health import HealthReport
from icepack.domain.run import compute_totals
from icepack.domain.serialization import to_json
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.domain.units import format_size
from icepack.domain.verification import NativeDisabled
from icepack.service.advice import Assessment


def show_issues(health: HealthReport) -> None:
    print_text(f"Score {health.score} of 100" + ("." if health.issues else ": no issues."))
    for issue in health.issues:
        print_text(f"  −{issue.penalty:<4g} {issue.code}: {issue.sentence}")


def show_health(
    assessments: Sequence[Assessment],
    failures: ReadFailures,
    output: str,
    *,
    native_disabled: Mapping[TableId, NativeDisabled],
    detailed: bool,
) -> None:
    if output == "json":
        tables = [_health_json(item, native_disabled) for item in assessments]
        print_json({"tables": tables, **failures_json(failures)})
        return
    print_health_table(assessments)
    if detailed:
        show_issues(assessments[0].health)
    for item in assessments:
        if item.status.table in native_disabled:
            print_text(describe_native_disabled(native_disabled[item.status.table]))
    show_failures(failures)


def _health_json(item: Assessment, native_disabled: Mapping[TableId, NativeDisabled]) -> dict[str, Any]:
    entry = native_disabled.get(item.status.table)
    return {
        "table": str(item.status.table),
        "health": to_json(item.health),
        "totals": to_json(compute_totals(item.status, item.health.score)),
        "native_disabled": None if entry is None else to_json(entry),
    }


def describe_native_disabled(entry: NativeDisabled) -> str:
    """Says since when and why the native rewrite is disabled, and how to enable it again."""
    return (
        f"The native rewrite of {entry.table} is disabled since {entry.disabled_at:%Y-%m-%d %H:%M} UTC: "
        f"{entry.reason} To enable it again: icepack native enable {quote(str(entry.table))}"
    )


def print_health_table(assessments: Sequence[Assessment], title: str | None = None) -> None:
    if not assessments:
        print_text("No tables.")
        return
    numbers = ("score", "files", "average size", "delete files", "snapshots", "size")
    table = create_table("table", *numbers, "issues", title=title, numbers=numbers)
    names = short_names(item.status.table for item in assessments)
    for item in sorted(assessments, key=lambda item: (item.health.score, item.status.table)):
        cells = (*_status_cells(item.status), _list_issues(item.health))
        add_row(table, names[item.status.table], format_score(item.health.score), *cells)
    console().print(table)


def _status_cells(status: TableStatus) -> tuple[str, ...]:
    return (
        f"{status.data.count:,}",
        format_size(status.data.average_bytes),
        f"{status.deletes.files:,}",
        f"{status.snapshots.count:,}",
        format_size(status.data.bytes),
    )


def _list_issues(health: HealthReport) -> str:
    return ", ".join(issue.code.replace("_", " ") for issue in health.issues) or "healthy"
