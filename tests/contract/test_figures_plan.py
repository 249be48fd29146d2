"""A scrape costs what is open, not what has ended: the plans follow their indexes on 100,000 jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from icepack.domain.plan.cost import CostModel
from icepack.store.metrics.totals import SqlFigures

from .bulk import analyze, fill
from .queueing import wipe

ENDED, OPEN = 100_000, 200
MOST_BLOCKS = 250


@pytest.fixture
def shared(postgres_engine: Engine) -> Iterator[Engine]:
    wipe(postgres_engine)
    yield postgres_engine
    wipe(postgres_engine)
    analyze(postgres_engine)


def _fill(engine: Engine) -> None:
    fill(engine, "ended", ENDED, 500)
    with engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET state = 'succeeded', finished_at = clock_timestamp(), counted = true"))
    fill(engine, "open", OPEN, 100)
    analyze(engine)


def _statements(engine: Engine) -> list[tuple[str, Any]]:
    """All that one reading asks."""
    asked: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    SqlFigures(engine, CostModel()).read()
    event.remove(engine, "before_cursor_execute", note)
    return asked


def _plan(engine: Engine, statement: str, parameters: Any) -> dict[str, Any]:
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        found = driver.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters).fetchone()[0]
    plan: dict[str, Any] = found[0]["Plan"]
    return plan


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def test_a_reading_is_cheap_with_100_000_jobs_that_have_ended(shared: Engine) -> None:
    _fill(shared)
    plans = [_plan(shared, *asked) for asked in _statements(shared)]
    assert len(plans) >= 5
    scans = [node for plan in plans for node in _nodes(plan) if node.get("Relation Name") == "jobs"]
    assert [node["Node Type"] for node in scans if "Index" not in node["Node Type"]] == []
    assert {"ix_jobs_open", "ix_jobs_uncounted"} <= {node["Index Name"] for node in scans}
    assert sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans) < MOST_BLOCKS


def test_sqlite_asks_the_same_indexes(sqlite_engine: Engine) -> None:
    wipe(sqlite_engine)
    asked = [told for told in _statements(sqlite_engine) if told[0].startswith("SELECT")]
    with sqlite_engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        steps = [row[3] for told in asked for row in driver.execute(f"EXPLAIN QUERY PLAN {told[0]}", told[1])]
    of_jobs = [step for step in steps if " jobs " in step]
    assert [step for step in of_jobs if " USING " not in step] == []
    assert any("INDEX ix_jobs_open" in step for step in of_jobs)
    assert any("INDEX ix_jobs_uncounted" in step for step in of_jobs)
    assert not any("ix_jobs_finished" in step for step in of_jobs), "it would read every job that has ended"
