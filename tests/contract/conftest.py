"""One suite, both databases: every test that takes `database_url` or `history` runs over each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from icepack.store.backend import select_history_store
from icepack.store.history import SqlHistoryStore

from .postgres import PostgresServer
from .postgres_install import PostgresMissing


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
