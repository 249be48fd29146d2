"""Table statistics and health assessments over time, in SQLite or PostgreSQL. Implements the port `StatusHistory`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime
from typing import Any

from sqlalchemy import Column, Engine, Select, Table, delete, insert, select

from icepack.domain.health import HealthReport
from icepack.domain.observability.fleet_trend import NamespaceTotals
from icepack.domain.ports.history import StatusHistory, StatusPoint
from icepack.domain.run import Totals
from icepack.domain.serialization import from_json, to_json
from icepack.domain.table import TableId
from icepack.store.schema import fleet_days, health_assessments, table_statuses
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.transaction import read_connection, write_transaction
from icepack.store.sql.upsert import upsert


class SqlStatusHistory(StatusHistory):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def save_status(self, points: Sequence[StatusPoint]) -> None:
        """Save status points; a point with the same table and time is replaced."""
        rows = [
            {"table_name": str(point.table), "observed_at": point.observed_at, "totals": to_json(point.totals)}
            for point in points
        ]
        self._save(table_statuses, rows)

    def statuses(self, table: TableId, *, since: datetime | None = None, limit: int = 1000) -> list[StatusPoint]:
        """The newest points in chronological order, for a chart."""
        rows = self._select_newest(table_statuses, table_statuses.c.observed_at, table, since, limit)
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
        self._save(health_assessments, rows)

    def assessments(self, table: TableId, *, since: datetime | None = None, limit: int = 100) -> list[HealthReport]:
        """The newest assessments, newest first."""
        rows = self._select_newest(health_assessments, health_assessments.c.assessed_at, table, since, limit)
        return [from_json(HealthReport, row.report) for row in rows]

    def save_day(self, day: date, lines: Sequence[NamespaceTotals]) -> None:
        rows = [{**asdict(line), "day": day.isoformat()} for line in lines]
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            connection.execute(delete(fleet_days).where(fleet_days.c.day == day.isoformat()))
            if rows:
                connection.execute(insert(fleet_days), rows)

    def _save(self, table: Table, rows: list[dict[str, Any]]) -> None:
        if not rows:
            return
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            connection.execute(upsert(table, self._engine.dialect), rows)

    def _select_newest(
        self, source: Table, at: Column[datetime], table: TableId, since: datetime | None, limit: int
    ) -> Any:
        statement: Select[Any] = select(source).where(source.c.table_name == str(table))
        if since is not None:
            statement = statement.where(at >= since)
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            return connection.execute(statement.order_by(at.desc()).limit(limit)).all()
