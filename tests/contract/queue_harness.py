"""A job queue for tests, with a database clock that a test moves forwards or back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Column, ColumnElement, Engine, MetaData, Table, delete, insert, select, update

from icepack.domain.actions import Action, Compact
from icepack.domain.job import Claim, Job, JobOutcome, JobRequest, JobState
from icepack.domain.table import TableId
from icepack.store.jobs import SqlJobStore
from icepack.store.locks import SqlTableLocks
from icepack.store.schema import metadata
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.transaction import write_transaction
from icepack.store.sql.types import UtcDateTime
from icepack.store.table_cache import SqlTableCache

DAWN = datetime(2026, 11, 15, 6, 0, tzinfo=UTC)
LEASE = timedelta(seconds=30)
DONE = JobOutcome(state=JobState.SUCCEEDED)

test_clock = Table("test_clock", MetaData(), Column("at", UtcDateTime, nullable=False))


class SettableClock(DatabaseClock):
    """Reads the current time from a table in the database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self) -> datetime:
        with self._engine.connect() as connection:
            return connection.execute(select(test_clock.c.at)).scalar_one()

    def shift(self, by: timedelta) -> None:
        now = self.read()
        with write_transaction(self._engine) as connection:
            connection.execute(update(test_clock).values(at=now + by))

    def _current_time(self) -> ColumnElement[datetime]:
        return select(test_clock.c.at).scalar_subquery()


@dataclass(frozen=True)
class Queue:
    engine: Engine
    clock: SettableClock
    jobs: SqlJobStore
    locks: SqlTableLocks
    cache: SqlTableCache

    @classmethod
    def over(cls, engine: Engine) -> Queue:
        clock = SettableClock(engine)
        return cls(
            engine,
            clock,
            SqlJobStore(engine, clock),
            SqlTableLocks(engine, clock),
            SqlTableCache(engine, clock),
        )

    def submit(self, table: TableId | str = "lake.sales.orders", action: Action | None = None, **options: Any) -> Job:
        return self.jobs.submit(request(table, action, **options)).job

    def claim(self, worker: str = "worker", lease: timedelta = LEASE) -> Claim:
        claim = self.jobs.claim(worker, lease)
        assert claim is not None
        return claim

    def claim_all(self, worker: str = "worker") -> Iterator[Claim]:
        while (claim := self.jobs.claim(worker, LEASE)) is not None:
            yield claim

    def wait(self, seconds: float) -> None:
        self.clock.shift(timedelta(seconds=seconds))

    def dump(self) -> dict[str, list[Any]]:
        """Every row of every table, to check that nothing has changed."""
        with self.engine.connect() as connection:
            return {
                table.name: sorted(map(repr, connection.execute(select(table)))) for table in metadata.sorted_tables
            }


def request(table: TableId | str = "lake.sales.orders", action: Action | None = None, **options: Any) -> JobRequest:
    return JobRequest(
        table=TableId.parse(table) if isinstance(table, str) else table, action=action or Compact(), **options
    )


def create_clock_table(engine: Engine) -> None:
    with write_transaction(engine) as connection:
        test_clock.create(connection)


def delete_all_rows(engine: Engine) -> None:
    with write_transaction(engine) as connection:
        for table in (*metadata.sorted_tables, test_clock):
            connection.execute(delete(table))
        connection.execute(insert(test_clock).values(at=DAWN))
