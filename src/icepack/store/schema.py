"""The state database's tables, one definition for SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    Uuid,
)

REVISION = "0001"
"""The newest file in migrations/versions; numbers only grow, so they compare as text."""


class UtcDateTime(TypeDecorator[datetime]):
    """Timezone-aware UTC in and out, whatever the database keeps."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone.")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


metadata = MetaData(naming_convention={"pk": "pk_%(table_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s"})

# Alembic's own table, under a name that another application in the same database does not use.
schema_version = Table("icepack_schema_version", MetaData(), Column("version_num", String(32), primary_key=True))

runs = Table(
    "runs",
    metadata,
    Column("job_id", Uuid, primary_key=True),
    Column("catalog", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("table_uuid", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("attempts", Integer, nullable=False),
    Column("message", Text, nullable=False),
    Column("snapshot_id_after", BigInteger),
    Column("changed_nothing", Boolean, nullable=False),
    Column("record", JSON, nullable=False),
    Index("ix_runs_started", "started_at", "job_id"),
    Index("ix_runs_table_started", "table_name", "started_at", "job_id"),
    Index("ix_runs_action_started", "action", "started_at", "job_id"),
    Index("ix_runs_state_started", "state", "started_at", "job_id"),
    Index("ix_runs_last_of_kind", "table_name", "state", "action", "finished_at"),
)
