"""A claim costs the same however long the queue is: the plan that PostgreSQL really uses follows the indexes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import sql
from sqlalchemy import Engine

from icepack.domain.job import JobState
from icepack.store.jobs import SqlJobStore

from .bulk import analyze, fill
from .queueing import DONE, LEASE, wipe

LITERALS = {"worker": "planner", "lease_seconds": 30.0, "above": -(2**31), "wakes_heeded": True}
MOST_ROWS = 150
MOST_BLOCKS = 200


@pytest.fixture
def shared(postgres_engine: Engine) -> Iterator[Engine]:
    wipe(postgres_engine)
    yield postgres_engine
    wipe(postgres_engine)
    analyze(postgres_engine)


def _explain(engine: Engine, text: str, values: dict[str, Any]) -> dict[str, Any]:
    """The plan of the statement as prepared, with what it really read; undone afterwards."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", text)
    arguments = sql.SQL(", ").join(sql.Literal(values[name]) for name in names)
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        driver.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        driver.execute(f"PREPARE planned AS {numbered}")
        explain = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE planned ({})").format(arguments)
        found = driver.execute(explain).fetchone()[0]
        driver.execute("DEALLOCATE planned")
        connection.rollback()
    plan: dict[str, Any] = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _assert_frugal(plan: dict[str, Any], *indexes: str, small: str = "") -> None:
    """Nothing but index scans, except of a table of one page."""
    scans = [node for node in _nodes(plan) if node.get("Relation Name") and "Scan" in node["Node Type"]]
    assert [
        node for node in scans if not node["Node Type"].startswith("Index") and node["Relation Name"] != small
    ] == []
    assert set(indexes) <= {node.get("Index Name") for node in scans}
    read = sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans)
    assert 0 < read < MOST_ROWS
    assert _blocks(plan) < MOST_BLOCKS


def _blocks(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _claim_plan(engine: Engine, store: SqlJobStore) -> dict[str, Any]:
    prepared = store._searching.claiming._at_once
    return _explain(engine, prepared.text, {**prepared.constants, **LITERALS})


def test_a_claim_costs_the_same_with_100_and_with_100_000_queued(shared: Engine) -> None:
    store = SqlJobStore(shared)
    fill(shared, "ready", 100, 50)
    analyze(shared)
    short = _blocks(_claim_plan(shared, store))
    fill(shared, "locked", 50_000, 500, locked=True)
    fill(shared, "waiting", 49_900, 500, waiting=True)
    assert store.counts()[JobState.QUEUED] == 100_000
    before_statistics = _claim_plan(shared, store)
    analyze(shared)
    with_statistics = _claim_plan(shared, store)
    for plan in (before_statistics, with_statistics):
        _assert_frugal(plan, "ix_lanes_ready", "ix_lanes_turn", "ix_jobs_next")
    assert _blocks(with_statistics) < short + MOST_BLOCKS / 2


def test_finishing_reads_as_little(shared: Engine) -> None:
    store = SqlJobStore(shared)
    fill(shared, "ready", 5_000, 1_000)
    fill(shared, "locked", 500, 500, locked=True)
    claims = [claim for _ in range(20) if (claim := store.claim("planner", LEASE)) is not None]
    analyze(shared)
    prepared = store._finishing._at_once[JobState.SUCCEEDED]
    values = {
        **prepared.constants,
        "lane": str(claims[0].table),
        "held_fence": claims[0].fence,
        "held_by": "planner",
        "job_number": claims[0].job.number,
        "said": "",
        "told": None,
    }
    _assert_frugal(_explain(shared, prepared.text, values), "pk_lanes")
    store.finish(claims[0], DONE)


def test_one_table_with_a_long_queue_costs_no_more(shared: Engine) -> None:
    store = SqlJobStore(shared)
    fill(shared, "one", 20_000, 5)
    analyze(shared)
    _assert_frugal(_claim_plan(shared, store), "ix_jobs_next", small="lanes")


def test_the_driver_can_keep_the_statement_in_its_cache(shared: Engine) -> None:
    """psycopg parses longer ones anew each time."""
    assert len(SqlJobStore(shared)._searching.claiming._at_once.text.encode()) <= 4096
