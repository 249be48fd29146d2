"""Questions that are asked all the time: worked out once, and on PostgreSQL given to the driver as they are.

To put such a statement together again for every call, SQLAlchemy takes longer than the database does to answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, Select

from icepack.store.sql.errors import plain_faults
from icepack.store.sql.prepared import Prepared
from icepack.store.sql.transaction import reading

Row = Mapping[Any, Any]


class Query:
    """Its values are bound by name."""

    def __init__(self, engine: Engine, statement: Select[Any]) -> None:
        self._engine = engine
        self._statement = statement
        names = (str(column.name) for column in statement.selected_columns)
        is_postgresql = engine.dialect.name == "postgresql"
        self._prepared = Prepared(statement, engine.dialect, *names) if is_postgresql else None

    def first(self, **values: Any) -> Row | None:
        with plain_faults(self._engine.url):
            if self._prepared is not None:
                return self._prepared.first(self._engine, values)
            with reading(self._engine) as connection:
                return connection.execute(self._statement, values).mappings().first()

    def all(self, **values: Any) -> list[Row]:
        with plain_faults(self._engine.url):
            if self._prepared is not None:
                return [*self._prepared.named(self._engine, values)]
            with reading(self._engine) as connection:
                return [*connection.execute(self._statement, values).mappings()]
