"""Adds the values that the web page sums: the effects of runs, and the state of the fleet on each day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

import sqlalchemy as sa
from alembic import op

from icepack.domain.table import TableId, join_name

revision = "0005"
down_revision = "0004"

BATCH_ROWS = 500
DAYS = 30
EFFECTS = (
    *("estimated_files_removed", "files_removed", "estimated_bytes_rewritten", "bytes_rewritten"),
    *("bytes_removed", "files_deleted", "bytes_deleted"),
)
POLICY_PROPERTIES = (
    "write.target-file-size-bytes",
    "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
)
SUMS = ("score_sum", "data_files", "delete_files", "bytes", "records")


def upgrade() -> None:
    for name in EFFECTS:
        op.add_column("runs", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "fleet_days",
        sa.Column("day", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("tables", sa.Integer, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in SUMS),
        sa.PrimaryKeyConstraint("day", "catalog", "namespace", name="pk_fleet_days"),
    )
    _fill_effects()
    _fill_days()
    _fill_briefs()


def _table(name: str, *documents: str) -> sa.Table:
    table = sa.Table(name, sa.MetaData(), autoload_with=op.get_bind())
    for column in documents:
        table.c[column].type = sa.JSON(none_as_null=True)
    return table


def _fill_effects() -> None:
    connection, runs = op.get_bind(), _table("runs", "record")
    last: Any = None
    while True:
        after = sa.true() if last is None else runs.c.job_id > last
        found = sa.select(runs.c.job_id, runs.c.record).where(after).order_by(runs.c.job_id).limit(BATCH_ROWS)
        rows = connection.execute(found).all()
        for row in rows:
            connection.execute(sa.update(runs).where(runs.c.job_id == row.job_id).values(_effects(row.record)))
        if len(rows) < BATCH_ROWS:
            return
        last = rows[-1].job_id


def _effects(record: Mapping[str, Any]) -> dict[str, int]:
    effect, expected = record.get("effect") or {}, record.get("expected") or {}
    return {
        "estimated_files_removed": expected.get("files_removed", 0) + expected.get("delete_files_removed", 0),
        "files_removed": effect.get("files_rewritten", 0)
        - effect.get("files_added", 0)
        + effect.get("delete_files_removed", 0),
        "estimated_bytes_rewritten": expected.get("bytes_rewritten", 0),
        "bytes_rewritten": effect.get("bytes_rewritten", 0),
        "bytes_removed": effect.get("bytes_rewritten", 0) - effect.get("bytes_added", 0),
        "files_deleted": effect.get("files_deleted", 0),
        "bytes_deleted": effect.get("bytes_deleted", 0),
    }


def _fill_days() -> None:
    """Computes the days from the stored table statuses; a day without a status repeats the day before."""
    connection, statuses = op.get_bind(), _table("table_statuses", "totals")
    since = datetime.now(UTC) - timedelta(days=DAYS)
    kept = sa.select(statuses).where(statuses.c.observed_at >= since)
    rows = connection.execute(kept.order_by(statuses.c.table_name, statuses.c.observed_at))
    sums: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(("tables", *SUMS), 0))
    for name, found in groupby(rows, key=lambda row: row.table_name):
        table = TableId.parse(name)
        for day, totals in _by_day({_day(row.observed_at): row.totals for row in found}):
            line = sums[day.isoformat(), table.catalog, join_name(table.namespace)]
            line["tables"] += 1
            line["score_sum"] += totals["score"]
            for figure in SUMS[1:]:
                line[figure] += totals[figure]
    _insert_days(sums)


def _day(moment: datetime) -> date:
    """The UTC date; SQLite stores UTC without a time zone."""
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date()


def _by_day(found: Mapping[date, Mapping[str, Any]]) -> Iterator[tuple[date, Mapping[str, Any]]]:
    days = sorted(found)
    for day, following in pairwise((*days, days[-1] + timedelta(days=1))):
        for passed in range((following - day).days):
            yield day + timedelta(days=passed), found[day]


def _insert_days(sums: Mapping[tuple[str, str, str], Mapping[str, int]]) -> None:
    rows = [{"day": day, "catalog": catalog, "namespace": place, **s} for (day, catalog, place), s in sums.items()]
    if rows:
        op.get_bind().execute(sa.insert(_table("fleet_days")), rows)


def _fill_briefs() -> None:
    """Adds the time of the last commit and the policy properties, so that lists need not read the status."""
    connection, rows = op.get_bind(), _table("cache_rows", "status", "brief")
    keys = (rows.c.table_name, rows.c.generation)
    last: Any = None
    while True:
        after = sa.true() if last is None else sa.tuple_(*keys) > sa.tuple_(*last)
        found = connection.execute(
            sa.select(*keys, rows.c.status, rows.c.brief).where(after).order_by(*keys).limit(BATCH_ROWS)
        ).all()
        for row in found:
            if row.brief is not None:
                brief = {**row.brief, **_brief(row.status)}
                this = sa.and_(rows.c.table_name == row.table_name, rows.c.generation == row.generation)
                connection.execute(sa.update(rows).where(this).values(brief=brief))
        if len(found) < BATCH_ROWS:
            return
        last = (found[-1].table_name, found[-1].generation)


def _brief(status: Mapping[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in status.get("properties", {}).items() if _counts(key)}
    return {"last_commit_at": status.get("snapshots", {}).get("newest_at"), "properties": own}


def _counts(key: str) -> bool:
    return key.startswith("icepack.") or key in POLICY_PROPERTIES
