"""Building blocks of terminal output: text, tables, scores, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from icepack.domain.table import TableId

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

# The lowest score for each colour.
SCORE_COLOURS = ((90, "green"), (70, "yellow"), (0, "red"))


@cache
def console() -> Console:
    """Returns the terminal; output to a pipe is 200 columns wide, so that rich does not wrap it at 80."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_text(text: str = "") -> None:
    """Prints plain text; rich markup in it has no effect."""
    console().print(text, markup=False)


def create_table(*columns: str, title: str | None = None, numbers: Sequence[str] = ()) -> Table:
    """Creates a table; the columns in `numbers` are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, header_style="bold")
    for column in columns:
        is_number = column in numbers
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    return table


def add_row(table: Table, *cells: Any) -> None:
    from rich.text import Text

    table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in cells))


def format_score(score: int) -> Text:
    from rich.text import Text

    return Text(str(score), style=next(colour for least, colour in SCORE_COLOURS if score >= least))


def format_change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def format_score_change(before: int, after: int) -> Text:
    from rich.text import Text

    if before == after:
        return format_score(after)
    return Text.assemble(format_score(before), " → ", format_score(after))


def short_names(tables: Iterable[TableId]) -> dict[TableId, str]:
    """Returns the names to print: without the catalog if all tables are in the same one."""
    known = list(tables)
    single = len({table.catalog for table in known}) <= 1
    return {table: table.short if single else str(table) for table in known}


def print_errors(failed: Sequence[tuple[TableId, str]]) -> None:
    for table, message in failed:
        print_text(f"✗ {table}: {message}")
