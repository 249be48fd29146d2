"""Adds metric totals of ended jobs, an index for the gauges, and details of trace spans in job events."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

OPEN_COLUMNS = ["state", "action", "submitted_at", "not_before", "waits_until"]


def upgrade() -> None:
    op.add_column("jobs", sa.Column("counted", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("events", sa.Column("details", sa.JSON))
    op.create_table(
        "metric_totals",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("name", "labels", name="pk_metric_totals"),
    )
    _partial("ix_jobs_open", OPEN_COLUMNS, "finished_at IS NULL")
    _partial("ix_jobs_uncounted", ["number"], f"finished_at IS NOT NULL AND {_is_false('counted')}")


def _is_false(column: str) -> str:
    """The condition as the schema writes it: SQLite uses a partial index only if the condition matches exactly."""
    return f"{column} = false" if op.get_bind().dialect.name == "postgresql" else f"{column} = 0"


def _partial(name: str, columns: list[str], where: str) -> None:
    condition: Any = sa.text(where)
    op.create_index(name, "jobs", columns, postgresql_where=condition, sqlite_where=condition)
