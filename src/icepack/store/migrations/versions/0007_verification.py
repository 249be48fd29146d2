"""Adds the classes of files that were compared by value, and the tables with the native rewrite disabled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "trusted_classes",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("table_name", "table_uuid")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("class_id", "kernel_version")),
        sa.Column("description", sa.JSON, nullable=False),
        sa.Column("first_checked_at", TIME, nullable=False),
        sa.Column("last_checked_at", TIME, nullable=False),
        sa.Column("checks", sa.Integer, nullable=False),
        sa.Column("rows_compared", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(*("table_name", "table_uuid", "class_id", "kernel_version"), name="pk_trusted_classes"),
    )
    op.create_index("ix_trusted_classes_checked", "trusted_classes", ["last_checked_at"])
    op.create_table(
        "native_disabled",
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("table_uuid", sa.Text, nullable=False),
        sa.Column("disabled_at", TIME, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("job_id", sa.Uuid),
        sa.Column("mismatch", sa.JSON),
        sa.PrimaryKeyConstraint("table_name", name="pk_native_disabled"),
    )
