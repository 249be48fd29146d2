"""The cost of reading metrics depends on open jobs, not on finished ones: plans use indexes with 100,000 jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, event, text

from contract.bulk_jobs import analyze, fill
from contract.queue_harness import delete_all_rows
from icepack.domain.plan.cost import CostModel
from icepack.store.metrics.totals import SqlMetricsSource

ENDED, OPEN = 100_000, 200
MAX_BLOCKS = 250


def _fill(engine: Engine) -> None:
    fill(engine, "ended", ENDED, 500)
    with engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET state = 'succeeded', finished_at = clock_timestamp(), counted = true"))
    fill(engine, "open", OPEN, 100)
    analyze(engine)


def _statements(engine: Engine) -> list[tuple[str, Any]]:
    """All statements of one read."""
    statements: list[tuple[str, Any]] = []

    def record(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", record)
    SqlMetricsSource(engine, CostModel()).read()
    event.remove(engine, "before_cursor_execute", record)
    return statements


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


def test_a_read_is_cheap_with_100_000_finished_jobs(bulk_engine: Engine) -> None:
    _fill(bulk_engine)
    plans = [_plan(bulk_engine, *statement) for statement in _statements(bulk_engine)]
    assert len(plans) >= 5
    scans = [node for plan in plans for node in _nodes(plan) if node.get("Relation Name") == "jobs"]
    assert [node["Node Type"] for node in scans if "Index" not in node["Node Type"]] == []
    assert {"ix_jobs_open", "ix_jobs_uncounted"} <= {node["Index Name"] for node in scans}
    assert sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans) < MAX_BLOCKS


def test_sqlite_uses_the_same_indexes(sqlite_engine: Engine) -> None:
    delete_all_rows(sqlite_engine)
    queries = [query for query in _statements(sqlite_engine) if query[0].startswith("SELECT")]
    with sqlite_engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        steps = [row[3] for text, values in queries for row in driver.execute(f"EXPLAIN QUERY PLAN {text}", values)]
    of_jobs = [step for step in steps if " jobs " in step]
    assert [step for step in of_jobs if " USING " not in step] == []
    assert any("INDEX ix_jobs_open" in step for step in of_jobs)
    assert any("INDEX ix_jobs_uncounted" in step for step in of_jobs)
    assert not any("ix_jobs_finished" in step for step in of_jobs), "it would read every finished job"
