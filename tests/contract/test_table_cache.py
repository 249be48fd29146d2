"""The contract of a table cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event, func, select

from icepack.domain.ports.table_cache import CachedTable, CacheState, Generation, RefreshInProgress, RefreshLost
from icepack.domain.run import compute_totals
from icepack.domain.table import TableId
from icepack.store.schema import cache_generations, cache_rows

from .queue_harness import DAWN, LEASE, Queue
from .sample_runs import ODD
from .sample_tables import cached

NAMES = ("a", "b", "c")


def _table(name: str) -> TableId:
    return TableId("lake", ("sales",), name)


def _begin(queue: Queue, owner: str = "sync") -> Generation:
    return queue.cache.begin(owner, LEASE)


def _refresh(queue: Queue, tables: Sequence[CachedTable], removed: Sequence[TableId] = ()) -> CacheState:
    generation = _begin(queue)
    queue.cache.write(generation, tables)
    queue.cache.remove(generation, removed)
    return queue.cache.swap(generation)


def _names(queue: Queue) -> list[str]:
    return [summary.table.name for summary in queue.cache.summaries()]


def _rows(queue: Queue) -> int:
    with queue.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(cache_rows)).scalar_one()


def test_an_empty_cache_has_no_tables(queue: Queue) -> None:
    assert queue.cache.state() == CacheState()
    assert queue.cache.get(ODD) is None
    assert queue.cache.summaries() == []
    assert list(queue.cache.tables()) == []
    assert queue.cache.locations() == {}


def test_a_cached_table_is_read_as_it_was_written(queue: Queue) -> None:
    table = cached(ODD, files=7)
    bare = replace(cached(_table("bare")), recommendation=None)
    _refresh(queue, [table, bare])
    assert queue.cache.get(ODD) == table
    assert queue.cache.get(bare.table) == bare
    assert sorted(queue.cache.tables(), key=lambda one: one.table) == [bare, table]
    assert queue.cache.locations() == {one.table: one.status.metadata_location for one in (bare, table)}


def test_summaries_have_the_totals_without_the_documents(queue: Queue) -> None:
    table = cached(ODD, files=7)
    _refresh(queue, [table])
    (summary,) = queue.cache.summaries()
    assert (summary.table, summary.score, summary.inspected_at) == (ODD, table.health.score, table.status.observed_at)
    assert summary.metadata_location == table.status.metadata_location
    assert summary.totals == compute_totals(table.status, table.health.score)


def test_summaries_come_page_by_page_and_by_catalog(queue: Queue) -> None:
    _refresh(queue, [cached(_table(name)) for name in NAMES] + [cached(TableId("other", ("x",), "z"))])
    first = queue.cache.summaries(limit=2)
    rest = queue.cache.summaries(after=first[-1].table)
    assert [summary.table.name for summary in first + rest] == ["a", "b", "c", "z"]
    assert [summary.table.name for summary in queue.cache.summaries(catalog="other")] == ["z"]


def test_a_reader_sees_nothing_of_a_refresh_until_the_swap(queue: Queue) -> None:
    old = [cached(_table(name)) for name in ("a", "b")]
    _refresh(queue, old)
    generation = _begin(queue)
    queue.cache.write(generation, [cached(_table("a"), files=9), cached(_table("c"))])
    queue.cache.remove(generation, [_table("b")])
    assert list(queue.cache.tables()) == old
    assert queue.cache.get(_table("c")) is None
    assert queue.cache.state().refreshing_since == DAWN
    queue.cache.swap(generation)
    assert _names(queue) == ["a", "c"]
    assert queue.cache.get(_table("a")) == cached(_table("a"), files=9)
    assert queue.cache.get(_table("b")) is None
    assert queue.cache.state().refreshing_since is None


def test_what_did_not_change_is_carried_over(queue: Queue) -> None:
    _refresh(queue, [cached(_table(name)) for name in NAMES])
    for files in range(1, 5):
        _refresh(queue, [cached(_table("b"), files=files)])
        assert _names(queue) == ["a", "b", "c"]
        assert queue.cache.get(_table("b")) == cached(_table("b"), files=files)


def test_a_refresh_without_changes_resets_the_age(queue: Queue) -> None:
    first = _refresh(queue, [cached(_table("a"))])
    queue.wait(100)
    assert queue.cache.state() == replace(first, age=timedelta(seconds=100))
    second = _refresh(queue, [])
    assert (second.age, second.refreshed_at) == (timedelta(0), DAWN + timedelta(seconds=100))
    assert second.generation is not None
    assert first.generation is not None
    assert second.generation > first.generation
    assert _names(queue) == ["a"]


def test_a_removed_table_can_come_back(queue: Queue) -> None:
    _refresh(queue, [cached(_table("a"))])
    _refresh(queue, [], removed=[_table("a"), _table("never there")])
    assert _names(queue) == []
    _refresh(queue, [cached(_table("a"))])
    assert _names(queue) == ["a"]


def test_the_last_write_of_a_table_wins(queue: Queue) -> None:
    generation = _begin(queue)
    queue.cache.write(generation, [cached(_table("a"), files=1)])
    queue.cache.remove(generation, [_table("a"), _table("b")])
    queue.cache.write(generation, [cached(_table("b"), files=2), cached(_table("b"), files=3)])
    queue.cache.swap(generation)
    assert list(queue.cache.tables()) == [cached(_table("b"), files=3)]


def test_a_failed_refresh_keeps_the_old_generation_and_its_age(queue: Queue) -> None:
    good = _refresh(queue, [cached(_table("a"))])
    queue.wait(50)
    generation = _begin(queue)
    queue.cache.write(generation, [cached(_table("a"), files=9), cached(_table("b"))])
    queue.wait(10)
    state = queue.cache.abort(generation, "the catalog did not answer")
    assert state == CacheState(
        generation=good.generation,
        refreshed_at=DAWN,
        age=timedelta(seconds=60),
        failed_at=DAWN + timedelta(seconds=60),
        failure="the catalog did not answer",
    )
    assert list(queue.cache.tables()) == [cached(_table("a"))]
    assert _rows(queue) == 1


def test_a_refresh_that_failed_is_forgotten_after_one_that_did_not(queue: Queue) -> None:
    queue.cache.abort(_begin(queue), "broken")
    assert queue.cache.state().failure == "broken"
    state = _refresh(queue, [])
    assert (state.failed_at, state.failure) == (None, "")


def test_only_one_refresh_is_under_way(queue: Queue) -> None:
    _begin(queue, "first")
    with pytest.raises(RefreshInProgress, match=r"'first' is refreshing .*until 06:00:30"):
        _begin(queue, "second")


def test_each_write_renews_the_lease_of_a_refresh(queue: Queue) -> None:
    generation = _begin(queue, "slow")
    for name in NAMES:
        queue.wait(20)
        queue.cache.write(generation, [cached(_table(name))])
    with pytest.raises(RefreshInProgress):
        _begin(queue, "second")
    queue.cache.swap(generation)
    assert _names(queue) == ["a", "b", "c"]


def test_an_expired_refresh_is_aborted_and_can_change_nothing_afterwards(queue: Queue) -> None:
    _refresh(queue, [cached(_table("a"))])
    dead = _begin(queue, "dead")
    queue.cache.write(dead, [cached(_table("a"), files=9), cached(_table("b"))])
    queue.wait(31)
    heir = _begin(queue, "heir")
    assert queue.cache.state().failure == "The lease of 'dead' expired."
    before = queue.dump()
    for write in (
        lambda: queue.cache.write(dead, [cached(_table("c"))]),
        lambda: queue.cache.remove(dead, [_table("a")]),
        lambda: queue.cache.swap(dead),
        lambda: queue.cache.abort(dead, "late"),
    ):
        with pytest.raises(RefreshLost, match=f"Refresh {dead.number} of the table cache was aborted"):
            write()
    assert queue.dump() == before
    queue.cache.swap(heir)
    assert list(queue.cache.tables()) == [cached(_table("a"))]


def test_a_swapped_refresh_is_over(queue: Queue) -> None:
    generation = _begin(queue)
    queue.cache.swap(generation)
    with pytest.raises(RefreshLost):
        queue.cache.swap(generation)


def test_old_generations_are_removed(queue: Queue) -> None:
    tables = [cached(_table(name)) for name in NAMES]
    for _ in range(6):
        _refresh(queue, tables)
    assert _rows(queue) == 2 * len(tables)
    with queue.engine.connect() as connection:
        states = connection.scalars(select(cache_generations.c.state).order_by(cache_generations.c.number)).all()
    assert states == ["retired", "current"]


def test_a_long_read_stays_on_the_generation_it_started_with(queue: Queue) -> None:
    old = [cached(_table(name)) for name in NAMES]
    _refresh(queue, old)
    reading = queue.cache.tables()
    seen = [next(reading)]
    for files in range(1, 4):
        _refresh(queue, [cached(_table(name), files=files) for name in NAMES])
    seen.extend(reading)
    assert seen == old


def test_carrying_over_has_no_cost_per_table(queue: Queue) -> None:
    written: list[str] = []
    _refresh(queue, [cached(_table(f"t{number}")) for number in range(120)])

    def count(*arguments: object) -> None:
        written.append(str(arguments[2]))

    event.listen(queue.engine, "before_cursor_execute", count)
    try:
        _refresh(queue, [cached(_table("t1"), files=2)])
        few = len(written)
        written.clear()
        _refresh(queue, [])
        assert len(written) <= few < 20
    finally:
        event.remove(queue.engine, "before_cursor_execute", count)
    assert len(_names(queue)) == 120
    assert _rows(queue) == 120
