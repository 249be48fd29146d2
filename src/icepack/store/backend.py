"""Where state is kept: a URL in, a store with a current schema out."""

from __future__ import annotations

from dataclasses import dataclass

# PyIceberg's SQL catalog imports it when it is first opened, in whatever thread that is; until it is whole, statements
# that others put together meanwhile fail.
import sqlalchemy.orm  # noqa: F401
from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from icepack.errors import ConfigError, EnvironmentFault
from icepack.store.admin.audit import SqlAuditLog
from icepack.store.admin.keys import SqlKeyStore, SqlSessionStore
from icepack.store.admin.overrides import SqlOverrideStore
from icepack.store.admin.retention import SqlRetention
from icepack.store.history import SqlHistoryStore
from icepack.store.jobs import SqlJobStore
from icepack.store.locks import SqlTableLocks
from icepack.store.migrate import upgrade
from icepack.store.queries.fleet import SqlBoard
from icepack.store.queue.workers import SqlAttendance
from icepack.store.sql import postgres, sqlite
from icepack.store.table_cache import SqlTableCache
from icepack.store.verification import SqlVerificationStore
from icepack.tracing import Tracer

__all__ = [
    "Stores",
    "open_engine",
    "open_stores",
    "select_history_store",
    "select_job_store",
    "select_locks",
    "select_table_cache",
    "upgrade",
]

CONNECT_TIMEOUT_SECONDS = 10
POOL_CONNECTIONS = 10
_FORMS = "Write sqlite:////path/to/state.db or postgresql://user:password@host/database."
_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


@dataclass(frozen=True, slots=True)
class Stores:
    """Everything that is kept, over one set of connections."""

    engine: Engine
    jobs: SqlJobStore
    locks: SqlTableLocks
    cache: SqlTableCache
    history: SqlHistoryStore
    audit: SqlAuditLog
    retention: SqlRetention
    keys: SqlKeyStore
    sessions: SqlSessionStore
    overrides: SqlOverrideStore
    board: SqlBoard
    attendance: SqlAttendance
    verification: SqlVerificationStore

    def close(self) -> None:
        self.engine.dispose()


def open_stores(url: str, tracer: Tracer | None = None) -> Stores:
    engine = _current(url)
    return Stores(
        engine=engine,
        jobs=SqlJobStore(engine, tracer=tracer),
        locks=SqlTableLocks(engine),
        cache=SqlTableCache(engine),
        history=SqlHistoryStore(engine),
        audit=SqlAuditLog(engine),
        retention=SqlRetention(engine),
        keys=SqlKeyStore(engine),
        sessions=SqlSessionStore(engine),
        overrides=SqlOverrideStore(engine),
        board=SqlBoard(engine),
        attendance=SqlAttendance(engine),
        verification=SqlVerificationStore(engine),
    )


def select_job_store(url: str) -> SqlJobStore:
    return SqlJobStore(_current(url))


def select_table_cache(url: str) -> SqlTableCache:
    return SqlTableCache(_current(url))


def select_locks(url: str) -> SqlTableLocks:
    return SqlTableLocks(_current(url))


def select_history_store(url: str) -> SqlHistoryStore:
    return SqlHistoryStore(_current(url))


def _current(url: str) -> Engine:
    engine = open_engine(url)
    upgrade(engine)
    return engine


def open_engine(url: str) -> Engine:
    """An engine for the URL; SQLite's folder is made, nothing is connected yet."""
    parsed = _parse(url)
    return _sqlite_engine(parsed) if parsed.get_backend_name() == "sqlite" else _postgres_engine(parsed)


def _parse(text: str) -> URL:
    # No cause is kept and no part of the text is shown: what cannot be parsed may be a password.
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError("The state database's URL cannot be read.", _FORMS) from None
    if url.drivername not in _DRIVERS:
        raise ConfigError(f"State is kept in SQLite or PostgreSQL, not in '{url.drivername}'.", _FORMS)
    if url.host and text.count("@") > 1:
        raise ConfigError("The state database's URL has more than one '@'.", "Write %40 for one within the password.")
    return url.set(drivername=_DRIVERS[url.drivername])


def _sqlite_engine(url: URL) -> Engine:
    sqlite.make_folder(url)
    engine = create_engine(url, connect_args={"timeout": sqlite.BUSY_TIMEOUT_SECONDS}, hide_parameters=True)
    sqlite.tune(engine)
    return engine


def _postgres_engine(url: URL) -> Engine:
    timeout = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_TIMEOUT_SECONDS}
    try:
        engine = create_engine(
            url,
            connect_args=timeout,
            # As many as the API has threads: a connection beyond these would be made anew for every request.
            pool_size=POOL_CONNECTIONS,
            # A statement that waited for a lock must see what its holder committed.
            isolation_level="READ COMMITTED",
            skip_autocommit_rollback=True,
            hide_parameters=True,
        )
    except ImportError as error:
        raise EnvironmentFault(
            "PostgreSQL as the state database needs psycopg, which is not installed.",
            "Install it with: pip install 'icepack[postgres]'.",
        ) from error
    postgres.ask_after_rest(engine)
    postgres.leave_autocommit(engine)
    return engine
