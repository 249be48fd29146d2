"""The state database's tables, one definition for SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    Uuid,
    and_,
    false,
    literal_column,
    true,
)

REVISION = "0007"
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


# SQLite numbers rows by itself only where the column is exactly INTEGER.
BigNumber = BigInteger().with_variant(Integer(), "sqlite")


def constant(text: str) -> ColumnElement[str]:
    """Written into the statement, not bound: only then can a partial index be seen to fit."""
    return literal_column(f"'{text}'", Text)


# A bound limit would let a prepared plan expect any number of rows, and sort them.
ONE = literal_column("1", Integer)


def _partial(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> None:
    Index(name, *columns, unique=unique, postgresql_where=where, sqlite_where=where)


metadata = MetaData(naming_convention={"pk": "pk_%(table_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s"})

# Alembic's own table, under a name that another application in the same database does not use.
schema_version = Table("icepack_schema_version", MetaData(), Column("version_num", String(32), primary_key=True))

EFFECT_COLUMNS = (
    *("estimated_files_removed", "files_removed", "estimated_bytes_rewritten", "bytes_rewritten"),
    *("bytes_removed", "files_deleted", "bytes_deleted"),
)

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
    # What is summed up over many runs; the rest stays in the document.
    Column("namespace", Text, nullable=False, server_default=""),
    Column("estimated_dollars", Float, nullable=False, server_default="0"),
    Column("estimated_seconds", Float, nullable=False, server_default="0"),
    Column("realised_seconds", Float, nullable=False, server_default="0"),
    Column("get_requests", BigInteger, nullable=False, server_default="0"),
    Column("put_requests", BigInteger, nullable=False, server_default="0"),
    *(Column(name, BigInteger, nullable=False, server_default="0") for name in EFFECT_COLUMNS),
    # Whether its end is in the totals of metric_totals, or never will be, since a job's is.
    Column("counted", Boolean, nullable=False, server_default=true()),
    Index("ix_runs_started", "started_at", "job_id"),
    Index("ix_runs_table_started", "table_name", "started_at", "job_id"),
    Index("ix_runs_action_started", "action", "started_at", "job_id"),
    Index("ix_runs_state_started", "state", "started_at", "job_id"),
    Index("ix_runs_last_of_kind", "table_name", "state", "action", "finished_at"),
)

RUN_UNCOUNTED = and_(runs.c.finished_at.is_not(None), runs.c.counted == false())
_partial("ix_runs_uncounted", runs.c.job_id, where=RUN_UNCOUNTED)

jobs = Table(
    "jobs",
    metadata,
    Column("number", BigNumber, primary_key=True),
    Column("id", Uuid, nullable=False),
    Column("catalog", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("parameters", JSON, nullable=False),
    Column("digest", Text, nullable=False),
    Column("state", Text, nullable=False),
    # Minus the priority, so that every index runs one way: what comes first is smallest.
    Column("rank", Integer, nullable=False),
    Column("not_before", UtcDateTime),
    # Set while it is too early to run; a claim clears it once the time has come.
    Column("waits_until", UtcDateTime),
    Column("attempts", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("requester", Text, nullable=False),
    Column("idempotency_key", Text),
    Column("trace_context", Text, nullable=False),
    Column("submitted_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("worker", Text),
    Column("fence", BigInteger),
    Column("cancel_requested_at", UtcDateTime),
    Column("message", Text, nullable=False),
    Column("progress", JSON, nullable=False),
    Column("details", JSON(none_as_null=True)),
    Column("retry_of", Uuid),
    Column("collapsed_into", Uuid),
    # Whether its end is in the totals of metric_totals.
    Column("counted", Boolean, nullable=False, server_default=false()),
    Column("namespace", Text, nullable=False, server_default=""),
    Column("estimated_seconds", Float),
    Index("uq_jobs_id", "id", unique=True),
    Index("ix_jobs_state_number", "state", "number"),
    Index("ix_jobs_table_number", "table_name", "number"),
    Index("ix_jobs_place_number", "catalog", "namespace", "number"),
    sqlite_autoincrement=True,
)

QUEUED = jobs.c.state == constant("queued")
DUE = and_(QUEUED, jobs.c.waits_until.is_(None))
WAITING = and_(QUEUED, jobs.c.waits_until.is_not(None))
_partial("uq_jobs_queued_once", jobs.c.table_name, jobs.c.digest, where=QUEUED, unique=True)
_partial("ix_jobs_next", jobs.c.table_name, jobs.c.rank, jobs.c.number, where=DUE)
_partial("ix_jobs_waiting", jobs.c.table_name, jobs.c.waits_until, where=WAITING)
_partial("ix_jobs_finished", jobs.c.finished_at, where=jobs.c.finished_at.is_not(None))

# For the gauges: everything that is asked of open jobs, so that the wide rows themselves are not read.
OPEN = jobs.c.finished_at.is_(None)
UNCOUNTED = and_(jobs.c.finished_at.is_not(None), jobs.c.counted == false())
_partial(
    "ix_jobs_open",
    *(jobs.c.state, jobs.c.action, jobs.c.submitted_at, jobs.c.not_before, jobs.c.waits_until),
    where=OPEN,
)
_partial("ix_jobs_uncounted", jobs.c.number, where=UNCOUNTED)

# Which job answered to an idempotency key; several keys may have collapsed into one job.
job_keys = Table(
    "job_keys",
    metadata,
    Column("key", Text, primary_key=True),
    Column("job_id", Uuid, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Index("ix_job_keys_job", "job_id"),
)

# One row per table: who holds it, and which of its queued jobs is next. Whoever changes a table's queue or its holder
# locks the row first; `version` grows with each change, so that one statement can tell that it read what it locked.
lanes = Table(
    "lanes",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("catalog", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("head_rank", Integer),
    Column("head_number", BigInteger),
    Column("wakes_at", UtcDateTime),
    # The fence of the last claim; a catalog whose newest is oldest has the next turn.
    Column("last_claim", BigInteger, nullable=False),
    Column("owner", Text),
    Column("fence", BigInteger),
    Column("job_number", BigInteger),
    Column("purpose", Text),
    Column("taken_at", UtcDateTime),
    Column("expires_at", UtcDateTime),
    Index("ix_lanes_turn", "catalog", "last_claim"),
)

READY = and_(lanes.c.owner.is_(None), lanes.c.head_number.is_not(None))
HELD = lanes.c.owner.is_not(None)
SLEEPING = lanes.c.wakes_at.is_not(None)
_partial("ix_lanes_ready", lanes.c.head_rank, lanes.c.catalog, lanes.c.head_number, where=READY)
_partial("ix_lanes_wakes", lanes.c.wakes_at, where=SLEEPING)
_partial("ix_lanes_expires", lanes.c.expires_at, where=HELD)

# What happened to jobs and locks. A claim's or lock's fence is the number of its entry, and numbers are never reused.
events = Table(
    "events",
    metadata,
    Column("number", BigNumber, primary_key=True),
    Column("job_id", Uuid),
    Column("table_name", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("kind", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("message", Text, nullable=False),
    Column("details", JSON(none_as_null=True)),
    Index("ix_events_job", "job_id", "number"),
    sqlite_autoincrement=True,
)

NO_JOB = events.c.job_id.is_(None)
_partial("ix_events_without_job", events.c.at, where=NO_JOB)

# Those that wait for a job; one that holds a job is known by its lane.
workers = Table(
    "workers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("expires_at", UtcDateTime, nullable=False),
)

# What ended jobs amount to, so that a counter neither costs a scan nor falls when jobs are pruned.
metric_totals = Table(
    "metric_totals",
    metadata,
    Column("name", Text, primary_key=True),
    Column("labels", Text, primary_key=True),
    Column("value", Float(53), nullable=False),
)

cache_generations = Table(
    "cache_generations",
    metadata,
    Column("number", BigNumber, primary_key=True),
    Column("state", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("message", Text, nullable=False),
    Index("ix_cache_generations_ended", "state", "ended_at"),
    sqlite_autoincrement=True,
)

BUILDING = cache_generations.c.state == constant("building")
CURRENT = cache_generations.c.state == constant("current")
_partial("uq_cache_generations_building", cache_generations.c.state, where=BUILDING, unique=True)
_partial("uq_cache_generations_current", cache_generations.c.state, where=CURRENT, unique=True)

# A row counts for the generations from its own up to, and without, the one that replaced it: carrying over is free.
cache_rows = Table(
    "cache_rows",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True, autoincrement=False),
    Column("replaced_by", BigInteger),
    Column("removed", Boolean, nullable=False),
    Column("catalog", Text, nullable=False),
    Column("metadata_location", Text, nullable=False),
    Column("inspected_at", UtcDateTime),
    Column("score", Integer),
    Column("totals", JSON),
    Column("status", JSON),
    Column("health", JSON),
    Column("recommendation", JSON(none_as_null=True)),
    # What lists show of the documents, so that they need not be read.
    Column("brief", JSON(none_as_null=True)),
    Index("ix_cache_rows_generation", "generation"),
    Index("ix_cache_rows_replaced", "replaced_by"),
)

table_statuses = Table(
    "table_statuses",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("observed_at", UtcDateTime, primary_key=True),
    Column("totals", JSON, nullable=False),
    Index("ix_table_statuses_observed", "observed_at"),
)

health_assessments = Table(
    "health_assessments",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("assessed_at", UtcDateTime, primary_key=True),
    Column("score", Integer, nullable=False),
    Column("report", JSON, nullable=False),
    Index("ix_health_assessments_assessed", "assessed_at"),
)

# The fleet as it was last seen on each day; a line for each namespace, since not everybody may see all of them.
fleet_days = Table(
    "fleet_days",
    metadata,
    Column("day", Text, primary_key=True),
    Column("catalog", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("tables", Integer, nullable=False),
    *(
        Column(name, BigInteger, nullable=False)
        for name in ("score_sum", "data_files", "delete_files", "bytes", "records")
    ),
)

audit_events = Table(
    "audit_events",
    metadata,
    Column("number", BigNumber, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("details", JSON, nullable=False),
    # Of the table that it is about, if it is about one.
    Column("catalog", Text),
    Column("namespace", Text),
    Index("ix_audit_events_place", "catalog", "namespace", "number"),
    Index("ix_audit_events_at", "at"),
    Index("ix_audit_events_actor", "actor", "number"),
    Index("ix_audit_events_subject", "subject", "number"),
    sqlite_autoincrement=True,
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    # Of a random secret that nobody can guess, so that one round of hashing is enough.
    Column("digest", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Index("ix_api_keys_name", "name"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("key_id", Text),
    Column("principal", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Index("ix_sessions_key", "key_id"),
    Index("ix_sessions_expires", "expires_at"),
)

overrides = Table(
    "overrides",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("entries", JSON, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Column("changed_by", Text, nullable=False),
)

# Classes of files whose native rewrite was compared by value on a table and found equal.
trusted_classes = Table(
    "trusted_classes",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("table_uuid", Text, primary_key=True),
    Column("class_id", Text, primary_key=True),
    Column("kernel_version", Text, primary_key=True),
    Column("description", JSON, nullable=False),
    Column("first_checked_at", UtcDateTime, nullable=False),
    Column("last_checked_at", UtcDateTime, nullable=False),
    Column("checks", Integer, nullable=False),
    Column("rows_compared", BigInteger, nullable=False),
    Index("ix_trusted_classes_checked", "last_checked_at"),
)

# Tables whose native rewrite is switched off.
native_disabled = Table(
    "native_disabled",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("table_uuid", Text, nullable=False),
    Column("disabled_at", UtcDateTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("job_id", Uuid),
    Column("mismatch", JSON(none_as_null=True)),
)
