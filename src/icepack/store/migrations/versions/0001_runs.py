"""Creates the history of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("job_id", sa.Uuid, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("table_uuid", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("snapshot_id_after", sa.BigInteger),
        sa.Column("changed_nothing", sa.Boolean, nullable=False),
        sa.Column("record", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_runs"),
    )
    op.create_index("ix_runs_started", "runs", ["started_at", "job_id"])
    op.create_index("ix_runs_table_started", "runs", ["table_name", "started_at", "job_id"])
    op.create_index("ix_runs_action_started", "runs", ["action", "started_at", "job_id"])
    op.create_index("ix_runs_state_started", "runs", ["state", "started_at", "job_id"])
    op.create_index("ix_runs_last_of_kind", "runs", ["table_name", "state", "action", "finished_at"])
