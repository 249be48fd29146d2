"""Runs every test that uses `database_url`, `engine` or a fixture built on them on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine

from icepack.store.backend import open_engine, select_history_store
from icepack.store.history import SqlHistoryStore
from icepack.store.migrate import upgrade

from .bulk_jobs import analyze, empty
from .postgres_install import PostgresMissing
from .postgres_server import PostgresServer
from .queue_harness import Queue, create_clock_table, delete_all_rows


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = _create_server()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _create_server() -> PostgresServer:
    try:
        return PostgresServer()
    except PostgresMissing as missing:
        reason = str(missing)
    pytest.fail(reason, pytrace=False)


@contextmanager
def _sqlite_file(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder / 'state' / 'icepack.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database; the server starts when the first test needs it."""
    if request.param == "sqlite":
        database = _sqlite_file(tmp_path)
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        database = server.database()
    with database as url:
        yield url


@pytest.fixture
def history(database_url: str) -> Iterator[SqlHistoryStore]:
    store = select_history_store(database_url)
    yield store
    store.close()


@pytest.fixture(scope="session")
def sqlite_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with _sqlite_file(tmp_path_factory.mktemp("shared")) as url:
        yield from _open_migrated(url)


@pytest.fixture(scope="session")
def postgres_engine(postgres: PostgresServer) -> Iterator[Engine]:
    with postgres.database() as url:
        yield from _open_migrated(url)


def _open_migrated(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    upgrade(engine)
    create_clock_table(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """A migrated database without rows; shared, because migrating for every test would take minutes."""
    name = "sqlite_engine" if request.param == "sqlite" else "postgres_engine"
    shared: Engine = request.getfixturevalue(name)
    delete_all_rows(shared)
    return shared


@pytest.fixture
def bulk_engine(postgres_engine: Engine) -> Iterator[Engine]:
    """PostgreSQL for tests of query plans: truncated, because the space of deleted rows changes the plans."""
    _truncate(postgres_engine)
    yield postgres_engine
    _truncate(postgres_engine)


def _truncate(engine: Engine) -> None:
    empty(engine)
    delete_all_rows(engine)
    analyze(engine)


@pytest.fixture
def queue(engine: Engine) -> Queue:
    return Queue.over(engine)
