"""Plans which rows go into which row group of the output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from icepack.kernel.input_file import RowGroupSlice
from icepack.kernel.parquet.copy_row_groups import CopiedRowGroup

# Maximum size of a row group, as a multiple of its planned size, so that it can end where an input's row group ends.
MAX_OVERSIZE = 1.1
# The same for a row group that also takes the few rows next to it.
MAX_MERGED_OVERSIZE = 1.25


@dataclass(frozen=True, slots=True)
class RowGroupSizing:
    """How many rows the output's row groups get."""

    # Rows of a row group if all are of the same size.
    even_rows: int
    max_rows: int
    # Bytes in the inputs below which rows are too few for a row group of their own.
    min_bytes: float


@dataclass(frozen=True, slots=True)
class PlannedRowGroup:
    """A row group of the output."""

    slices: list[RowGroupSlice]
    # The input's row group that it copies, if any.
    copied: CopiedRowGroup | None = None


def split_evenly(slices: Iterable[RowGroupSlice], rows: int) -> Iterator[list[RowGroupSlice]]:
    """Splits the rows into parts of `rows` each, at the end of an input's row group if that is near."""
    builder = _EvenSplit(rows)
    for row_slice in slices:
        yield from builder.add(row_slice)
    if rest := builder.take():
        yield rest


def plan_row_groups(
    slices: Iterable[RowGroupSlice],
    sizing: RowGroupSizing,
    copy_row_group: Callable[[RowGroupSlice], CopiedRowGroup | None],
) -> Iterator[PlannedRowGroup]:
    """Plans the row groups that are copied from inputs, and row groups of even size for the rows between them.

    Rows next to a copied row group that are too few for one of their own are merged with it, and all are encoded.
    """
    held: CopiedRowGroup | None = None
    builder = _EvenSplit(sizing.even_rows)
    for row_slice in slices:
        copied = copy_row_group(row_slice)
        if copied is None:
            for full in builder.add(row_slice):
                yield from _plan_copy(held)
                yield PlannedRowGroup(full)
                held = None
            continue
        before = builder.take()
        yield from _plan_copy(held)
        held = None
        if before and _sum_stored_bytes(before) < sizing.min_bytes:
            yield from _plan_merged([*before, row_slice], sizing.max_rows)
        else:
            yield from _plan_encoded(before)
            held = copied
    after = builder.take()
    if held is not None and after and _sum_stored_bytes(after) < sizing.min_bytes:
        yield from _plan_merged([held.slice, *after], sizing.max_rows)
    else:
        yield from _plan_copy(held)
        yield from _plan_encoded(after)


class _EvenSplit:
    """Fills one part after another; holds only the rows of the part that is not full yet."""

    def __init__(self, rows: int) -> None:
        self._target_rows = rows
        self._slices: list[RowGroupSlice] = []
        self._rows = 0

    def add(self, row_slice: RowGroupSlice) -> Iterator[list[RowGroupSlice]]:
        """Yields the parts that become full."""
        rest: RowGroupSlice | None = row_slice
        while rest is not None:
            head, rest = _cut(rest, self._target_rows - self._rows, self._target_rows)
            self._slices.append(head)
            self._rows += head.rows
            if self._rows >= self._target_rows:
                yield self.take()

    def take(self) -> list[RowGroupSlice]:
        slices, self._slices, self._rows = self._slices, [], 0
        return slices


def _plan_copy(copied: CopiedRowGroup | None) -> Iterator[PlannedRowGroup]:
    if copied is not None:
        yield PlannedRowGroup([copied.slice], copied)


def _plan_encoded(slices: list[RowGroupSlice]) -> Iterator[PlannedRowGroup]:
    if slices:
        yield PlannedRowGroup(slices)


def _plan_merged(slices: Sequence[RowGroupSlice], max_rows: int) -> Iterator[PlannedRowGroup]:
    rows = sum(row_slice.rows for row_slice in slices)
    parts = math.ceil(rows / (max_rows * MAX_MERGED_OVERSIZE))
    yield from map(PlannedRowGroup, split_evenly(slices, -(-rows // parts)))


def _sum_stored_bytes(slices: Iterable[RowGroupSlice]) -> float:
    return sum(row_slice.stored_bytes for row_slice in slices)


def _cut(row_slice: RowGroupSlice, room: int, target_rows: int) -> tuple[RowGroupSlice, RowGroupSlice | None]:
    if row_slice.rows <= room + target_rows * (MAX_OVERSIZE - 1):
        return row_slice, None
    middle = row_slice.start + room
    return (
        RowGroupSlice(row_slice.source, row_slice.row_group, row_slice.start, middle),
        RowGroupSlice(row_slice.source, row_slice.row_group, middle, row_slice.stop),
    )
