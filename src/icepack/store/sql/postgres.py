"""How icepack holds connections to PostgreSQL.

They are asked for a sign of life when they have rested, not each time, and stay in autocommit as long as nobody needs
a transaction of several statements.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError

REST_SECONDS = 1.0
_SINCE = "resting_since"


def ask_after_rest(engine: Engine) -> None:
    """A connection in constant use shows by itself whether it lives; asking each time would double the cost."""

    def put_to_rest(_: Any, record: Any) -> None:
        record.info[_SINCE] = time.monotonic()

    def ask(connection: Any, record: Any, _: Any) -> None:
        since = record.info.get(_SINCE)
        if since is None or time.monotonic() - since < REST_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError("The connection died while it rested.") from error

    event.listen(engine, "checkin", put_to_rest)
    event.listen(engine, "checkout", ask)


def leave_autocommit(engine: Engine) -> None:
    """What prepared.py leaves in autocommit comes out of it before anybody can begin a transaction."""

    def leave(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        if driver.autocommit and connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            driver.autocommit = False

    event.listen(engine, "engine_connect", leave)
