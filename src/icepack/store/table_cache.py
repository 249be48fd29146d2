"""The table cache in SQLite or PostgreSQL: a refresh is written beside what readers see, then swapped in.

A row counts for the generations from the one that wrote it up to the one that replaced it. What a refresh does not
touch is carried over by doing nothing, so its cost follows the number of changed tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Engine, Float, Select, Text, bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from icepack.domain.ports.queue import (
    CachedTable,
    CacheState,
    Generation,
    RefreshLost,
    RefreshUnderWay,
    TableCache,
    TableSummary,
)
from icepack.domain.table import TableId
from icepack.store.schema import BUILDING, CURRENT, cache_generations, cache_rows
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.query import Query
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import reading, writing
from icepack.store.table_cache_rows import DOCUMENTS, to_row, to_summary, to_table, to_tombstone

BATCH_ROWS = 100
_BRIEF = [column for column in cache_rows.c if column.name not in {document.name for document in DOCUMENTS}]


class SqlTableCache(TableCache):
    def __init__(self, engine: Engine, clock: DatabaseClock | None = None) -> None:
        self._engine = engine
        self._clock = clock or DatabaseClock()
        self._lease_end = self._clock.after(bindparam("lease_seconds", type_=Float))
        named = cache_rows.c.table_name == bindparam("table", type_=Text)
        self._one = Query(engine, visible(*DOCUMENTS).where(named))

    def begin(self, owner: str, lease: timedelta) -> Generation:
        """Takes the place of a refresh that was not heard of any more."""
        values = {"owner": storable(owner), "lease_seconds": lease.total_seconds()}
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            self._clear_expired(connection)
            made = self._insert(cache_generations).values(
                state="building", started_at=self._clock.now(), expires_at=self._lease_end, message=""
            )
            begun = made.on_conflict_do_nothing().returning(cache_generations.c.number)
            number = connection.execute(begun, values).scalar_one_or_none()
            if number is None:
                other = connection.execute(select(cache_generations).where(BUILDING)).one()
                raise RefreshUnderWay(other.owner, other.expires_at)
            return Generation(number=number, owner=owner, lease=lease)

    def write(self, generation: Generation, tables: Iterable[CachedTable]) -> None:
        self._put(generation, (to_row(generation, table) for table in tables))

    def remove(self, generation: Generation, tables: Iterable[TableId]) -> None:
        self._put(generation, (to_tombstone(generation, table) for table in tables))

    def swap(self, generation: Generation) -> CacheState:
        number = generation.number
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            self._keep(connection, generation)
            previous = connection.scalar(select(cache_generations.c.number).where(CURRENT))
            connection.execute(_replace_older(number))
            connection.execute(delete(cache_rows).where(cache_rows.c.generation == number, cache_rows.c.removed))
            connection.execute(update(cache_generations).where(CURRENT).values(state="retired"))
            self._end(connection, number, "current", "")
            _forget_before(connection, previous)
            return self._state(connection)

    def give_up(self, generation: Generation, reason: str) -> CacheState:
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            self._keep(connection, generation)
            self._discard(connection, generation.number, reason)
            return self._state(connection)

    def state(self) -> CacheState:
        with plain_faults(self._engine.url), self._engine.connect() as connection:
            return self._state(connection)

    def locations(self) -> Mapping[TableId, str]:
        statement = visible(cache_rows.c.table_name, cache_rows.c.metadata_location)
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            return {TableId.parse(name): location for name, location in connection.execute(statement)}

    def get(self, table: TableId) -> CachedTable | None:
        row = self._one.first(table=str(table))
        return None if row is None else to_table(row)

    def summaries(
        self, *, catalog: str | None = None, after: TableId | None = None, limit: int | None = None
    ) -> list[TableSummary]:
        statement = visible(*_BRIEF).order_by(cache_rows.c.table_name).limit(limit)
        if catalog is not None:
            statement = statement.where(cache_rows.c.catalog == catalog)
        if after is not None:
            statement = statement.where(cache_rows.c.table_name > str(after))
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            return [to_summary(row) for row in connection.execute(statement)]

    def tables(self) -> Iterator[CachedTable]:
        """One statement sees one moment; its rows are fetched as they are read."""
        statement = visible(*DOCUMENTS).order_by(cache_rows.c.table_name)
        with plain_faults(self._engine.url), self._engine.connect() as connection:
            for row in connection.execution_options(yield_per=BATCH_ROWS).execute(statement):
                yield to_table(row._mapping)

    def close(self) -> None:
        self._engine.dispose()

    def _put(self, generation: Generation, rows: Iterator[dict[str, Any]]) -> None:
        insert = self._insert(cache_rows)
        keys = list(cache_rows.primary_key)
        changed = {column.name: insert.excluded[column.name] for column in cache_rows.c if column not in keys}
        statement = insert.on_conflict_do_update(index_elements=keys, set_=changed)
        while batch := list(islice(rows, BATCH_ROWS)):
            with plain_faults(self._engine.url), writing(self._engine) as connection:
                self._keep(connection, generation)
                connection.execute(statement, batch)

    def _keep(self, connection: Connection, generation: Generation) -> None:
        """Renew the refresh's lease, and lock it; without it nothing may be written."""
        mine = update(cache_generations).where(BUILDING, cache_generations.c.number == generation.number)
        renewed = mine.values(expires_at=self._lease_end)
        if connection.execute(renewed, {"lease_seconds": generation.lease.total_seconds()}).rowcount != 1:
            raise RefreshLost(generation)

    def _clear_expired(self, connection: Connection) -> None:
        expired = select(cache_generations.c.number, cache_generations.c.owner).where(
            BUILDING, cache_generations.c.expires_at <= self._clock.now()
        )
        for number, owner in connection.execute(expired.with_for_update()).all():
            self._discard(connection, number, f"'{owner}' was not heard of before its lease ended.")

    def _discard(self, connection: Connection, number: int, reason: str) -> None:
        connection.execute(delete(cache_rows).where(cache_rows.c.generation == number))
        self._end(connection, number, "failed", reason)

    def _end(self, connection: Connection, number: int, state: str, message: str) -> None:
        ended = update(cache_generations).where(cache_generations.c.number == number)
        connection.execute(ended.values(state=state, ended_at=self._clock.now(), message=storable(message)))

    def _state(self, connection: Connection) -> CacheState:
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

    def _insert(self, table: Any) -> Any:
        return (postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert)(table)


def visible(*columns: Any) -> Select[Any]:
    """The rows that readers see now."""
    current = select(cache_generations.c.number).where(CURRENT).scalar_subquery()
    replaced_by = cache_rows.c.replaced_by
    return select(*columns).where(cache_rows.c.generation <= current, or_(replaced_by.is_(None), replaced_by > current))


def _replace_older(number: int) -> Any:
    written = select(cache_rows.c.table_name).where(cache_rows.c.generation == number)
    older = update(cache_rows).where(cache_rows.c.replaced_by.is_(None), cache_rows.c.generation < number)
    return older.where(cache_rows.c.table_name.in_(written)).values(replaced_by=number)


def _forget_before(connection: Connection, previous: int | None) -> None:
    """What was current until now stays once more, for whoever is reading it."""
    if previous is not None:
        connection.execute(delete(cache_rows).where(cache_rows.c.replaced_by <= previous))
        connection.execute(delete(cache_generations).where(cache_generations.c.number < previous))
