"""Which rows go into which row group of the output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from icepack.kernel.input_file import Piece
from icepack.kernel.parquet.copy_row_groups import Original

STRETCH = 1.1
"""How far a row group may outgrow its share to end where an input's does."""
JOINED_STRETCH = 1.25
"""The same for one that takes up the few rows beside it."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How many rows a row group gets."""

    even: int
    """Where all are of the same size."""
    most: int
    least_bytes: float
    """Of the inputs: what takes less is too small for one."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Of the output."""

    pieces: list[Piece]
    original: Original | None = None
    """The one of an input that it is, where that is copied."""


def in_shares(pieces: Iterable[Piece], share: int) -> Iterator[list[Piece]]:
    """So many rows each, cut where an input's row group ends if that is near."""
    filling = _Filling(share)
    for piece in pieces:
        yield from filling.add(piece)
    if rest := filling.take():
        yield rest


def row_groups(
    pieces: Iterable[Piece], shares: Shares, original_of: Callable[[Piece], Original | None]
) -> Iterator[RowGroup]:
    """Those of the inputs that have an original, and the others in even shares between them.

    What is left beside an original and is too small for a row group goes together with it, and is encoded.
    """
    held: Original | None = None
    filling = _Filling(shares.even)
    for piece in pieces:
        original = original_of(piece)
        if original is None:
            for full in filling.add(piece):
                yield from _copy(held)
                yield RowGroup(full)
                held = None
            continue
        before = filling.take()
        yield from _copy(held)
        held = None
        if before and _stored(before) < shares.least_bytes:
            yield from _joined([*before, piece], shares.most)
        else:
            yield from _some(before)
            held = original
    after = filling.take()
    if held is not None and after and _stored(after) < shares.least_bytes:
        yield from _joined([held.piece, *after], shares.most)
    else:
        yield from _copy(held)
        yield from _some(after)


class _Filling:
    """One share after another; holds no more than what the next one lacks."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._taken: list[Piece] = []
        self._rows = 0

    def add(self, piece: Piece) -> Iterator[list[Piece]]:
        """The shares that are full now."""
        rest: Piece | None = piece
        while rest is not None:
            head, rest = _cut(rest, self._share - self._rows, self._share)
            self._taken.append(head)
            self._rows += head.rows
            if self._rows >= self._share:
                yield self.take()

    def take(self) -> list[Piece]:
        taken, self._taken, self._rows = self._taken, [], 0
        return taken


def _copy(original: Original | None) -> Iterator[RowGroup]:
    if original is not None:
        yield RowGroup([original.piece], original)


def _some(pieces: list[Piece]) -> Iterator[RowGroup]:
    if pieces:
        yield RowGroup(pieces)


def _joined(pieces: Sequence[Piece], most: int) -> Iterator[RowGroup]:
    rows = sum(piece.rows for piece in pieces)
    parts = math.ceil(rows / (most * JOINED_STRETCH))
    yield from map(RowGroup, in_shares(pieces, -(-rows // parts)))


def _stored(pieces: Iterable[Piece]) -> float:
    return sum(piece.stored_bytes for piece in pieces)


def _cut(piece: Piece, room: int, share: int) -> tuple[Piece, Piece | None]:
    if piece.rows <= room + share * (STRETCH - 1):
        return piece, None
    middle = piece.start + room
    return (
        Piece(piece.source, piece.group, piece.start, middle),
        Piece(piece.source, piece.group, middle, piece.stop),
    )
