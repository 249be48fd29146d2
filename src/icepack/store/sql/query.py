"""Frequent queries, built once and, on PostgreSQL, passed directly to the driver.

SQLAlchemy takes longer to build such a statement for each call than the database takes to answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, Select

from icepack.store.sql.errors import translate_errors
from icepack.store.sql.prepared import PreparedStatement
from icepack.store.sql.transaction import read_connection

QueryRow = Mapping[Any, Any]


class PreparedQuery:
    """A SELECT whose parameters are bound by name."""

    def __init__(self, engine: Engine, statement: Select[Any]) -> None:
        self._engine = engine
        self._statement = statement
        names = (str(column.name) for column in statement.selected_columns)
        is_postgresql = engine.dialect.name == "postgresql"
        self._prepared = PreparedStatement(statement, engine.dialect, *names) if is_postgresql else None

    def fetch_one(self, **values: Any) -> QueryRow | None:
        with translate_errors(self._engine.url):
            if self._prepared is not None:
                return self._prepared.fetch_one(self._engine, values)
            with read_connection(self._engine) as connection:
                return connection.execute(self._statement, values).mappings().first()

    def fetch_all(self, **values: Any) -> list[QueryRow]:
        with translate_errors(self._engine.url):
            if self._prepared is not None:
                return [*self._prepared.fetch_all(self._engine, values)]
            with read_connection(self._engine) as connection:
                return [*connection.execute(self._statement, values).mappings()]
