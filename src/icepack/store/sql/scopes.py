"""Scopes as conditions on rows that have a catalog and a namespace."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Dialect, Table, and_, false, or_, true

from icepack.domain.access import ANYTHING, Scope, Scopes, unlimited

_LIKE = {"*": "%", "?": "_", "%": "\\%", "_": "\\_", "\\": "\\\\"}
_GLOB = {"[": "[[]"}


def within(table: Table, scopes: Scopes, dialect: Dialect) -> ColumnElement[bool]:
    """Rows of tables that one of the scopes covers."""
    if unlimited(scopes):
        return true()
    return or_(*(_one(table, scope, dialect) for scope in scopes)) if scopes else false()


def _one(table: Table, scope: Scope, dialect: Dialect) -> ColumnElement[bool]:
    return and_(
        _fits(table.c.catalog, scope.catalog, dialect),
        _fits(table.c.namespace, scope.namespace, dialect),
    )


def _fits(column: Any, glob: str, dialect: Dialect) -> ColumnElement[bool]:
    if glob == ANYTHING:
        return true()
    if not set("*?") & set(glob):
        return column == glob  # type: ignore[no-any-return]
    # SQLite's LIKE takes small letters for capitals; its GLOB does not.
    if dialect.name == "sqlite":
        return column.op("GLOB", is_comparison=True)(_spelled(glob, _GLOB))  # type: ignore[no-any-return]
    return column.like(_spelled(glob, _LIKE), escape="\\")  # type: ignore[no-any-return]


def _spelled(glob: str, spelling: dict[str, str]) -> str:
    return "".join(spelling.get(character, character) for character in glob)
