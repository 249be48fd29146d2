"""Migrations fill the new columns of existing rows with the values that new rows get."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, MetaData, Table, insert, select

from contract.queue_harness import LEASE, request
from contract.sample_runs import NOON, ODD, ORDERS, run, totals
from contract.sample_tables import cached
from icepack.domain.access import Scope
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.recommendation import ExpectedEffect
from icepack.domain.run import RealisedEffect
from icepack.domain.serialization import to_json
from icepack.store import migrate
from icepack.store.backend import open_engine, open_stores
from icepack.store.history import _to_row
from icepack.store.queue.rows import new_job_row
from icepack.store.sql.transaction import write_transaction
from icepack.store.table_cache_rows import to_row

AUDIT_TEXTS = ("actor", "action", "subject", "origin", "outcome")


def _upgrade_to(engine: Engine, revision: str) -> None:
    with write_transaction(engine) as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
        command.upgrade(config, revision)


def _insert(engine: Engine, name: str, values: dict[str, Any]) -> None:
    """Insert a row as the previous release did: without the columns that it did not have."""
    from icepack.store.schema import metadata

    with write_transaction(engine) as connection:
        known = {column.name for column in Table(name, MetaData(), autoload_with=connection).c}
        table = metadata.tables[name]
        old = Table(name, MetaData(), *(column._copy() for column in table.c if column.name in known))
        connection.execute(insert(old).values({key: value for key, value in values.items() if key in known}))


def test_old_rows_get_the_new_columns(database_url: str) -> None:
    engine = open_engine(database_url)
    _upgrade_to(engine, "0002")
    estimate = CostEstimate(get_requests=7, put_requests=3, dollars=0.5, duration_seconds=9.0)
    for table in (ORDERS, ODD):
        _insert(engine, "jobs", {**new_job_row(request(table)), "submitted_at": NOON})
        job_id = UUID(int=hash(table) % 2**64)
        _insert(engine, "runs", _to_row(run(table, job_id=job_id, estimate=estimate, realised_seconds=11.0)))
    generation = {"number": 1, "state": "current", "owner": "me", "started_at": NOON, "expires_at": NOON, "message": ""}
    _insert(engine, "cache_generations", {**generation, "ended_at": NOON})
    from icepack.domain.ports.table_cache import Generation

    seen = cached(ORDERS)
    _insert(engine, "cache_rows", to_row(Generation(number=1, owner="me", lease=LEASE), seen))
    engine.dispose()

    stores = open_stores(database_url)
    with stores.engine.connect() as connection:
        jobs, runs, rows = (
            Table(name, MetaData(), autoload_with=connection) for name in ("jobs", "runs", "cache_rows")
        )
        places = dict(connection.execute(select(jobs.c.table_name, jobs.c.namespace)).tuples().all())
        costs = connection.execute(select(runs).where(runs.c.table_name == str(ORDERS))).one()
        assert connection.execute(select(rows.c.brief)).scalar_one() is not None
    assert places == {str(ORDERS): "sales", str(ODD): '"a.b"."the ""best""".日本'}
    assert (costs.namespace, costs.estimated_dollars, costs.realised_seconds, costs.get_requests) == (
        "sales",
        0.5,
        11.0,
        7,
    )
    (summary,) = stores.cache.summaries()
    fresh = to_json(summary.brief)
    from icepack.domain.ports.table_cache import build_brief

    assert fresh == to_json(build_brief(seen))
    stores.close()


def test_fleet_days_and_run_effects_are_computed_from_stored_records(database_url: str) -> None:
    engine = open_engine(database_url)
    _upgrade_to(engine, "0004")
    now = datetime.now(UTC)
    moments = [now - timedelta(days=days) for days in (4, 4.001, 2)]
    for number, (table, at) in enumerate([*((ORDERS, at) for at in moments), (ODD, now)]):
        row = {"table_name": str(table), "observed_at": at, "totals": to_json(totals(1, 10 + number))}
        _insert(engine, "table_statuses", row)
    effect = RealisedEffect(files_rewritten=9, files_added=1, bytes_rewritten=900, bytes_added=800)
    _insert(engine, "runs", _to_row(run(effect=effect, expected=ExpectedEffect(files_removed=10))))
    engine.dispose()

    stores = open_stores(database_url)
    trend = stores.fleet_queries.trend((now - timedelta(days=9)).date())
    days = [(now - timedelta(days=days)).date().isoformat() for days in (4, 3, 2, 0)]
    assert [(point.day, point.data_files) for point in trend][-4:] == list(zip(days, (10, 10, 12, 13), strict=True))
    (line,) = stores.fleet_queries.costs_by_table(NOON - timedelta(days=1))
    sums = line.sums
    assert (sums.files_removed, sums.estimated_files_removed, sums.bytes_removed) == (8, 10, 100)
    stores.close()


def test_old_audit_entries_get_the_namespace_of_their_table(database_url: str) -> None:
    engine = open_engine(database_url)
    _upgrade_to(engine, "0005")
    for details in ({"table": str(ORDERS)}, {"table": str(ODD)}, {"table": 7}, {}):
        _insert(engine, "audit_events", {**dict.fromkeys(AUDIT_TEXTS, "x"), "at": NOON, "details": details})
    engine.dispose()
    stores = open_stores(database_url)
    found = stores.audit.entries(scopes=(Scope("lake", "sales"),))
    assert [entry.details for entry in found] == [{"table": str(ORDERS)}]
    assert len(stores.audit.entries()) == 4
    stores.close()
