"""Transactions that mean to write, and statements that need none."""

from __future__ import annotations

from contextlib import AbstractContextManager
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine

from icepack.store.sql.sqlite import IMMEDIATE

# Made once per engine: a variant costs more than the statements that it is for.
_WRITING: WeakKeyDictionary[Engine, Engine] = WeakKeyDictionary()
_AUTOCOMMIT: WeakKeyDictionary[Engine, Engine] = WeakKeyDictionary()


def writing(engine: Engine) -> AbstractContextManager[Connection]:
    """A transaction that, on SQLite, holds the write lock from its start."""
    if engine not in _WRITING:
        _WRITING[engine] = engine.execution_options(**{IMMEDIATE: True})
    return _WRITING[engine].begin()


def at_once(engine: Engine) -> AbstractContextManager[Connection]:
    """For writes that PostgreSQL does in one statement, which is a transaction of its own and saves two round trips."""
    return _autocommit(engine) if engine.dialect.name == "postgresql" else writing(engine)


def reading(engine: Engine) -> AbstractContextManager[Connection]:
    """For a single query."""
    return _autocommit(engine) if engine.dialect.name == "postgresql" else engine.connect()


def _autocommit(engine: Engine) -> AbstractContextManager[Connection]:
    if engine not in _AUTOCOMMIT:
        _AUTOCOMMIT[engine] = engine.execution_options(isolation_level="AUTOCOMMIT")
    return _AUTOCOMMIT[engine].connect()
