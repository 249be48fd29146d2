"""Small pieces of terminal output: scores, bars, tables."""

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

SCORE_COLOURS = ((90, "green"), (70, "yellow"), (0, "red"))


@cache
def console() -> Console:
    """The terminal; a pipe gets lines that are not folded at 80 columns."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def say(text: str = "") -> None:
    """Plain text: names that look like markup are printed as they are."""
    console().print(text, markup=False)


def grid(*columns: str, title: str | None = None, numbers: Sequence[str] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, header_style="bold")
    for column in columns:
        right = column in numbers
        table.add_column(column, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return table


def row(table: Table, *cells: Any) -> None:
    from rich.text import Text

    table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in cells))


def score(value: int) -> Any:
    from rich.text import Text

    return Text(str(value), style=next(colour for least, colour in SCORE_COLOURS if value >= least))


def change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def score_change(before: int, after: int) -> Any:
    from rich.text import Text

    return Text.assemble(score(before), " → ", score(after)) if before != after else score(after)


def short_names(tables: Iterable[TableId]) -> dict[TableId, str]:
    """Without the catalog, where there is only one."""
    known = list(tables)
    single = len({table.catalog for table in known}) <= 1
    return {table: table.short if single else str(table) for table in known}


def show_errors(failed: Sequence[tuple[TableId, str]]) -> None:
    for table, message in failed:
        say(f"✗ {table}: {message}")
