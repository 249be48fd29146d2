"""Statements that every job passes through, compiled once and given to the driver as they are.

SQLAlchemy's bookkeeping for each call would cost more than PostgreSQL needs for the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Dialect, Executable
from sqlalchemy.exc import DBAPIError


class Prepared:
    def __init__(self, statement: Executable, dialect: Dialect, *columns: str) -> None:
        compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        self._text = str(compiled)
        self._constants = dict(compiled.params)
        self._columns = columns

    def first(self, connection: Connection, values: Mapping[str, Any]) -> dict[str, Any] | None:
        row = self._run(connection, {**self._constants, **values})
        if row is None:
            return None
        return {name: _in_utc(value) for name, value in zip(self._columns, row, strict=True)}

    def _run(self, connection: Connection, values: dict[str, Any]) -> Any:
        driver: Any = connection.connection.driver_connection
        errors = connection.dialect.loaded_dbapi.Error
        try:
            return driver.execute(self._text, values).fetchone()
        except errors as error:
            if driver.closed:
                connection.invalidate(error)
            raise DBAPIError(None, None, error, hide_parameters=True) from error


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
