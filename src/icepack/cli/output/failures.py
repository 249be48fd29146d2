"""Prints tables that could not be read and catalogs that did not respond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icepack.cli.console import print_errors, print_text
from icepack.cli.context import ReadFailures
from icepack.domain.table import TableId

TableErrors = Sequence[tuple[TableId, str]]


def errors_json(errors: TableErrors) -> list[dict[str, str]]:
    return [{"table": str(table), "error": message} for table, message in errors]


def failures_json(failures: ReadFailures) -> dict[str, Any]:
    return {"errors": errors_json(failures.tables), "silent_catalogs": dict(failures.silent_catalogs)}


def show_failures(failures: ReadFailures) -> None:
    print_errors(failures.tables)
    for name, reason in failures.silent_catalogs.items():
        print_text(f"✗ catalog {name}: {reason}")
