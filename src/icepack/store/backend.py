"""Opens the state database from its URL, upgrades its schema and creates the stores."""

from __future__ import annotations

from dataclasses import dataclass

# Imported here, in the main thread: PyIceberg's SQL catalog imports it when it is first opened, in any thread, and
# statements that other threads build during that import fail.
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
from icepack.store.queries.fleet import SqlFleetQueries
from icepack.store.queue.workers import SqlWorkerRegistry
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
_URL_FORMATS = "Use sqlite:////path/to/state.db or postgresql://user:password@host/database."
_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


@dataclass(frozen=True, slots=True)
class Stores:
    """All stores, sharing one connection pool."""

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
    fleet_queries: SqlFleetQueries
    worker_registry: SqlWorkerRegistry
    verification: SqlVerificationStore

    def close(self) -> None:
        self.engine.dispose()


def open_stores(url: str, tracer: Tracer | None = None) -> Stores:
    engine = _open_upgraded(url)
    return Stores(
        engine=engine,
        jobs=select_job_store(engine, tracer),
        locks=select_locks(engine),
        cache=select_table_cache(engine),
        history=select_history_store(engine),
        audit=SqlAuditLog(engine),
        retention=SqlRetention(engine),
        keys=SqlKeyStore(engine),
        sessions=SqlSessionStore(engine),
        overrides=SqlOverrideStore(engine),
        fleet_queries=SqlFleetQueries(engine),
        worker_registry=SqlWorkerRegistry(engine),
        verification=SqlVerificationStore(engine),
    )


def select_job_store(database: str | Engine, tracer: Tracer | None = None) -> SqlJobStore:
    """The job store of a database, given as its URL or as an open engine."""
    return SqlJobStore(_to_engine(database), tracer=tracer)


def select_table_cache(database: str | Engine) -> SqlTableCache:
    return SqlTableCache(_to_engine(database))


def select_locks(database: str | Engine) -> SqlTableLocks:
    return SqlTableLocks(_to_engine(database))


def select_history_store(database: str | Engine) -> SqlHistoryStore:
    return SqlHistoryStore(_to_engine(database))


def _to_engine(database: str | Engine) -> Engine:
    return database if isinstance(database, Engine) else _open_upgraded(database)


def _open_upgraded(url: str) -> Engine:
    engine = open_engine(url)
    upgrade(engine)
    return engine


def open_engine(url: str) -> Engine:
    """Create an engine without connecting; the folder of a SQLite file is created."""
    parsed = _parse_url(url)
    return _sqlite_engine(parsed) if parsed.get_backend_name() == "sqlite" else _postgres_engine(parsed)


def _parse_url(text: str) -> URL:
    # The error has no cause and quotes no part of the text, because what cannot be parsed may be a password.
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError("The URL of the state database is invalid.", _URL_FORMATS) from None
    if url.drivername not in _DRIVERS:
        raise ConfigError(f"The state database must be SQLite or PostgreSQL, not '{url.drivername}'.", _URL_FORMATS)
    if url.host and text.count("@") > 1:
        raise ConfigError("The URL of the state database has more than one '@'.", "Write %40 for an @ in the password.")
    return url.set(drivername=_DRIVERS[url.drivername])


def _sqlite_engine(url: URL) -> Engine:
    sqlite.create_parent_folder(url)
    engine = create_engine(url, connect_args={"timeout": sqlite.BUSY_TIMEOUT_SECONDS}, hide_parameters=True)
    sqlite.configure(engine)
    return engine


def _postgres_engine(url: URL) -> Engine:
    timeout = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_TIMEOUT_SECONDS}
    try:
        engine = create_engine(
            url,
            connect_args=timeout,
            # As many as the API has threads: connections beyond the pool size would be opened for every request.
            pool_size=POOL_CONNECTIONS,
            # A statement that waited for a lock must see what the previous holder committed.
            isolation_level="READ COMMITTED",
            skip_autocommit_rollback=True,
            hide_parameters=True,
        )
    except ImportError as error:
        raise EnvironmentFault(
            "PostgreSQL as the state database needs psycopg, which is not installed.",
            "Install it with: pip install 'icepack[postgres]'.",
        ) from error
    postgres.ping_idle_connections(engine)
    postgres.reset_autocommit(engine)
    return engine
