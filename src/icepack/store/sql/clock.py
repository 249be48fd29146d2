"""The database's clock as an SQL expression; all leases and delays are measured by this clock alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from icepack.store.sql.types import UtcDateTime

# The format in which SQLAlchemy writes times to SQLite, which compares them as text. SQLite's clock has milliseconds.
_SQLITE_FORMAT = "%Y-%m-%d %H:%M:%f000"


class _CurrentTime(FunctionElement[datetime]):
    """The time now, not the start of the transaction: a transaction may wait for locks."""

    type = UtcDateTime()
    inherit_cache = True


class _AddSeconds(FunctionElement[datetime]):
    """A time plus a number of seconds."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(_CurrentTime, "postgresql")
def _postgres_current_time(element: _CurrentTime, compiler: SQLCompiler, **options: Any) -> str:
    return "clock_timestamp()"


@compiles(_CurrentTime, "sqlite")
def _sqlite_current_time(element: _CurrentTime, compiler: SQLCompiler, **options: Any) -> str:
    return f"strftime('{_escape_format(compiler)}', 'now')"


@compiles(_AddSeconds, "postgresql")
def _postgres_add_seconds(element: _AddSeconds, compiler: SQLCompiler, **options: Any) -> str:
    base, seconds = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({base} + make_interval(secs => {seconds}))"


@compiles(_AddSeconds, "sqlite")
def _sqlite_add_seconds(element: _AddSeconds, compiler: SQLCompiler, **options: Any) -> str:
    base, seconds = (compiler.process(clause, **options) for clause in element.clauses)
    return f"strftime('{_escape_format(compiler)}', {base}, {seconds} || ' seconds')"


def _escape_format(compiler: SQLCompiler) -> str:
    doubles_percents: bool = compiler.preparer._double_percents
    return _SQLITE_FORMAT.replace("%", "%%") if doubles_percents else _SQLITE_FORMAT


class DatabaseClock:
    """Expressions for the database's current time; tests replace it with a clock that they set."""

    def now(self) -> ColumnElement[datetime]:
        """The current time for comparisons: as a subquery it is one value, so an index can be searched for it."""
        return select(self._current_time()).scalar_subquery()

    def timestamp(self) -> ColumnElement[datetime]:
        """The current time as a value to store, which is cheaper than `now`."""
        return self._current_time()

    def after(self, seconds: ColumnElement[float]) -> ColumnElement[datetime]:
        """The current time plus the seconds."""
        return _AddSeconds(self._current_time(), seconds)

    def _current_time(self) -> ColumnElement[datetime]:
        return _CurrentTime()
