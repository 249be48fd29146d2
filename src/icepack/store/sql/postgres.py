"""Connection settings for PostgreSQL.

A connection is pinged only after it was idle, and stays in autocommit mode until a transaction of several statements
needs it.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError

# A connection that was idle for longer than this is pinged before it is used again.
PING_AFTER_IDLE_SECONDS = 1.0

_IDLE_SINCE = "idle_since"


def ping_idle_connections(engine: Engine) -> None:
    """Replace connections that died while they were idle.

    A connection in constant use needs no ping: a ping before each statement would double its cost.
    """

    def record_checkin(_: Any, record: Any) -> None:
        record.info[_IDLE_SINCE] = time.monotonic()

    def ping_if_idle(connection: Any, record: Any, _: Any) -> None:
        idle_since = record.info.get(_IDLE_SINCE)
        if idle_since is None or time.monotonic() - idle_since < PING_AFTER_IDLE_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError("The connection was lost while it was idle.") from error

    event.listen(engine, "checkin", record_checkin)
    event.listen(engine, "checkout", ping_if_idle)


def reset_autocommit(engine: Engine) -> None:
    """Turn autocommit off again, before a transaction can begin, on connections that prepared.py has used."""

    def reset(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        if driver.autocommit and connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            driver.autocommit = False

    event.listen(engine, "engine_connect", reset)
