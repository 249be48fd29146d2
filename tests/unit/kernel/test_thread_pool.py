"""Results of the thread pool come back in order, complete, and with their errors."""

from __future__ import annotations

import threading

import pytest

from icepack.kernel.thread_pool import ThreadPool

from .harness import KernelHarness, column, schema_of


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 13, 500])
def test_every_item_is_processed_once_and_in_order(threads: int, count: int) -> None:
    done: list[int] = []

    def square(item: int) -> int:
        done.append(item)
        return item * item

    with ThreadPool(threads) as pool:
        assert pool.map_batches(square, range(count)) == [item * item for item in range(count)]
        assert sorted(done) == list(range(count))
        pairs = pool.map(lambda one, other: (one, other), range(count), range(count))
        assert list(pairs) == [(item, item) for item in range(count)]
        weighted = pool.map_weighted(square, range(count), [1.0] * count, 4.0)
        assert list(weighted) == [item * item for item in range(count)]


def test_several_threads_work_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=60)
    with ThreadPool(3) as pool:
        assert len(pool.map_batches(lambda _: barrier.wait(), range(3))) == 3


def test_submitted_items_stay_within_the_maximum_weight() -> None:
    weights = [1.0, 2.0, 9.0, 1.0, 3.0, 1.0, 1.0]
    started: list[int] = []
    with ThreadPool(3) as pool:
        results = pool.map_weighted(lambda item: started.append(item) or item, range(7), weights, 4.0)
        assert next(results) == 0
        assert set(started) <= {0, 1}
        assert [next(results), next(results)] == [1, 2]
        assert sorted(started) == [0, 1, 2]
        assert list(results) == [3, 4, 5, 6]


def test_items_within_the_maximum_weight_run_concurrently() -> None:
    barrier = threading.Barrier(2, timeout=60)
    with ThreadPool(2) as pool:
        assert len(list(pool.map_weighted(lambda _: barrier.wait(), range(4), [2.0] * 4, 4.0))) == 4


def test_a_single_thread_is_the_calling_thread() -> None:
    here = threading.current_thread()
    with ThreadPool(1) as pool:
        assert pool.map_batches(lambda _: threading.current_thread(), range(3)) == [here] * 3
        assert list(pool.map(lambda _: threading.current_thread(), range(3))) == [here] * 3
        assert list(pool.map_weighted(lambda _: threading.current_thread(), range(3), [9.0] * 3, 1.0)) == [here] * 3


@pytest.mark.parametrize("threads", [1, 3])
def test_errors_are_raised(threads: int) -> None:
    with ThreadPool(threads) as pool, pytest.raises(ZeroDivisionError):
        pool.map_batches(lambda item: 1 // (item - 7), range(20))
    with ThreadPool(threads) as pool, pytest.raises(ZeroDivisionError):
        list(pool.map_weighted(lambda item: 1 // (item - 7), range(20), [1.0] * 20, 3.0))


def test_threads_share_a_file_of_many_row_groups(harness: KernelHarness) -> None:
    """With one PyArrow reader for all threads the process crashed, or bytes were not found."""
    schema = schema_of(column(1, "id", "long"), column(2, "word", "string"), column(3, "part", "double"))
    ids = list(range(4_000))
    rows = {"id": ids, "word": [str(number % 50) for number in ids], "part": [number / 3 for number in ids]}
    file = harness.write(schema, rows, row_group_size=20)
    for _ in range(5):
        _, table = harness.run(schema, [file], threads=4)
        assert table is not None
        assert table.to_pydict() == rows
