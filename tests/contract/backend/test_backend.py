"""Opening a state database: connection settings, and errors when it cannot be opened."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, delete

from contract.postgres_server import PostgresServer
from contract.queue_harness import DONE, LEASE, request
from contract.sample_runs import ORDERS, run
from icepack.domain.job import Claim, JobState
from icepack.errors import ConfigError, EnvironmentFault
from icepack.store.backend import (
    open_engine,
    open_stores,
    select_history_store,
    select_job_store,
    select_locks,
    select_table_cache,
)
from icepack.store.jobs import SqlJobStore
from icepack.store.schema import jobs
from icepack.store.sql import sqlite
from icepack.store.sql.transaction import write_transaction

SECRET = "s3cr3t-Pass"


def _open_error(url: str, kind: type[Exception] = EnvironmentFault) -> str:
    with pytest.raises(kind) as caught:
        select_history_store(url)
    printed = "".join(traceback.format_exception(caught.value))
    assert SECRET not in printed
    message = str(caught.value)
    assert "\n" not in message
    return message


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_sqlite_has_a_busy_timeout_a_write_ahead_log_and_foreign_keys(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'new' / 'folders' / 'state.db'}")
    with engine.connect() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "foreign_keys")]
        timeout_ms = connection.exec_driver_sql("PRAGMA busy_timeout").scalar()
    engine.dispose()
    assert found == ["wal", 1]
    assert timeout_ms == 30_000


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    store = select_history_store(url)
    record = run()
    store.save(record)
    engine = open_engine(url)
    with engine.execution_options(sqlite_immediate=True).begin():
        assert store.runs() == [record]
    engine.dispose()
    store.close()


def test_a_refused_switch_to_the_write_ahead_log_is_retried(tmp_path: Path) -> None:
    reader = sqlite3.connect(tmp_path / "state.db", isolation_level=None, check_same_thread=False)
    reader.execute("CREATE TABLE plain (x)")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM plain").fetchall()
    impatient = sqlite3.connect(tmp_path / "state.db", timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        impatient.execute("PRAGMA journal_mode = WAL")
    threading.Timer(0.2, reader.close).start()
    sqlite._enable_write_ahead_log(impatient)
    assert impatient.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    impatient.close()


def test_a_history_can_live_in_memory() -> None:
    store = select_history_store("sqlite://")
    record = run()
    store.save(record)
    assert store.runs() == [record]
    store.close()


def test_each_store_can_be_opened_alone_and_all_share_one_database(database_url: str) -> None:
    jobs, locks, cache = select_job_store(database_url), select_locks(database_url), select_table_cache(database_url)
    submitted = jobs.submit(request(ORDERS)).job
    lock = locks.acquire(ORDERS, "cli", LEASE)
    cache.swap(cache.begin("sync", LEASE))
    stores = open_stores(database_url)
    assert [job.id for job in stores.jobs.list_jobs().jobs] == [submitted.id]
    assert stores.locks.list_locks() == [lock]
    assert stores.cache.state().generation is not None
    assert stores.history.runs() == []
    assert stores.audit.entries() == []
    for store in (jobs, locks, cache, stores.audit, stores):
        store.close()


def test_running_out_of_connections_has_a_clear_error(tmp_path: Path) -> None:
    store = select_job_store(f"sqlite:///{tmp_path / 'state.db'}")
    engine = store._engine
    engine.pool._timeout = 0.05  # type: ignore[attr-defined]
    taken = [engine.connect() for _ in range(15)]
    with pytest.raises(EnvironmentFault, match="timed out waiting for a free connection"):
        store.counts()
    for connection in taken:
        connection.close()
    assert store.counts()
    store.close()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_uses_psycopg(scheme: str) -> None:
    engine = open_engine(f"{scheme}://user:{SECRET}@host/database?connect_timeout=3")
    assert engine.url.drivername == "postgresql+psycopg"


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = _open_error(f"sqlite:///{tmp_path / 'file' / 'folder' / 'state.db'}")
    assert message.startswith("The folder of the state database sqlite:///")
    assert "Not a directory" in message


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    message = _open_error(f"sqlite:///{tmp_path / 'state.db'}")
    assert "unable to open database file" in message
    assert str(tmp_path / "state.db") in message


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("not a database, only a long enough text" * 100)
    assert "file is not a database" in _open_error(f"sqlite:///{tmp_path / 'state.db'}")


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    port = _closed_port()
    message = _open_error(f"postgresql://keeper:{SECRET}@127.0.0.1:{port}/state?sslpassword={SECRET}")
    assert f"keeper:***@127.0.0.1:{port}/state" in message
    assert "refused" in message
    assert "Check that the server is running" in message


def test_a_wrong_password_is_not_repeated(postgres: PostgresServer) -> None:
    message = _open_error(postgres.url().replace(postgres.password, SECRET))
    assert "password authentication failed" in message


def test_a_password_that_the_server_repeats_is_masked(postgres: PostgresServer) -> None:
    url = f"postgresql://{SECRET}:{SECRET}@127.0.0.1:{postgres.port}/postgres"
    with pytest.raises(EnvironmentFault) as caught:
        select_history_store(url)
    assert f'user "{SECRET}"' not in str(caught.value)
    assert 'user "***"' in str(caught.value)


def test_a_user_who_may_not_create_tables_is_told(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE guest LOGIN PASSWORD '{SECRET}'")
        try:
            message = _open_error(url.replace(f"postgres:{postgres.password}", f"guest:{SECRET}"))
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DROP ROLE guest")
    assert "permission denied for schema public" in message
    assert "that the user may create tables" in message


def test_a_lost_server_is_reported_and_its_return_is_noticed() -> None:
    server = PostgresServer(durable=True)
    try:
        server.start()
        store = select_history_store(server.url())
        record = run()
        store.save(record)
        server.stop("immediate")
        with pytest.raises(EnvironmentFault, match="could not be used"):
            store.runs()
        server.start()
        assert store.runs() == [record]
        store.close()
    finally:
        server.remove()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"nothing {SECRET}", "is invalid"),
        (f"postgresql://keeper:pa:ss@{SECRET}:x@host/state", "is invalid"),
        (f"postgresql://keeper:pa@{SECRET}@host/state", "more than one '@'"),
        (f"mysql://keeper:{SECRET}@host/state", "not 'mysql'"),
        (f"postgresql+psycopg2://keeper:{SECRET}@host/state", "not 'postgresql+psycopg2'"),
    ],
)
def test_an_invalid_url_is_rejected_without_quoting_it(url: str, expected: str) -> None:
    message = _open_error(url, ConfigError)
    assert expected in message


def test_a_missing_driver_names_the_extra() -> None:
    script = f"""
