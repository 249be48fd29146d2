"""Inserts many queued jobs on PostgreSQL, with the rows that single submissions would create."""

from __future__ import annotations

from sqlalchemy import Engine, text

from icepack.domain.actions import Compact, action_to_json
from icepack.domain.serialization import to_json_text

CATALOGS = 5

_JOBS = text("""
INSERT INTO jobs (id, catalog, table_name, action, parameters, digest, state, rank, waits_until, attempts, max_attempts,
                  requester, trace_context, submitted_at, message, progress)
SELECT gen_random_uuid(), 'c' || (n % :catalogs), 'c' || (n % :catalogs) || '.bulk.' || :prefix || (n % :tables),
       'compact', CAST(:parameters AS json), :prefix || n, 'queued', 0,
       CASE WHEN :waiting THEN clock_timestamp() + interval '1 day' END, 0, 3, 'bulk', '', clock_timestamp(), '', '{}'
FROM generate_series(1, :jobs) AS n
""")
_SLOTS = text("""
INSERT INTO lanes (table_name, catalog, version, last_claim, head_rank, head_number, wakes_at, owner, fence, taken_at,
                   expires_at)
SELECT table_name, min(catalog), 0, 0, CASE WHEN :waiting THEN NULL ELSE 0 END,
       min(number) FILTER (WHERE waits_until IS NULL), min(waits_until), CASE WHEN :locked THEN 'bulk' END,
       CASE WHEN :locked THEN 0 END, CASE WHEN :locked THEN clock_timestamp() END,
       CASE WHEN :locked THEN clock_timestamp() + interval '1 day' END
FROM jobs WHERE state = 'queued' AND NOT EXISTS (SELECT FROM lanes WHERE lanes.table_name = jobs.table_name)
GROUP BY table_name
""")


def fill(engine: Engine, prefix: str, jobs: int, tables: int, *, locked: bool = False, waiting: bool = False) -> None:
    """Insert jobs; `tables` must be a multiple of CATALOGS, so that each table belongs to one catalog."""
    parameters = to_json_text(action_to_json(Compact()))
    with engine.begin() as connection:
        counts = {"prefix": prefix, "jobs": jobs, "tables": tables, "catalogs": CATALOGS}
        connection.execute(_JOBS, {**counts, "parameters": parameters, "waiting": waiting})
        connection.execute(_SLOTS, {"locked": locked, "waiting": waiting})


def empty(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE jobs, lanes, events"))


def analyze(engine: Engine) -> None:
    """Collect statistics, as autovacuum does before a real queue is this long."""
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text("VACUUM ANALYZE jobs, lanes, events"))
