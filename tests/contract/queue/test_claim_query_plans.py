"""The cost of a claim does not depend on the length of the queue: PostgreSQL's actual plans use the indexes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from psycopg import sql
from sqlalchemy import Engine

from contract.bulk_jobs import analyze, fill
from contract.queue_harness import DONE, LEASE
from icepack.domain.job import JobState
from icepack.store.jobs import SqlJobStore
from icepack.store.queue.claim_statements import BEFORE_ALL_RANKS

CLAIM_VALUES = {"worker": "planner", "lease_seconds": 30.0, "after_rank": BEFORE_ALL_RANKS, "wake_first": True}
MAX_ROWS = 150
MAX_BLOCKS = 200


def _explain(engine: Engine, text: str, values: dict[str, Any]) -> dict[str, Any]:
    """The plan of the prepared statement with what it actually read; the statement is rolled back."""
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


def _assert_uses_indexes(plan: dict[str, Any], *indexes: str, small: str = "") -> None:
    """Only index scans, except of a table that fits on one page."""
    scans = [node for node in _nodes(plan) if node.get("Relation Name") and "Scan" in node["Node Type"]]
    assert [
        node for node in scans if not node["Node Type"].startswith("Index") and node["Relation Name"] != small
    ] == []
    assert set(indexes) <= {node.get("Index Name") for node in scans}
    read = sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans)
    assert 0 < read < MAX_ROWS
    assert _blocks(plan) < MAX_BLOCKS


def _blocks(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _claim_plan(engine: Engine, store: SqlJobStore) -> dict[str, Any]:
    prepared = store._claimer.statements.claim_statement
    return _explain(engine, prepared.text, {**prepared.constants, **CLAIM_VALUES})


def test_a_claim_costs_the_same_with_100_and_with_100_000_queued(bulk_engine: Engine) -> None:
    store = SqlJobStore(bulk_engine)
    fill(bulk_engine, "ready", 100, 50)
    analyze(bulk_engine)
    short = _blocks(_claim_plan(bulk_engine, store))
    fill(bulk_engine, "locked", 50_000, 500, locked=True)
    fill(bulk_engine, "waiting", 49_900, 500, waiting=True)
    assert store.counts()[JobState.QUEUED] == 100_000
    before_statistics = _claim_plan(bulk_engine, store)
    analyze(bulk_engine)
    with_statistics = _claim_plan(bulk_engine, store)
    for plan in (before_statistics, with_statistics):
        _assert_uses_indexes(plan, "ix_lanes_ready", "ix_lanes_turn", "ix_jobs_next")
    assert _blocks(with_statistics) < short + MAX_BLOCKS / 2


def test_finishing_uses_the_indexes_too(bulk_engine: Engine) -> None:
    store = SqlJobStore(bulk_engine)
    fill(bulk_engine, "ready", 5_000, 1_000)
    fill(bulk_engine, "locked", 500, 500, locked=True)
    claims = [claim for _ in range(20) if (claim := store.claim("planner", LEASE)) is not None]
    analyze(bulk_engine)
    prepared = store._finisher.statements[JobState.SUCCEEDED]
    values = {
        **prepared.constants,
        "slot": str(claims[0].table),
        "holder_fence": claims[0].fence,
        "holder_name": "planner",
        "job_number": claims[0].job.number,
        "new_message": "",
        "new_details": None,
    }
    _assert_uses_indexes(_explain(bulk_engine, prepared.text, values), "pk_lanes")
    store.finish(claims[0], DONE)


def test_one_table_with_a_long_queue_costs_no_more(bulk_engine: Engine) -> None:
    store = SqlJobStore(bulk_engine)
    fill(bulk_engine, "one", 20_000, 5)
    analyze(bulk_engine)
    _assert_uses_indexes(_claim_plan(bulk_engine, store), "ix_jobs_next", small="lanes")


def test_the_driver_can_keep_the_statement_in_its_cache(bulk_engine: Engine) -> None:
    """psycopg parses longer statements again each time."""
    assert len(SqlJobStore(bulk_engine)._claimer.statements.claim_statement.text.encode()) <= 4096
