"""INSERT ... ON CONFLICT, which SQLAlchemy offers for each database separately."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import Dialect, Table
from sqlalchemy.dialects import postgresql, sqlite

# Returns the values to store, given the columns of the stored row and of the new row.
Merge = Callable[[Any, Any], Mapping[str, Any]]


def insert_if_absent(table: Table, dialect: Dialect) -> Any:
    """Insert a row, or do nothing if it violates a unique constraint; `returning` tells which happened."""
    return _insert(table, dialect).on_conflict_do_nothing()


def upsert(table: Table, dialect: Dialect, merge: Merge | None = None, *, keep: Collection[str] = ()) -> Any:
    """Insert a row, or update the row that has the same primary key.

    Without `merge`, the new row replaces the stored row except for the columns in `keep`.
    """
    statement = _insert(table, dialect)
    changes = merge(table.c, statement.excluded) if merge else _replace_columns(table, statement.excluded, keep)
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes)


def _replace_columns(table: Table, new: Any, keep: Collection[str]) -> dict[str, Any]:
    replaced = (column.name for column in table.c if not column.primary_key)
    return {name: new[name] for name in replaced if name not in keep}


def _insert(table: Table, dialect: Dialect) -> Any:
    return (postgresql.insert if dialect.name == "postgresql" else sqlite.insert)(table)
