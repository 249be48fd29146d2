"""Schema upgrades: run once, also when many processes and threads start at the same time."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, event, inspect, update

from contract.sample_runs import run
from icepack.errors import EnvironmentFault
from icepack.store import migrate
from icepack.store.backend import open_engine, select_history_store
from icepack.store.migrate import upgrade
from icepack.store.schema import REVISION, metadata, schema_version

PROCESSES = 4
VERSIONS = Path(migrate.__file__).parent / "migrations" / "versions"
START_TOGETHER = """
import sys
from icepack.store.backend import open_engine
from icepack.store.migrate import upgrade
import alembic.command
engine = open_engine(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
upgrade(engine)
"""
OPEN_AND_REPORT = """
import sys
from icepack.store.backend import select_history_store
select_history_store(sys.argv[1]).close()
print("alembic" in sys.modules)
"""


def _read_revision(url: str) -> str | None:
    engine = open_engine(url)
    with engine.connect() as connection:
        found = migrate.read_revision(connection)
    engine.dispose()
    return found


def test_many_processes_upgrade_at_once(database_url: str) -> None:
    command = [sys.executable, "-c", START_TOGETHER, database_url]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(PROCESSES)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert errors == [""] * PROCESSES
    assert [process.returncode for process in processes] == [0] * PROCESSES
    assert _read_revision(database_url) == REVISION


def test_many_threads_upgrade_and_write_at_once(database_url: str) -> None:
    def open_and_save(minute: int) -> None:
        store = select_history_store(database_url)
        store.save(run(minutes=minute))
        store.close()

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(open_and_save, range(4 * PROCESSES)))
    store = select_history_store(database_url)
    assert len(store.runs()) == 4 * PROCESSES
    store.close()


def test_a_current_schema_does_not_import_alembic(database_url: str) -> None:
    command = [sys.executable, "-c", OPEN_AND_REPORT, database_url]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert outputs == ["True\n", "False\n"]


def test_migrations_build_the_schema(database_url: str) -> None:
    engine = open_engine(database_url)
    upgrade(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": schema_version.name, "compare_type": True}
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_newest_migration_is_the_expected_revision() -> None:
    revisions = sorted(path.name.partition("_")[0] for path in VERSIONS.glob("*.py"))
    assert revisions[-1] == REVISION
    assert all(re.fullmatch(r"\d{4}", revision) for revision in revisions)


def test_a_failed_migration_leaves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = migrate._run_alembic

    def fail_at_the_end(connection: Connection) -> None:
        genuine(connection)
        raise RuntimeError("power cut")

    engine = open_engine(database_url)
    monkeypatch.setattr(migrate, "_run_alembic", fail_at_the_end)
    with pytest.raises(RuntimeError, match="power cut"):
        upgrade(engine)
    assert inspect(engine).get_table_names() == []
    monkeypatch.undo()
    upgrade(engine)
    assert "runs" in inspect(engine).get_table_names()
    engine.dispose()


def test_a_newer_schema_is_rejected_and_not_changed(database_url: str) -> None:
    engine = open_engine(database_url)
    upgrade(engine)
    with engine.begin() as connection:
        connection.execute(update(schema_version).values(version_num="9999"))
    with pytest.raises(EnvironmentFault, match=r"has schema revision 9999.*upgrade this installation too"):
        upgrade(engine)
    engine.dispose()
    assert _read_revision(database_url) == "9999"


def test_an_upgrade_of_a_current_schema_writes_nothing(database_url: str) -> None:
    select_history_store(database_url).close()
    engine = open_engine(database_url)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    upgrade(engine)
    engine.dispose()
    assert not [statement for statement in statements if re.match("INSERT|CREATE|UPDATE|.*IMMEDIATE", statement)]
