"""Work shared among threads comes back in order, whole, and with its errors."""

from __future__ import annotations

import threading

import pytest

from icepack.kernel.thread_pool import Crew

from .kernels import Bench, column, schema_of


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 13, 500])
def test_everything_is_done_once_and_in_order(threads: int, count: int) -> None:
    done: list[int] = []

    def work(item: int) -> int:
        done.append(item)
        return item * item

    with Crew(threads) as crew:
        assert crew.all(work, range(count)) == [item * item for item in range(count)]
        assert sorted(done) == list(range(count))
        pairs = crew.each(lambda one, other: (one, other), range(count), range(count))
        assert list(pairs) == [(item, item) for item in range(count)]
        ahead = crew.ahead(work, range(count), [1.0] * count, 4.0)
        assert list(ahead) == [item * item for item in range(count)]


def test_several_work_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=60)
    with Crew(3) as crew:
        assert len(crew.all(lambda _: meeting.wait(), range(3))) == 3


def test_no_more_is_handed_out_than_fits() -> None:
    weights = [1.0, 2.0, 9.0, 1.0, 3.0, 1.0, 1.0]
    begun: list[int] = []
    with Crew(3) as crew:
        taken_back = crew.ahead(lambda item: begun.append(item) or item, range(7), weights, 4.0)
        assert next(taken_back) == 0
        assert set(begun) <= {0, 1}
        assert [next(taken_back), next(taken_back)] == [1, 2]
        assert sorted(begun) == [0, 1, 2]
        assert list(taken_back) == [3, 4, 5, 6]


def test_what_fits_together_is_done_together() -> None:
    meeting = threading.Barrier(2, timeout=60)
    with Crew(2) as crew:
        assert len(list(crew.ahead(lambda _: meeting.wait(), range(4), [2.0] * 4, 4.0))) == 4


def test_one_alone_works_where_it_is_asked() -> None:
    here = threading.current_thread()
    with Crew(1) as crew:
        assert crew.all(lambda _: threading.current_thread(), range(3)) == [here] * 3
        assert list(crew.each(lambda _: threading.current_thread(), range(3))) == [here] * 3
        assert list(crew.ahead(lambda _: threading.current_thread(), range(3), [9.0] * 3, 1.0)) == [here] * 3


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_comes_out(threads: int) -> None:
    with Crew(threads) as crew, pytest.raises(ZeroDivisionError):
        crew.all(lambda item: 1 // (item - 7), range(20))
    with Crew(threads) as crew, pytest.raises(ZeroDivisionError):
        list(crew.ahead(lambda item: 1 // (item - 7), range(20), [1.0] * 20, 3.0))


def test_threads_share_a_file_of_many_row_groups(bench: Bench) -> None:
    """One reader of PyArrow's for all of them ended in a crash of the process, or in bytes that were not found."""
    schema = schema_of(column(1, "id", "long"), column(2, "word", "string"), column(3, "part", "double"))
    ids = list(range(4_000))
    rows = {"id": ids, "word": [str(number % 50) for number in ids], "part": [number / 3 for number in ids]}
    file = bench.write(schema, rows, row_group_size=20)
    for _ in range(5):
        _, table = bench.run(schema, [file], threads=4)
        assert table is not None
        assert table.to_pydict() == rows
