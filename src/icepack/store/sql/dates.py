"""The UTC date of a time as an SQL expression."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class _UtcDate(FunctionElement[str]):
    type = Text()
    inherit_cache = True


@compiles(_UtcDate, "postgresql")
def _postgres_date(element: _UtcDate, compiler: SQLCompiler, **options: Any) -> str:
    return f"to_char({compiler.process(element.clauses, **options)} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"


@compiles(_UtcDate, "sqlite")
def _sqlite_date(element: _UtcDate, compiler: SQLCompiler, **options: Any) -> str:
    return f"date({compiler.process(element.clauses, **options)})"


def utc_date(time: ColumnElement[Any]) -> ColumnElement[str]:
    """The date as text, such as 2026-01-31."""
    return _UtcDate(time)
