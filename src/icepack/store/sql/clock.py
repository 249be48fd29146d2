"""The database's clock as an expression: the only one that leases and waits are measured by."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from icepack.store.schema import UtcDateTime

# As SQLAlchemy writes times into SQLite, which compares them as text; SQLite knows milliseconds at best.
_SQLITE_FORM = "%Y-%m-%d %H:%M:%f000"


class _Now(FunctionElement[datetime]):
    """Not the transaction's start: time goes on while a transaction waits."""

    type = UtcDateTime()
    inherit_cache = True


class _Later(FunctionElement[datetime]):
    """A time and the seconds to add to it."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(_Now, "postgresql")
def _postgres_now(element: _Now, compiler: SQLCompiler, **options: Any) -> str:
    return "clock_timestamp()"


@compiles(_Now, "sqlite")
def _sqlite_now(element: _Now, compiler: SQLCompiler, **options: Any) -> str:
    return f"strftime('{_escaped(compiler)}', 'now')"


@compiles(_Later, "postgresql")
def _postgres_later(element: _Later, compiler: SQLCompiler, **options: Any) -> str:
    base, seconds = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({base} + make_interval(secs => {seconds}))"


@compiles(_Later, "sqlite")
def _sqlite_later(element: _Later, compiler: SQLCompiler, **options: Any) -> str:
    base, seconds = (compiler.process(clause, **options) for clause in element.clauses)
    return f"strftime('{_escaped(compiler)}', {base}, {seconds} || ' seconds')"


def _escaped(compiler: SQLCompiler) -> str:
    doubled: bool = compiler.preparer._double_percents
    return _SQLITE_FORM.replace("%", "%%") if doubled else _SQLITE_FORM


class DatabaseClock:
    def now(self) -> ColumnElement[datetime]:
        """To compare with: an index cannot be searched for a value that may change from row to row."""
        return select(self._moment()).scalar_subquery()

    def at(self) -> ColumnElement[datetime]:
        """To write: it costs less than `now`."""
        return self._moment()

    def after(self, seconds: ColumnElement[float]) -> ColumnElement[datetime]:
        return _Later(self._moment(), seconds)

    def _moment(self) -> ColumnElement[datetime]:
        return _Now()
