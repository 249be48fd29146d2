"""Work shared among threads comes back in order, whole, and with its errors."""

from __future__ import annotations

import threading

import pytest

from icepack.kernel.crew import Crew


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


def test_several_work_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=60)
    with Crew(3) as crew:
        assert len(crew.all(lambda _: meeting.wait(), range(3))) == 3


def test_one_alone_works_where_it_is_asked() -> None:
    here = threading.current_thread()
    with Crew(1) as crew:
        assert crew.all(lambda _: threading.current_thread(), range(3)) == [here] * 3
        assert list(crew.each(lambda _: threading.current_thread(), range(3))) == [here] * 3


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_comes_out(threads: int) -> None:
    with Crew(threads) as crew, pytest.raises(ZeroDivisionError):
        crew.all(lambda item: 1 // (item - 7), range(20))
