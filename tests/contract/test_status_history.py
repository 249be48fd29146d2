"""Table statistics and health assessments over time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

import pytest
from sqlalchemy import Engine

from icepack.domain.health import assess_health
from icepack.domain.ports.history import StatusPoint
from icepack.domain.table import TableId
from icepack.store.history import SqlHistoryStore

from .queue_harness import DAWN
from .sample_runs import NOON, ODD, ORDERS, totals
from .sample_tables import status

DAY = timedelta(days=1)


@pytest.fixture
def history(engine: Engine) -> SqlHistoryStore:
    return SqlHistoryStore(engine)


def _point(table: TableId = ORDERS, *, days: float = 0, files: int = 10) -> StatusPoint:
    return StatusPoint(table=table, observed_at=DAWN + days * DAY, totals=totals(1, files))


def test_status_points_are_read_oldest_first(history: SqlHistoryStore) -> None:
    points = [_point(days=days, files=days) for days in (3, 1, 2)]
    history.save_status(points)
    history.save_status([_point(ODD)])
    history.save_status([])
    assert history.statuses(ORDERS) == sorted(points, key=lambda point: point.observed_at)
    assert history.statuses(ODD) == [_point(ODD)]


def test_a_limit_returns_the_newest_status_points(history: SqlHistoryStore) -> None:
    points = [_point(days=days) for days in range(6)]
    history.save_status(points)
    assert history.statuses(ORDERS, limit=2) == points[-2:]
    assert history.statuses(ORDERS, since=DAWN + 3 * DAY) == points[3:]


def test_saving_the_same_time_again_replaces_the_point(history: SqlHistoryStore) -> None:
    history.save_status([_point(files=1)])
    tokyo = timezone(timedelta(hours=9))
    history.save_status([replace(_point(files=2), observed_at=DAWN.astimezone(tokyo))])
    assert history.statuses(ORDERS) == [_point(files=2)]


def test_assessments_are_read_newest_first_with_all_issues(history: SqlHistoryStore) -> None:
    reports = [assess_health(status(ODD, files), NOON + files * DAY) for files in (1, 300, 20)]
    history.save_health(reports)
    history.save_health(reports[:1])
    newest_first = sorted(reports, key=lambda report: report.assessed_at, reverse=True)
    assert any(report.issues for report in reports)
    assert history.assessments(ODD) == newest_first
    assert history.assessments(ODD, limit=1) == newest_first[:1]
    assert history.assessments(ODD, since=NOON + 20 * DAY) == newest_first[:2]
    assert history.assessments(ORDERS) == []
