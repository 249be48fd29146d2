"""Upgrades the database schema to the revision of this release; safe when many processes start at once."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, Engine, func, inspect, select

from icepack.errors import EnvironmentFault
from icepack.store.schema import REVISION, schema_version
from icepack.store.sql.errors import mask_url, translate_errors
from icepack.store.sql.transaction import write_transaction

_MIGRATIONS = Path(__file__).parent / "migrations"
# Identifies the PostgreSQL advisory lock that serializes upgrades.
_ADVISORY_LOCK_ID = 0x1CE9AC4
# Alembic keeps global state, so only one thread may run it.
_ALEMBIC_LOCK = threading.Lock()


def upgrade(engine: Engine) -> None:
    """Migrate the schema if needed; if it is current, this costs two small queries."""
    with translate_errors(engine.url):
        with engine.connect() as connection:
            current = read_revision(connection)
        if current != REVISION:
            _migrate(engine)


def read_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(schema_version.name):
        return None
    return connection.scalar(select(schema_version.c.version_num))


def _migrate(engine: Engine) -> None:
    """Run all migrations in one transaction: a crash leaves the old schema, a concurrent process then finds the new."""
    with _ALEMBIC_LOCK, write_transaction(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK_ID)))
        _reject_newer(connection)
        _run_alembic(connection)


def _reject_newer(connection: Connection) -> None:
    current = read_revision(connection)
    if current is not None and current > REVISION:
        raise EnvironmentFault(
            f"The state database {mask_url(connection.engine.url)} has schema revision {current}, "
            f"but this version of icepack supports only revisions up to {REVISION}.",
            "A newer version of icepack has migrated it: upgrade this installation too.",
        )


def _run_alembic(connection: Connection) -> None:
    # Imported here because the import takes longer than most commands and is needed once per release.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")
