"""How icepack holds a SQLite file: write-ahead log, foreign keys, patience, explicit transactions."""

from __future__ import annotations

import random
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, event

from icepack.errors import EnvironmentFault
from icepack.store.sql.errors import shown

BUSY_TIMEOUT_SECONDS = 30.0
IMMEDIATE = "sqlite_immediate"
"""Execution option: take the write lock when the transaction begins."""


def make_folder(url: URL) -> None:
    """SQLite makes the file, never the folder."""
    if not url.database or url.database == ":memory:":
        return
    try:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            f"The folder of the state database {shown(url)} cannot be made: {error.strerror}.",
            "Make it writable, or put the state database elsewhere.",
        ) from error


def tune(engine: Engine) -> None:
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)


def _on_connect(connection: sqlite3.Connection, _: Any) -> None:
    # The driver's own transactions would leave DDL outside, and could not begin with the write lock.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    _write_ahead(connection)


def _on_begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, retrying by hand: of two that switch at once, SQLite lets one fail unwaited."""
    give_up_at = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
        time.sleep(random.uniform(0.01, 0.05))
