"""First-fit-decreasing bin packing: puts files into groups that stay within a size limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_CLOSED = -1


def first_fit_decreasing(
    items: Iterable[T], limit: int, size: Callable[[T], int], tie: Callable[[T], str]
) -> list[tuple[T, ...]]:
    """Packs items into bins, in the order in which the bins are opened; an item over the limit gets its own bin.

    `tie` orders items of equal size, so that the result does not depend on the input order. A segment tree over the
    free space of the bins finds the first fit in logarithmic time.
    """
    ordered = sorted(items, key=lambda item: (-size(item), tie(item)))
    bins: list[list[T]] = []
    free = _FirstFitTree(len(ordered))
    for item in ordered:
        needed = size(item)
        slot = free.first_with(needed)
        if slot is None:
            slot = len(bins)
            bins.append([])
            free.set(slot, limit - needed if needed <= limit else _CLOSED)
        else:
            free.set(slot, free.get(slot) - needed)
        bins[slot].append(item)
    return [tuple(members) for members in bins]


class _FirstFitTree:
    """Finds the leftmost slot with enough free space; a closed slot takes nothing, not even an empty file."""

    def __init__(self, slots: int) -> None:
        self._leaves = 1
        while self._leaves < max(slots, 1):
            self._leaves *= 2
        self._tree = [_CLOSED] * (2 * self._leaves)

    def get(self, slot: int) -> int:
        return self._tree[self._leaves + slot]

    def set(self, slot: int, free: int) -> None:
        node = self._leaves + slot
        self._tree[node] = free
        while node > 1:
            node //= 2
            self._tree[node] = max(self._tree[2 * node], self._tree[2 * node + 1])

    def first_with(self, needed: int) -> int | None:
        if self._tree[1] < needed:
            return None
        node = 1
        while node < self._leaves:
            node = 2 * node if self._tree[2 * node] >= needed else 2 * node + 1
        return node - self._leaves