import sys
sys.modules["psycopg"] = None
from icepack.errors import EnvironmentFault
from icepack.store.backend import open_engine
try:
    open_engine("postgresql://keeper:{SECRET}@host/state")
except EnvironmentFault as fault:
    print(fault)
"""
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert output == (
        "PostgreSQL as the state database needs psycopg, which is not installed. "
        "Install it with: pip install 'icepack[postgres]'.\n"
    )


def test_a_transaction_after_a_claim_is_rolled_back_as_a_whole(engine: Engine) -> None:
    """On PostgreSQL a claim leaves its connection in autocommit."""
    store = SqlJobStore(engine)
    store.submit(request())
    store.finish(_claim(store), DONE)
    with suppress(ZeroDivisionError), write_transaction(engine) as connection:
        connection.execute(delete(jobs))
        raise ZeroDivisionError
    assert store.counts()[JobState.SUCCEEDED] == 1
    with engine.connect() as connection:
        connection.execute(delete(jobs))
        connection.rollback()
    assert store.counts()[JobState.SUCCEEDED] == 1


def _claim(store: SqlJobStore) -> Claim:
    claim = store.claim("w", LEASE)
    assert claim is not None
    return claim


def test_the_backend_imports_the_sqlalchemy_orm_in_the_main_thread() -> None:
    script = "import icepack.store.backend, sys; sys.exit('sqlalchemy.orm' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
