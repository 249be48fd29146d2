"""Creates the job queue with its locks and events, the table cache, the table history and the audit log."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    _create_jobs()
    _create_lanes()
    _create_events()
    _create_cache()
    _create_records()


def _partial(name: str, table: str, columns: list[str], where: str, unique: bool = False) -> None:
    condition: Any = sa.text(where)
    op.create_index(name, table, columns, unique=unique, postgresql_where=condition, sqlite_where=condition)


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("number", NUMBER, nullable=False),
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("parameters", sa.JSON, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("not_before", TIME),
        sa.Column("waits_until", TIME),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("max_attempts", sa.Integer, nullable=False),
        sa.Column("requester", sa.Text, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("trace_context", sa.Text, nullable=False),
        sa.Column("submitted_at", TIME, nullable=False),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
        sa.Column("worker", sa.Text),
        sa.Column("fence", sa.BigInteger),
        sa.Column("cancel_requested_at", TIME),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.Column("details", sa.JSON),
        sa.Column("retry_of", sa.Uuid),
        sa.Column("collapsed_into", sa.Uuid),
        sa.PrimaryKeyConstraint("number", name="pk_jobs"),
        sqlite_autoincrement=True,
    )
    op.create_index("uq_jobs_id", "jobs", ["id"], unique=True)
    op.create_index("ix_jobs_state_number", "jobs", ["state", "number"])
    op.create_index("ix_jobs_table_number", "jobs", ["table_name", "number"])
    _partial("uq_jobs_queued_once", "jobs", ["table_name", "digest"], "state = 'queued'", unique=True)
    _partial("ix_jobs_next", "jobs", ["table_name", "rank", "number"], "state = 'queued' AND waits_until IS NULL")
    _partial("ix_jobs_waiting", "jobs", ["table_name", "waits_until"], "state = 'queued' AND waits_until IS NOT NULL")
    _partial("ix_jobs_finished", "jobs", ["finished_at"], "finished_at IS NOT NULL")
    op.create_table(
        "job_keys",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("job_id", sa.Uuid, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_job_keys"),
    )
    op.create_index("ix_job_keys_job", "job_keys", ["job_id"])


def _create_lanes() -> None:
    op.create_table(
        "lanes",
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("head_rank", sa.Integer),
        sa.Column("head_number", sa.BigInteger),
        sa.Column("wakes_at", TIME),
        sa.Column("last_claim", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("fence", sa.BigInteger),
        sa.Column("job_number", sa.BigInteger),
        sa.Column("purpose", sa.Text),
        sa.Column("taken_at", TIME),
        sa.Column("expires_at", TIME),
        sa.PrimaryKeyConstraint("table_name", name="pk_lanes"),
    )
    op.create_index("ix_lanes_turn", "lanes", ["catalog", "last_claim"])
    _partial(
        "ix_lanes_ready",
        "lanes",
        ["head_rank", "catalog", "head_number"],
        "owner IS NULL AND head_number IS NOT NULL",
    )
    _partial("ix_lanes_wakes", "lanes", ["wakes_at"], "wakes_at IS NOT NULL")
    _partial("ix_lanes_expires", "lanes", ["expires_at"], "owner IS NOT NULL")


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("number", NUMBER, nullable=False),
        sa.Column("job_id", sa.Uuid),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_job", "events", ["job_id", "number"])
    _partial("ix_events_without_job", "events", ["at"], "job_id IS NULL")


def _create_cache() -> None:
    op.create_table(
        "cache_generations",
        sa.Column("number", NUMBER, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("message", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_cache_generations"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_cache_generations_ended", "cache_generations", ["state", "ended_at"])
    _partial("uq_cache_generations_building", "cache_generations", ["state"], "state = 'building'", unique=True)
    _partial("uq_cache_generations_current", "cache_generations", ["state"], "state = 'current'", unique=True)
    op.create_table(
        "cache_rows",
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("replaced_by", sa.BigInteger),
        sa.Column("removed", sa.Boolean, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("metadata_location", sa.Text, nullable=False),
        sa.Column("inspected_at", TIME),
        sa.Column("score", sa.Integer),
        sa.Column("totals", sa.JSON),
        sa.Column("status", sa.JSON),
        sa.Column("health", sa.JSON),
        sa.Column("recommendation", sa.JSON),
        sa.PrimaryKeyConstraint("table_name", "generation", name="pk_cache_rows"),
    )
    op.create_index("ix_cache_rows_generation", "cache_rows", ["generation"])
    op.create_index("ix_cache_rows_replaced", "cache_rows", ["replaced_by"])


def _create_records() -> None:
    op.create_table(
        "table_statuses",
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("observed_at", TIME, nullable=False),
        sa.Column("totals", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("table_name", "observed_at", name="pk_table_statuses"),
    )
    op.create_index("ix_table_statuses_observed", "table_statuses", ["observed_at"])
    op.create_table(
        "health_assessments",
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("assessed_at", TIME, nullable=False),
        sa.Column("score", sa.Integer, nullable=False),
        sa.Column("report", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("table_name", "assessed_at", name="pk_health_assessments"),
    )
    op.create_index("ix_health_assessments_assessed", "health_assessments", ["assessed_at"])
    op.create_table(
        "audit_events",
        sa.Column("number", NUMBER, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_events_at", "audit_events", ["at"])
    op.create_index("ix_audit_events_actor", "audit_events", ["actor", "number"])
    op.create_index("ix_audit_events_subject", "audit_events", ["subject", "number"])
