"""Access scopes as SQL conditions on rows that have a catalog and a namespace."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Dialect, Table, and_, false, or_, true

from icepack.domain.access import WILDCARD, Scope, Scopes, is_unlimited

_LIKE_CHARACTERS = {"*": "%", "?": "_", "%": "\\%", "_": "\\_", "\\": "\\\\"}
_GLOB_CHARACTERS = {"[": "[[]"}


def scope_condition(table: Table, scopes: Scopes, dialect: Dialect) -> ColumnElement[bool]:
    """True for rows of Iceberg tables that at least one of the scopes covers."""
    if is_unlimited(scopes):
        return true()
    return or_(*(_match_scope(table, scope, dialect) for scope in scopes)) if scopes else false()


def _match_scope(table: Table, scope: Scope, dialect: Dialect) -> ColumnElement[bool]:
    return and_(
        _match_glob(table.c.catalog, scope.catalog, dialect),
        _match_glob(table.c.namespace, scope.namespace, dialect),
    )


def _match_glob(column: Any, glob: str, dialect: Dialect) -> ColumnElement[bool]:
    if glob == WILDCARD:
        return true()
    if not set("*?") & set(glob):
        return column == glob  # type: ignore[no-any-return]
    # SQLite's LIKE ignores case; its GLOB does not.
    if dialect.name == "sqlite":
        return column.op("GLOB", is_comparison=True)(_replace(glob, _GLOB_CHARACTERS))  # type: ignore[no-any-return]
    return column.like(_replace(glob, _LIKE_CHARACTERS), escape="\\")  # type: ignore[no-any-return]


def _replace(glob: str, characters: dict[str, str]) -> str:
    return "".join(characters.get(character, character) for character in glob)
