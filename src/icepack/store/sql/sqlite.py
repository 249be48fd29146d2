"""Connection settings for SQLite: write-ahead log, foreign keys, busy timeout and explicit transactions."""

from __future__ import annotations

import random
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, event

from icepack.errors import EnvironmentFault
from icepack.store.sql.errors import mask_url

# How long a connection waits for another connection's write lock.
BUSY_TIMEOUT_SECONDS = 30.0
# Name of the execution option that takes the write lock when the transaction begins.
IMMEDIATE_OPTION = "sqlite_immediate"


def create_parent_folder(url: URL) -> None:
    """Create the folder of the database file; SQLite itself creates only the file."""
    if not url.database or url.database == ":memory:":
        return
    try:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            f"The folder of the state database {mask_url(url)} cannot be created: {error.strerror}.",
            "Make its parent folder writable, or configure another path for the state database.",
        ) from error


def configure(engine: Engine) -> None:
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)


def _on_connect(connection: sqlite3.Connection, _: Any) -> None:
    # The driver's own transactions would exclude DDL and could not begin with the write lock.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    _enable_write_ahead_log(connection)


def _on_begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(IMMEDIATE_OPTION, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _enable_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode, with retries: if two connections switch at once, one fails without the busy timeout."""
    give_up_at = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
        time.sleep(random.uniform(0.01, 0.05))
