"""Transactions that mean to write, and statements that need none."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import Connection, Engine

from icepack.store.sqlite import IMMEDIATE


def writing(engine: Engine) -> AbstractContextManager[Connection]:
    """A transaction that, on SQLite, holds the write lock from its start."""
    return engine.execution_options(**{IMMEDIATE: True}).begin()


def at_once(engine: Engine) -> AbstractContextManager[Connection]:
    """For work that PostgreSQL does in one statement, which is a transaction of its own and saves two round trips."""
    if engine.dialect.name == "postgresql":
        return engine.execution_options(isolation_level="AUTOCOMMIT").connect()
    return writing(engine)


def reading(engine: Engine) -> AbstractContextManager[Connection]:
    """For a single query."""
    if engine.dialect.name == "postgresql":
        return engine.execution_options(isolation_level="AUTOCOMMIT").connect()
    return engine.connect()
