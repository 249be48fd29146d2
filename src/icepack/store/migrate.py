"""Brings the schema to this release's revision, however many processes ask for it at once."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, Engine, func, inspect, select

from icepack.errors import EnvironmentFault
from icepack.store.schema import REVISION, schema_version
from icepack.store.sql.errors import plain_faults, shown
from icepack.store.sql.transaction import writing

_MIGRATIONS = Path(__file__).parent / "migrations"
_ADVISORY_LOCK = 0x1CE9AC4
_ALEMBIC_IS_GLOBAL = threading.Lock()


def upgrade(engine: Engine) -> None:
    """Migrate where needed; when the schema is current this costs two small queries."""
    with plain_faults(engine.url):
        with engine.connect() as connection:
            found = revision(connection)
        if found != REVISION:
            _migrate(engine)


def revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(schema_version.name):
        return None
    return connection.scalar(select(schema_version.c.version_num))


def _migrate(engine: Engine) -> None:
    """One transaction for everything: a crash leaves the old schema, a latecomer finds the new one."""
    with _ALEMBIC_IS_GLOBAL, writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        _refuse_newer(connection)
        _run_alembic(connection)


def _refuse_newer(connection: Connection) -> None:
    found = revision(connection)
    if found is not None and found > REVISION:
        raise EnvironmentFault(
            f"The state database {shown(connection.engine.url)} has schema {found}; this icepack knows {REVISION}.",
            "A newer icepack has migrated it: upgrade this one too.",
        )


def _run_alembic(connection: Connection) -> None:
    # Imported here: it takes longer than most commands, and is needed once per release.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")
