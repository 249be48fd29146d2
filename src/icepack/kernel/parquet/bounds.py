"""Bounds that a Parquet footer does not tell, or tells otherwise than Iceberg: of long values, and of zeros.

A footer leaves out values over 4 KB, and states every zero that is a minimum as -0.0 and every one that is a
maximum as 0.0. Where a column has such a chunk, its bounds are put together here: from the footers where those
are exact, and from the values where they are not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icepack.kernel.arrow_schema import leaves, number_of
from icepack.kernel.parquet.chunk_writer import CHUNK_META, STATISTICS
from icepack.kernel.parquet.statistics import MAX, MIN
from icepack.kernel.parquet.thrift import Struct

Pair = tuple[Any, Any]
"""Lower and upper."""


@dataclass(slots=True)
class Bounds:
    """Of the columns of one output, row group after row group."""

    _floats: dict[int, list[Pair]] = field(default_factory=dict)
    _bytes: dict[int, list[Pair]] = field(default_factory=dict)
    _widths: dict[int, str] = field(default_factory=dict)
    _needed: set[int] = field(default_factory=set)

    def see(self, column_field: pa.Field, column: Any, chunks: Sequence[Struct]) -> None:
        """A column of one row group, and what the footer says of its leaves."""
        for leaf, values, chunk in bounded_leaves(column_field, column, list(chunks)):
            if pa.types.is_floating(leaf.type):
                self._see_floats(number_of(leaf), leaf.type, values, chunk)
            else:
                self._see_bytes(number_of(leaf), values, chunk)

    def told(self, longest: int | None) -> dict[int, tuple[bytes, bytes]]:
        """As Iceberg writes single values; texts and bytes cut to one unit more than anyone keeps."""
        found = {}
        for number in sorted(self._needed & (self._floats.keys() | self._bytes.keys())):
            if number in self._floats:
                form = self._widths[number]
                lower, upper = (pick(self._floats[number], key=_total) for pick in (_lowest, _highest))
                found[number] = (struct.pack(form, lower), struct.pack(form, upper))
            else:
                lower, upper = _lowest(self._bytes[number]), _highest(self._bytes[number])
                # A character takes four bytes at most, of which the cut may cost three.
                end = None if longest is None else 4 * (longest + 1) + 3
                found[number] = (_cut(lower, end), _cut(upper, end))
        return found

    def _see_floats(self, number: int, kind: pa.DataType, values: Any, chunk: Struct) -> None:
        form = self._widths.setdefault(number, "<f" if kind.bit_width == 32 else "<d")
        pair = said(chunk)
        if pair is None:
            # Nothing but NaN and null: the footer leaves it out, and Iceberg would then give up the other chunks'.
            self._needed.add(number)
            return
        lower, upper = (struct.unpack(form, raw)[0] for raw in pair)
        if 0.0 in (lower, upper):
            self._needed.add(number)
            negative, positive = _zeros(values)
            lower = (-0.0 if negative else 0.0) if lower == 0 else lower
            upper = (0.0 if positive else -0.0) if upper == 0 else upper
        self._floats.setdefault(number, []).append((lower, upper))

    def _see_bytes(self, number: int, values: Any, chunk: Struct) -> None:
        pair = said(chunk)
        if pair is None and values.null_count < len(values):
            self._needed.add(number)
            pair = _extremes(values)
        if pair is not None:
            self._bytes.setdefault(number, []).append(pair)


def bounded_leaves(column_field: pa.Field, column: Any, chunks: list[Struct]) -> Iterator[tuple[pa.Field, Any, Struct]]:
    """Those with bounds that may differ: numbers with a point, texts and bytes, and not inside lists or maps."""
    kind = column_field.type
    if pa.types.is_struct(kind):
        first = 0
        for position in range(kind.num_fields):
            child = kind.field(position)
            size = leaves(child.type)
            yield from bounded_leaves(child, pc.struct_field(column, position), chunks[first : first + size])
            first += size
    elif pa.types.is_floating(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield column_field, column, chunks[0]


def said(chunk: Struct) -> tuple[bytes, bytes] | None:
    """The smallest and the largest value by the chunk's own word."""
    statistics = chunk[CHUNK_META][1].get(STATISTICS)
    if statistics is None or MIN not in statistics[1]:
        return None
    return statistics[1][MIN][1], statistics[1][MAX][1]


def _zeros(values: Any) -> tuple[bool, bool]:
    """Whether there is a negative one, and whether there is a positive one."""
    found = values.filter(pc.equal(values, 0)).to_numpy()
    negative = np.signbit(found)
    return bool(negative.any()), bool((~negative).any())


def _extremes(values: Any) -> tuple[bytes, bytes]:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    found = pc.min_max(values.cast(pa.binary()))
    return found["min"].as_py(), found["max"].as_py()


def _total(value: float) -> tuple[float, bool]:
    return value, not np.signbit(value)


def _lowest(pairs: Sequence[Pair], key: Any = None) -> Any:
    return min((lower for lower, _ in pairs), key=key)


def _highest(pairs: Sequence[Pair], key: Any = None) -> Any:
    return max((upper for _, upper in pairs), key=key)


def _cut(value: bytes, end: int | None) -> bytes:
    """Never in the middle of a character; bytes that are no text may be cut anywhere."""
    if end is None or len(value) <= end:
        return value
    begins = [place for place in range(end, end - 4, -1) if value[place] & 0xC0 != 0x80]
    return value[: begins[0] if begins else end]
