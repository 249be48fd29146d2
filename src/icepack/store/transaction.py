"""Transactions that mean to write."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import Connection, Engine

from icepack.store.sqlite import IMMEDIATE


def writing(engine: Engine) -> AbstractContextManager[Connection]:
    """A transaction that, on SQLite, holds the write lock from its start."""
    return engine.execution_options(**{IMMEDIATE: True}).begin()
