"""Creates API keys, sessions and overrides, and adds columns for the lists and sums of the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from icepack.domain.table import TableId, join_name

revision = "0003"
down_revision = "0002"

TIME = sa.DateTime(timezone=True)
BATCH_ROWS = 500
_SEVERITIES = ("critical", "warning", "info")


def upgrade() -> None:
    _add_columns()
    _create_access()
    _fill("jobs", ["number"], ["table_name"], _place)
    _fill("runs", ["job_id"], ["table_name", "record"], _cost)
    _fill("cache_rows", ["table_name", "generation"], ["status", "health", "recommendation"], _brief)


def _add_columns() -> None:
    for table in ("jobs", "runs"):
        op.add_column(table, sa.Column("namespace", sa.Text, nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("estimated_seconds", sa.Float))
    op.create_index("ix_jobs_place_number", "jobs", ["catalog", "namespace", "number"])
    for name in ("estimated_dollars", "estimated_seconds", "realised_seconds"):
        op.add_column("runs", sa.Column(name, sa.Float, nullable=False, server_default="0"))
    for name in ("get_requests", "put_requests"):
        op.add_column("runs", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("cache_rows", sa.Column("brief", sa.JSON))


def _create_access() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("expires_at", TIME),
        sa.Column("revoked_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_name", "api_keys", ["name"])
    op.create_table(
        "sessions",
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text),
        sa.Column("principal", sa.JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_sessions"),
    )
    op.create_index("ix_sessions_key", "sessions", ["key_id"])
    op.create_index("ix_sessions_expires", "sessions", ["expires_at"])
    op.create_table(
        "overrides",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("entries", sa.JSON, nullable=False),
        sa.Column("changed_at", TIME, nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("kind", name="pk_overrides"),
    )


Row = Mapping[Any, Any]


def _fill(name: str, keys: list[str], read: list[str], derive: Callable[[Row], dict[str, Any]]) -> None:
    """Fills the new columns of existing rows with the values that new rows get."""
    connection = op.get_bind()
    table = sa.Table(name, sa.MetaData(), autoload_with=connection)
    for column in ("status", "health", "recommendation", "record", "brief"):
        if column in table.c:
            table.c[column].type = sa.JSON(none_as_null=True)
    keyed = [table.c[key] for key in keys]
    wanted = [table.c[name] for name in dict.fromkeys([*keys, *read])]
    last: Any = None
    while True:
        after = sa.true() if last is None else sa.tuple_(*keyed) > sa.tuple_(*last)
        rows = connection.execute(sa.select(*wanted).where(after).order_by(*keyed).limit(BATCH_ROWS)).all()
        for row in rows:
            values = derive(dict(row._mapping))
            if values:
                this = [column == getattr(row, column.name) for column in keyed]
                connection.execute(sa.update(table).where(*this).values(values))
        if len(rows) < BATCH_ROWS:
            return
        last = [getattr(rows[-1], key) for key in keys]


def _place(row: Row) -> dict[str, Any]:
    return {"namespace": join_name(TableId.parse(row["table_name"]).namespace)}


def _cost(row: Row) -> dict[str, Any]:
    estimate = row["record"].get("estimate") or {}
    return {
        **_place(row),
        "estimated_dollars": estimate.get("dollars", 0.0),
        "estimated_seconds": estimate.get("duration_seconds", 0.0),
        "realised_seconds": row["record"].get("realised_seconds", 0.0),
        "get_requests": estimate.get("get_requests", 0),
        "put_requests": estimate.get("put_requests", 0),
    }


def _brief(row: Row) -> dict[str, Any]:
    if row["status"] is None:
        return {}
    issues = row["health"]["issues"]
    found = {issue["severity"] for issue in issues}
    actions = (row["recommendation"] or {}).get("actions", [])
    properties = row["status"].get("properties", {})
    brief = {
        "issues": [issue["code"] for issue in issues],
        "severity": next((severity for severity in _SEVERITIES if severity in found), None),
        "actions": [item["action"]["kind"] for item in actions],
        "estimated_dollars": sum(item["cost"]["dollars"] for item in actions),
        "partitions": len(row["status"].get("partitions", [])),
        "last_compaction_at": row["status"].get("last_compaction_at"),
        "properties": {key: value for key, value in properties.items() if key.startswith("icepack.")},
    }
    return {"brief": brief}
