"""Statements that every job passes through, compiled once and given to the driver as they are.

SQLAlchemy's bookkeeping for each call would cost more than PostgreSQL needs for the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Compiled, Connection, Dialect
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

    def first(self, connection: Connection, values: Mapping[str, Any]) -> dict[str, Any] | None:
        row = self._run(connection, {**self.constants, **values})
        if row is None:
            return None
        return {name: _in_utc(value) for name, value in zip(self._columns, row, strict=True)}

    def _run(self, connection: Connection, values: dict[str, Any]) -> Any:
        cursor = _cursor(connection)
        try:
            return cursor.execute(self.text, values).fetchone()
        except self._dialect.loaded_dbapi.Error as error:
            if cursor.connection.closed:
                connection.invalidate(error)
            raise DBAPIError(None, None, error, hide_parameters=True) from error

    @cached_property
    def _compiled(self) -> Compiled:
        compiled: Compiled = self._statement.compile(dialect=self._dialect)
        return compiled


def _cursor(connection: Connection) -> Any:
    """One per connection to the server, kept with it: a new one would prepare its result's types anew."""
    if _CURSOR not in connection.info:
        driver: Any = connection.connection.driver_connection
        connection.info[_CURSOR] = driver.cursor(binary=True)
    return connection.info[_CURSOR]


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
