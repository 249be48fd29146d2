"""Statements that are compiled once and passed directly to the PostgreSQL driver.

Every job passes through these statements. SQLAlchemy's work per call would take longer than PostgreSQL needs for the
statement, so only SQLAlchemy's connection pool is used. Each statement is its own transaction: the connection is
switched to autocommit and stays so until a transaction needs it.
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


class PreparedStatement:
    """A compiled statement; `columns` are the names of the columns that it returns."""

    def __init__(self, statement: Any, dialect: Dialect, *columns: str) -> None:
        self._statement = statement
        self._dialect = dialect
        self._columns = columns

    @cached_property
    def text(self) -> str:
        return str(self._compiled)

    @cached_property
    def constants(self) -> dict[str, Any]:
        """Values that are part of the statement; parameters that the caller binds are None here."""
        return dict(self._compiled.params)

    def fetch_one(self, engine: Engine, values: Mapping[str, Any]) -> dict[str, Any] | None:
        row = self._run(engine, {**self.constants, **values}, lambda cursor: cursor.fetchone())
        return None if row is None else self._to_dict(row)

    def fetch_all(self, engine: Engine, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [self._to_dict(row) for row in self.fetch_tuples(engine, values)]

    def fetch_tuples(self, engine: Engine, values: Mapping[str, Any]) -> list[Any]:
        """All rows as the driver returns them."""
        rows: list[Any] = self._run(engine, {**self.constants, **values}, lambda cursor: cursor.fetchall())
        return rows

    def _to_dict(self, row: Any) -> dict[str, Any]:
        return {name: _to_utc(value) for name, value in zip(self._columns, row, strict=True)}

    def _run(self, engine: Engine, values: dict[str, Any], fetch: Callable[[Any], Any]) -> Any:
        with _checkout(engine) as connection:
            cursor = _get_cursor(connection)
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
def _checkout(engine: Engine) -> Iterator[PoolProxiedConnection]:
    try:
        connection = engine.raw_connection()
    except engine.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(None, None, error, hide_parameters=True) from error
    with closing(connection):
        yield connection


def _get_cursor(connection: PoolProxiedConnection) -> Any:
    """The connection's cursor, kept for reuse: a new cursor would have to look up the types of its results again."""
    driver: Any = connection.driver_connection
    if not driver.autocommit:
        driver.autocommit = True
    if _CURSOR not in connection.info:
        connection.info[_CURSOR] = driver.cursor(binary=True)
    return connection.info[_CURSOR]


def _to_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
