"""The tables of the state database, defined once for SQLite and PostgreSQL.

Conditions that partial indexes use are defined here too, so that queries repeat them exactly.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    Uuid,
    and_,
    false,
    true,
)

from icepack.store.sql.types import BigNumber, UtcDateTime, text_literal

# The newest file in migrations/versions. Revisions have a fixed width and only grow, so they compare as text.
REVISION = "0007"


def _add_partial_index(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> None:
    Index(name, *columns, unique=unique, postgresql_where=where, sqlite_where=where)


metadata = MetaData(naming_convention={"pk": "pk_%(table_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s"})

# Alembic's version table. Its name is unique to icepack, in case another application shares the database.
schema_version = Table("icepack_schema_version", MetaData(), Column("version_num", String(32), primary_key=True))

# Columns of `runs` that hold the expected and the actual effect of a run.
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
    # Values that are summed over many runs have their own columns; `record` holds everything.
    Column("namespace", Text, nullable=False, server_default=""),
    Column("estimated_dollars", Float, nullable=False, server_default="0"),
    Column("estimated_seconds", Float, nullable=False, server_default="0"),
    Column("realised_seconds", Float, nullable=False, server_default="0"),
    Column("get_requests", BigInteger, nullable=False, server_default="0"),
    Column("put_requests", BigInteger, nullable=False, server_default="0"),
    *(Column(name, BigInteger, nullable=False, server_default="0") for name in EFFECT_COLUMNS),
    # True once the run is in metric_totals, and for runs that are not counted because their job is.
    Column("counted", Boolean, nullable=False, server_default=true()),
    Index("ix_runs_started", "started_at", "job_id"),
    Index("ix_runs_table_started", "table_name", "started_at", "job_id"),
    Index("ix_runs_action_started", "action", "started_at", "job_id"),
    Index("ix_runs_state_started", "state", "started_at", "job_id"),
    Index("ix_runs_last_of_kind", "table_name", "state", "action", "finished_at"),
)

RUN_UNCOUNTED = and_(runs.c.finished_at.is_not(None), runs.c.counted == false())
_add_partial_index("ix_runs_uncounted", runs.c.job_id, where=RUN_UNCOUNTED)

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
    # The negated priority, so that all index columns sort in the same direction: the next job has the smallest rank.
    Column("rank", Integer, nullable=False),
    Column("not_before", UtcDateTime),
    # Set while the job is not due yet; cleared when a claim finds that the time has come.
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
    # True once the finished job is in metric_totals.
    Column("counted", Boolean, nullable=False, server_default=false()),
    Column("namespace", Text, nullable=False, server_default=""),
    Column("estimated_seconds", Float),
    Index("uq_jobs_id", "id", unique=True),
    Index("ix_jobs_state_number", "state", "number"),
    Index("ix_jobs_table_number", "table_name", "number"),
    Index("ix_jobs_place_number", "catalog", "namespace", "number"),
    sqlite_autoincrement=True,
)

JOB_QUEUED = jobs.c.state == text_literal("queued")
JOB_DUE = and_(JOB_QUEUED, jobs.c.waits_until.is_(None))
JOB_WAITING = and_(JOB_QUEUED, jobs.c.waits_until.is_not(None))
_add_partial_index("uq_jobs_queued_once", jobs.c.table_name, jobs.c.digest, where=JOB_QUEUED, unique=True)
_add_partial_index("ix_jobs_next", jobs.c.table_name, jobs.c.rank, jobs.c.number, where=JOB_DUE)
_add_partial_index("ix_jobs_waiting", jobs.c.table_name, jobs.c.waits_until, where=JOB_WAITING)
_add_partial_index("ix_jobs_finished", jobs.c.finished_at, where=jobs.c.finished_at.is_not(None))

# ix_jobs_open covers all columns that the metrics read of unfinished jobs, so that the wide rows are not read.
JOB_OPEN = jobs.c.finished_at.is_(None)
JOB_UNCOUNTED = and_(jobs.c.finished_at.is_not(None), jobs.c.counted == false())
_add_partial_index(
    "ix_jobs_open",
    *(jobs.c.state, jobs.c.action, jobs.c.submitted_at, jobs.c.not_before, jobs.c.waits_until),
    where=JOB_OPEN,
)
_add_partial_index("ix_jobs_uncounted", jobs.c.number, where=JOB_UNCOUNTED)

# The job that was returned for each idempotency key; several keys can lead to the same job.
job_keys = Table(
    "job_keys",
    metadata,
    Column("key", Text, primary_key=True),
    Column("job_id", Uuid, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Index("ix_job_keys_job", "job_id"),
)

# One row per Iceberg table: who holds its lock, and which of its queued jobs is next. Every change to a table's queue
# or to its holder locks the row first. `version` grows with each change, so that a single statement can check that the
# row it locked is the row it read. The SQL name is older than the Python name.
table_slots = Table(
    "lanes",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("catalog", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("head_rank", Integer),
    Column("head_number", BigInteger),
    Column("wakes_at", UtcDateTime),
    # The fence of the last claim. Catalogs take turns: the catalog whose newest claim is oldest is next.
    Column("last_claim", BigInteger, nullable=False),
    Column("owner", Text),
    Column("fence", BigInteger),
    Column("job_number", BigInteger),
    Column("purpose", Text),
    Column("taken_at", UtcDateTime),
    Column("expires_at", UtcDateTime),
    Index("ix_lanes_turn", "catalog", "last_claim"),
)

SLOT_READY = and_(table_slots.c.owner.is_(None), table_slots.c.head_number.is_not(None))
SLOT_HELD = table_slots.c.owner.is_not(None)
SLOT_WAITING = table_slots.c.wakes_at.is_not(None)
_add_partial_index(
    "ix_lanes_ready", table_slots.c.head_rank, table_slots.c.catalog, table_slots.c.head_number, where=SLOT_READY
)
_add_partial_index("ix_lanes_wakes", table_slots.c.wakes_at, where=SLOT_WAITING)
_add_partial_index("ix_lanes_expires", table_slots.c.expires_at, where=SLOT_HELD)

# The event log of jobs and locks. The fence of a claim or lock is the number of its event; numbers are never reused.
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

EVENT_WITHOUT_JOB = events.c.job_id.is_(None)
_add_partial_index("ix_events_without_job", events.c.at, where=EVENT_WITHOUT_JOB)

# Registered workers that wait for a job; a worker that runs a job is the owner of a table slot.
workers = Table(
    "workers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("expires_at", UtcDateTime, nullable=False),
)

# Running totals of finished jobs: a counter needs no scan and does not fall when jobs are pruned.
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

GENERATION_BUILDING = cache_generations.c.state == text_literal("building")
GENERATION_CURRENT = cache_generations.c.state == text_literal("current")
_add_partial_index("uq_cache_generations_building", cache_generations.c.state, where=GENERATION_BUILDING, unique=True)
_add_partial_index("uq_cache_generations_current", cache_generations.c.state, where=GENERATION_CURRENT, unique=True)

# A row is visible from its own generation until the generation in `replaced_by`, which excludes it. So rows that a
# refresh does not change are carried over without being written.
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
    # The part of the documents that lists show, so that lists need not read the documents.
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

# The last known state of the fleet on each day, with one row per namespace because access is granted by namespace.
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
    # Catalog and namespace of the Iceberg table that the event is about, if any.
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
    # Digest of a random secret that cannot be guessed, so one round of hashing is enough.
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

# Classes of files whose native rewrite on a table was compared by value and found equal.
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
