"""Opens connections for write transactions, single write statements and single queries."""

from __future__ import annotations

from contextlib import AbstractContextManager
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine

from icepack.store.sql.sqlite import IMMEDIATE_OPTION

# Engine variants are created once per engine: creating one costs more than the statements that it is used for.
_WRITE_ENGINES: WeakKeyDictionary[Engine, Engine] = WeakKeyDictionary()
_AUTOCOMMIT_ENGINES: WeakKeyDictionary[Engine, Engine] = WeakKeyDictionary()


def write_transaction(engine: Engine) -> AbstractContextManager[Connection]:
    """A transaction that, on SQLite, holds the write lock from its start."""
    if engine not in _WRITE_ENGINES:
        _WRITE_ENGINES[engine] = engine.execution_options(**{IMMEDIATE_OPTION: True})
    return _WRITE_ENGINES[engine].begin()


def single_write(engine: Engine) -> AbstractContextManager[Connection]:
    """For one write statement: on PostgreSQL it is its own transaction, which saves two round trips."""
    return _connect_autocommit(engine) if engine.dialect.name == "postgresql" else write_transaction(engine)


def read_connection(engine: Engine) -> AbstractContextManager[Connection]:
    """For one query."""
    return _connect_autocommit(engine) if engine.dialect.name == "postgresql" else engine.connect()


def _connect_autocommit(engine: Engine) -> AbstractContextManager[Connection]:
    if engine not in _AUTOCOMMIT_ENGINES:
        _AUTOCOMMIT_ENGINES[engine] = engine.execution_options(isolation_level="AUTOCOMMIT")
    return _AUTOCOMMIT_ENGINES[engine].connect()
