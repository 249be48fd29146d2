"""Adds the worker registry, the counting of runs without a job, and the namespace of audit events."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from icepack.domain.table import TableId, join_name
from icepack.errors import InvalidTableName

revision = "0006"
down_revision = "0005"

BATCH_ROWS = 500
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "workers",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_workers"),
    )
    # Existing runs are not counted: they may belong to a job, which is counted itself.
    op.add_column("runs", sa.Column("counted", sa.Boolean, nullable=False, server_default=sa.true()))
    condition: Any = sa.text(f"finished_at IS NOT NULL AND {_is_false('counted')}")
    op.create_index("ix_runs_uncounted", "runs", ["job_id"], postgresql_where=condition, sqlite_where=condition)
    for name in ("catalog", "namespace"):
        op.add_column("audit_events", sa.Column(name, sa.Text))
    op.create_index("ix_audit_events_place", "audit_events", ["catalog", "namespace", "number"])
    _fill_places()


def _is_false(column: str) -> str:
    """The condition as the schema writes it: SQLite uses a partial index only if the condition matches exactly."""
    return f"{column} = false" if op.get_bind().dialect.name == "postgresql" else f"{column} = 0"


def _fill_places() -> None:
    connection = op.get_bind()
    entries = sa.Table("audit_events", sa.MetaData(), autoload_with=connection)
    entries.c.details.type = sa.JSON()
    last = 0
    while True:
        found = sa.select(entries.c.number, entries.c.details).where(entries.c.number > last)
        rows = connection.execute(found.order_by(entries.c.number).limit(BATCH_ROWS)).all()
        for row in rows:
            place = _place(row.details)
            if place:
                connection.execute(sa.update(entries).where(entries.c.number == row.number).values(place))
        if len(rows) < BATCH_ROWS:
            return
        last = rows[-1].number


def _place(details: Any) -> dict[str, str]:
    try:
        table = TableId.parse(str(details.get("table", "")))
    except (InvalidTableName, AttributeError):
        return {}
    return {"catalog": table.catalog, "namespace": join_name(table.namespace)}
