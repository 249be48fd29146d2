"""The day of a moment, in UTC, as an expression."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class _Day(FunctionElement[str]):
    type = Text()
    inherit_cache = True


@compiles(_Day, "postgresql")
def _postgres_day(element: _Day, compiler: SQLCompiler, **options: Any) -> str:
    return f"to_char({compiler.process(element.clauses, **options)} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"


@compiles(_Day, "sqlite")
def _sqlite_day(element: _Day, compiler: SQLCompiler, **options: Any) -> str:
    return f"date({compiler.process(element.clauses, **options)})"


def day_of(moment: ColumnElement[Any]) -> ColumnElement[str]:
    """Written as 2026-01-31."""
    return _Day(moment)
