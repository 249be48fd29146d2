"""One suite, both databases: every test that takes `database_url`, `engine` or what is built on them runs over each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine

from icepack.store.backend import open_engine, select_history_store, upgrade
from icepack.store.history import SqlHistoryStore

from .postgres import PostgresServer
from .postgres_install import PostgresMissing
from .queueing import Queue, make_clock, wipe


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = _new_server()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _new_server() -> PostgresServer:
    try:
        return PostgresServer()
    except PostgresMissing as missing:
        sentence = str(missing)
    pytest.fail(sentence, pytrace=False)


@contextmanager
def _sqlite_file(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder / 'state' / 'icepack.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database; the server starts when the first test needs it."""
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
        yield from _ready(url)


@pytest.fixture(scope="session")
def postgres_engine(postgres: PostgresServer) -> Iterator[Engine]:
    with postgres.database() as url:
        yield from _ready(url)


def _ready(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    upgrade(engine)
    make_clock(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """A migrated database without rows; shared, since migrating anew for every test would take minutes."""
    name = "sqlite_engine" if request.param == "sqlite" else "postgres_engine"
    shared: Engine = request.getfixturevalue(name)
    wipe(shared)
    return shared


@pytest.fixture
def queue(engine: Engine) -> Queue:
    return Queue.over(engine)
