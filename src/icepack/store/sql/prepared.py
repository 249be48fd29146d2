"""Statements that every job passes through, compiled once and given to the driver as they are.

Each is a transaction of its own. SQLAlchemy's bookkeeping for a call would cost more than PostgreSQL needs for the
statement; of SQLAlchemy only the pool is used, and a connection stays in autocommit until a transaction wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Compiled, Dialect, Engine, PoolProxiedConnection
from sqlalchemy.exc import DBAPIError

_CURSOR = "icepack_cursor"


class Prepared:
    """`columns` names what the statement returns."""

    def __init__(self, statement: Any, dialect: Dialect, *columns: str) -> None:
        self._statement = statement
        self._dialect = dialect
        self._columns = columns

    @cached_property
    def text(self) -> str:
        return str(self._compiled)

    @cached_property
    def constants(self) -> dict[str, Any]:
        """Values that are part of the statement itself; whatever the caller binds is among them as None."""
        return dict(self._compiled.params)

    def first(self, engine: Engine, values: Mapping[str, Any]) -> dict[str, Any] | None:
        row = self._run(engine, {**self.constants, **values}, lambda cursor: cursor.fetchone())
        return None if row is None else self._named(row)

    def named(self, engine: Engine, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [self._named(row) for row in self.all(engine, values)]

    def all(self, engine: Engine, values: Mapping[str, Any]) -> list[Any]:
        """Every row as the driver has it."""
        found: list[Any] = self._run(engine, {**self.constants, **values}, lambda cursor: cursor.fetchall())
        return found

    def _named(self, row: Any) -> dict[str, Any]:
        return {name: _in_utc(value) for name, value in zip(self._columns, row, strict=True)}

    def _run(self, engine: Engine, values: dict[str, Any], fetch: Callable[[Any], Any]) -> Any:
        with _checked_out(engine) as connection:
            cursor = _cursor(connection)
            try:
                return fetch(cursor.execute(self.text, values))
            except self._dialect.loaded_dbapi.Error as error:
                if cursor.connection.closed:
                    connection.invalidate(error)
                raise DBAPIError(None, None, error, hide_parameters=True) from error

    @cached_property
    def _compiled(self) -> Compiled:
        compiled: Compiled = self._statement.compile(dialect=self._dialect)
        return compiled


@contextmanager
def _checked_out(engine: Engine) -> Iterator[PoolProxiedConnection]:
    try:
        connection = engine.raw_connection()
    except engine.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(None, None, error, hide_parameters=True) from error
    with closing(connection):
        yield connection


def _cursor(connection: PoolProxiedConnection) -> Any:
    """One per connection to the server, kept with it: a new one would prepare its result's types anew."""
    driver: Any = connection.driver_connection
    if not driver.autocommit:
        driver.autocommit = True
    if _CURSOR not in connection.info:
        connection.info[_CURSOR] = driver.cursor(binary=True)
    return connection.info[_CURSOR]


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
