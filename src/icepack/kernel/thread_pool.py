"""The threads of a task. One alone needs no other: the work is done where it is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

SHARES = 4
"""Of a long list, for each thread, so that none waits long for the last one."""


class Crew:
    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, work: Callable[..., R], *lists: Sequence[Any]) -> Iterator[R]:
        """For a few large things: each is handed out by itself, and comes back in order as soon as it is done."""
        return iter(map(work, *lists) if self._pool is None else self._pool.map(work, *lists))

    def all(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """For many small things, which are handed out by the dozen: to hand one over takes as long as to read it.

        Measured on 2,500 files of 100 KB: a tenth of the CPU.
        """
        if self._pool is None or len(items) < 2:
            return [work(item) for item in items]
        size = -(-len(items) // (self._threads * SHARES))
        shares = [items[start : start + size] for start in range(0, len(items), size)]
        done = self._pool.map(lambda share: [work(item) for item in share], shares)
        return [result for share in done for result in share]

    def ahead(self, work: Callable[[T], R], items: Sequence[T], weights: Sequence[float], limit: float) -> Iterator[R]:
        """Like `each`, with no more than `limit` handed out and not yet taken back; what is heavier is out alone."""
        if self._pool is None:
            yield from map(work, items)
            return
        out: deque[tuple[float, Future[R]]] = deque()
        for item, weight in zip(items, weights, strict=True):
            while out and sum(other for other, _ in out) + weight > limit:
                yield out.popleft()[1].result()
            out.append((weight, self._pool.submit(work, item)))
        while out:
            yield out.popleft()[1].result()
