"""How tables fared over time, in SQLite or PostgreSQL: figures and assessments, each by its moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime
from typing import Any

from sqlalchemy import Column, Engine, Select, Table, delete, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from icepack.domain.health import HealthReport
from icepack.domain.observability.fleet_trend import FleetLine
from icepack.domain.ports.queue import StatusHistory, StatusPoint
from icepack.domain.run import Totals
from icepack.domain.serialization import from_json, to_json
from icepack.domain.table import TableId
from icepack.store.schema import fleet_days, health_assessments, table_statuses
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.transaction import reading, writing


class SqlStatusHistory(StatusHistory):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def save_status(self, points: Sequence[StatusPoint]) -> None:
        """What was saved for the same table and moment before is replaced."""
        rows = [
            {"table_name": str(point.table), "observed_at": point.observed_at, "totals": to_json(point.totals)}
            for point in points
        ]
        self._put(table_statuses, rows)

    def statuses(self, table: TableId, *, since: datetime | None = None, limit: int = 1000) -> list[StatusPoint]:
        """The newest, oldest of them first, as a chart wants them."""
        rows = self._newest(table_statuses, table_statuses.c.observed_at, table, since, limit)
        return [
            StatusPoint(table=table, observed_at=row.observed_at, totals=from_json(Totals, row.totals))
            for row in reversed(rows)
        ]

    def save_health(self, reports: Sequence[HealthReport]) -> None:
        rows = [
            {
                "table_name": str(report.table),
                "assessed_at": report.assessed_at,
                "score": report.score,
                "report": to_json(report),
            }
            for report in reports
        ]
        self._put(health_assessments, rows)

    def assessments(self, table: TableId, *, since: datetime | None = None, limit: int = 100) -> list[HealthReport]:
        """The newest first."""
        rows = self._newest(health_assessments, health_assessments.c.assessed_at, table, since, limit)
        return [from_json(HealthReport, row.report) for row in rows]

    def save_day(self, day: date, lines: Sequence[FleetLine]) -> None:
        rows = [{**asdict(line), "day": day.isoformat()} for line in lines]
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            connection.execute(delete(fleet_days).where(fleet_days.c.day == day.isoformat()))
            if rows:
                connection.execute(insert(fleet_days), rows)

    def _put(self, into: Table, rows: list[dict[str, Any]]) -> None:
        if not rows:
            return
        insert = (postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert)(into)
        keys = list(into.primary_key)
        changed = {column.name: insert.excluded[column.name] for column in into.c if column not in keys}
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=changed), rows)

    def _newest(self, kept: Table, at: Column[datetime], table: TableId, since: datetime | None, limit: int) -> Any:
        statement: Select[Any] = select(kept).where(kept.c.table_name == str(table))
        if since is not None:
            statement = statement.where(at >= since)
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            return connection.execute(statement.order_by(at.desc()).limit(limit)).all()
