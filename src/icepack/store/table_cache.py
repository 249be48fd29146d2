"""The table cache in SQLite or PostgreSQL. Implements the port `TableCache`.

A refresh writes a new generation, which readers do not see until it is swapped in atomically. A row is visible from the
generation that wrote it until the generation that replaced it. So rows that a refresh does not touch are carried over
without being written, and the cost of a refresh depends only on the number of changed tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Engine, Float, Select, Text, bindparam, delete, or_, select, update

from icepack.domain.ports.table_cache import (
    CachedTable,
    CacheState,
    Generation,
    RefreshInProgress,
    RefreshLost,
    TableCache,
    TableSummary,
)
from icepack.domain.table import TableId
from icepack.store.schema import GENERATION_BUILDING, GENERATION_CURRENT, cache_generations, cache_rows
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.query import PreparedQuery
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import read_connection, write_transaction
from icepack.store.sql.upsert import insert_if_absent, upsert
from icepack.store.table_cache_rows import DOCUMENTS, to_row, to_summary, to_table, to_tombstone

# Number of rows that are written in one transaction, or fetched at once.
BATCH_ROWS = 100
_SUMMARY_COLUMNS = [column for column in cache_rows.c if column.name not in {document.name for document in DOCUMENTS}]


class SqlTableCache(TableCache):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._lease_end = self._clock.after(bindparam("lease_seconds", type_=Float))
        is_named = cache_rows.c.table_name == bindparam("table", type_=Text)
        self._select_table = PreparedQuery(engine, select_visible(*DOCUMENTS).where(is_named))

    def begin(self, owner: str, lease: timedelta) -> Generation:
        """Begin a refresh; a refresh whose lease has expired is aborted."""
        values = {"owner": clean_text(owner), "lease_seconds": lease.total_seconds()}
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            self._abort_expired(connection)
            statement = insert_if_absent(cache_generations, connection.dialect).values(
                state="building", started_at=self._clock.now(), expires_at=self._lease_end, message=""
            )
            number = connection.scalar(statement.returning(cache_generations.c.number), values)
            if number is None:
                other = connection.execute(select(cache_generations).where(GENERATION_BUILDING)).one()
                raise RefreshInProgress(other.owner, other.expires_at)
            return Generation(number=number, owner=owner, lease=lease)

    def write(self, generation: Generation, tables: Iterable[CachedTable]) -> None:
        self._write_rows(generation, (to_row(generation, table) for table in tables))

    def remove(self, generation: Generation, tables: Iterable[TableId]) -> None:
        self._write_rows(generation, (to_tombstone(generation, table) for table in tables))

    def swap(self, generation: Generation) -> CacheState:
        number = generation.number
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            self._renew_lease(connection, generation)
            previous = connection.scalar(select(cache_generations.c.number).where(GENERATION_CURRENT))
            connection.execute(_replace_older(number))
            connection.execute(delete(cache_rows).where(cache_rows.c.generation == number, cache_rows.c.removed))
            connection.execute(update(cache_generations).where(GENERATION_CURRENT).values(state="retired"))
            self._end(connection, number, "current", "")
            _delete_before(connection, previous)
            return self._read_state(connection)

    def abort(self, generation: Generation, reason: str) -> CacheState:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            self._renew_lease(connection, generation)
            self._discard(connection, generation.number, reason)
            return self._read_state(connection)

    def state(self) -> CacheState:
        with translate_errors(self._engine.url), self._engine.connect() as connection:
            return self._read_state(connection)

    def locations(self) -> Mapping[TableId, str]:
        statement = select_visible(cache_rows.c.table_name, cache_rows.c.metadata_location)
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            return {TableId.parse(name): location for name, location in connection.execute(statement)}

    def get(self, table: TableId) -> CachedTable | None:
        row = self._select_table.fetch_one(table=str(table))
        return None if row is None else to_table(row)

    def summaries(
        self, *, catalog: str | None = None, after: TableId | None = None, limit: int | None = None
    ) -> list[TableSummary]:
        statement = select_visible(*_SUMMARY_COLUMNS).order_by(cache_rows.c.table_name).limit(limit)
        if catalog is not None:
            statement = statement.where(cache_rows.c.catalog == catalog)
        if after is not None:
            statement = statement.where(cache_rows.c.table_name > str(after))
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            return [to_summary(row) for row in connection.execute(statement)]

    def tables(self) -> Iterator[CachedTable]:
        """All tables of one generation: a single statement reads one snapshot, and rows are fetched as needed."""
        statement = select_visible(*DOCUMENTS).order_by(cache_rows.c.table_name)
        with translate_errors(self._engine.url), self._engine.connect() as connection:
            for row in connection.execution_options(yield_per=BATCH_ROWS).execute(statement):
                yield to_table(row._mapping)

    def close(self) -> None:
        self._engine.dispose()

    def _write_rows(self, generation: Generation, rows: Iterator[dict[str, Any]]) -> None:
        statement = upsert(cache_rows, self._engine.dialect)
        while batch := list(islice(rows, BATCH_ROWS)):
            with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
                self._renew_lease(connection, generation)
                connection.execute(statement, batch)

    def _renew_lease(self, connection: Connection, generation: Generation) -> None:
        """Lock the generation and renew its lease; raises RefreshLost if it is no longer being built."""
        own = update(cache_generations).where(GENERATION_BUILDING, cache_generations.c.number == generation.number)
        renewed = own.values(expires_at=self._lease_end)
        if connection.execute(renewed, {"lease_seconds": generation.lease.total_seconds()}).rowcount != 1:
            raise RefreshLost(generation)

    def _abort_expired(self, connection: Connection) -> None:
        expired = select(cache_generations.c.number, cache_generations.c.owner).where(
            GENERATION_BUILDING, cache_generations.c.expires_at <= self._clock.now()
        )
        for number, owner in connection.execute(expired.with_for_update()).all():
            self._discard(connection, number, f"The lease of '{owner}' expired.")

    def _discard(self, connection: Connection, number: int, reason: str) -> None:
        connection.execute(delete(cache_rows).where(cache_rows.c.generation == number))
        self._end(connection, number, "failed", reason)

    def _end(self, connection: Connection, number: int, state: str, message: str) -> None:
        ended = update(cache_generations).where(cache_generations.c.number == number)
        connection.execute(ended.values(state=state, ended_at=self._clock.now(), message=clean_text(message)))

    def _read_state(self, connection: Connection) -> CacheState:
        rows = connection.execute(select(cache_generations).order_by(cache_generations.c.number)).all()
        now = connection.execute(select(self._clock.now())).scalar_one()
        last = {row.state: row for row in rows}
        current, building, failed = last.get("current"), last.get("building"), last.get("failed")
        is_recent = failed is not None and (current is None or failed.number > current.number)
        return CacheState(
            generation=current.number if current else None,
            refreshed_at=current.ended_at if current else None,
            age=now - current.ended_at if current else None,
            refreshing_since=building.started_at if building else None,
            failed_at=failed.ended_at if failed and is_recent else None,
            failure=failed.message if failed and is_recent else "",
        )


def select_visible(*columns: Any) -> Select[Any]:
    """Columns of the rows of the current generation."""
    current = select(cache_generations.c.number).where(GENERATION_CURRENT).scalar_subquery()
    replaced_by = cache_rows.c.replaced_by
    return select(*columns).where(cache_rows.c.generation <= current, or_(replaced_by.is_(None), replaced_by > current))


def _replace_older(number: int) -> Any:
    written = select(cache_rows.c.table_name).where(cache_rows.c.generation == number)
    older = update(cache_rows).where(cache_rows.c.replaced_by.is_(None), cache_rows.c.generation < number)
    return older.where(cache_rows.c.table_name.in_(written)).values(replaced_by=number)


def _delete_before(connection: Connection, previous: int | None) -> None:
    """Delete older generations; the previous one is kept until the next swap because it may still be read."""
    if previous is not None:
        connection.execute(delete(cache_rows).where(cache_rows.c.replaced_by <= previous))
        connection.execute(delete(cache_generations).where(cache_generations.c.number < previous))
