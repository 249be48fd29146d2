"""Collects bounds that a Parquet footer lacks or states otherwise than Iceberg: of long values, and of zeros.

A footer leaves out values over 4 KB, and states every zero that is a minimum as -0.0 and every zero that is a maximum
as 0.0. For columns with such a chunk the bounds are built here: from the footers where those are exact, and from the
values where they are not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icepack.kernel.arrow_schema import count_leaves, get_child_fields, get_field_id
from icepack.kernel.parquet.metadata import ColumnChunk, find_min_max, get_column_metadata, get_statistics

# Lower and upper bound.
BoundPair = tuple[Any, Any]


@dataclass(slots=True)
class BoundsCollector:
    """Collects the bounds of one output's columns, row group by row group."""

    _floats: dict[int, list[BoundPair]] = field(default_factory=dict)
    _bytes: dict[int, list[BoundPair]] = field(default_factory=dict)
    _formats: dict[int, str] = field(default_factory=dict)
    _needed: set[int] = field(default_factory=set)

    def add_column(self, column_field: pa.Field, column: Any, chunks: Sequence[ColumnChunk]) -> None:
        """Adds a column of one row group and the column chunks of its leaves."""
        for leaf, values, chunk in iter_bounded_leaves(column_field, column, list(chunks)):
            if pa.types.is_floating(leaf.type):
                self._add_floats(get_field_id(leaf), leaf.type, values, chunk)
            else:
                self._add_bytes(get_field_id(leaf), values, chunk)

    def build(self, max_length: int | None) -> dict[int, tuple[bytes, bytes]]:
        """Returns the bounds by field id in Iceberg's binary single-value serialization.

        Strings and bytes are cut to one unit more than the metrics keep.
        """
        bounds = {}
        for field_id in sorted(self._needed & (self._floats.keys() | self._bytes.keys())):
            if field_id in self._floats:
                pairs, format_ = self._floats[field_id], self._formats[field_id]
                lower, upper = _find_lower(pairs, key=_order_zeros), _find_upper(pairs, key=_order_zeros)
                bounds[field_id] = (struct.pack(format_, lower), struct.pack(format_, upper))
            else:
                lower, upper = _find_lower(self._bytes[field_id]), _find_upper(self._bytes[field_id])
                # A character takes at most four bytes, of which truncation may drop three.
                end = None if max_length is None else 4 * (max_length + 1) + 3
                bounds[field_id] = (_truncate(lower, end), _truncate(upper, end))
        return bounds

    def _add_floats(self, field_id: int, data_type: pa.DataType, values: Any, chunk: ColumnChunk) -> None:
        format_ = self._formats.setdefault(field_id, "<f" if data_type.bit_width == 32 else "<d")
        min_max = read_min_max(chunk)
        if min_max is None:
            # All values are NaN or null: the footer has no bounds, and Iceberg would then drop those of other chunks.
            self._needed.add(field_id)
            return
        lower, upper = (struct.unpack(format_, raw)[0] for raw in min_max)
        if 0.0 in (lower, upper):
            self._needed.add(field_id)
            has_negative, has_positive = _find_zeros(values)
            lower = (-0.0 if has_negative else 0.0) if lower == 0 else lower
            upper = (0.0 if has_positive else -0.0) if upper == 0 else upper
        self._floats.setdefault(field_id, []).append((lower, upper))

    def _add_bytes(self, field_id: int, values: Any, chunk: ColumnChunk) -> None:
        min_max = read_min_max(chunk)
        if min_max is None and values.null_count < len(values):
            self._needed.add(field_id)
            min_max = _compute_min_max(values)
        if min_max is not None:
            self._bytes.setdefault(field_id, []).append(min_max)


def iter_bounded_leaves(
    column_field: pa.Field, column: Any, chunks: list[ColumnChunk]
) -> Iterator[tuple[pa.Field, Any, ColumnChunk]]:
    """Yields the leaves whose bounds may differ: floats, strings and bytes that are not inside lists or maps."""
    data_type = column_field.type
    if pa.types.is_struct(data_type):
        first = 0
        for position, child in enumerate(get_child_fields(data_type)):
            size = count_leaves(child.type)
            yield from iter_bounded_leaves(child, pc.struct_field(column, position), chunks[first : first + size])
            first += size
    elif pa.types.is_floating(data_type) or pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        yield column_field, column, chunks[0]


def read_min_max(chunk: ColumnChunk) -> tuple[bytes, bytes] | None:
    """Returns the smallest and the largest value that the chunk's statistics state."""
    return find_min_max(get_statistics(get_column_metadata(chunk)))


def _find_zeros(values: Any) -> tuple[bool, bool]:
    """Returns whether there is a negative zero, and whether there is a positive one."""
    zeros = values.filter(pc.equal(values, 0)).to_numpy()
    is_negative = np.signbit(zeros)
    return bool(is_negative.any()), bool((~is_negative).any())


def _compute_min_max(values: Any) -> tuple[bytes, bytes]:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    min_max = pc.min_max(values.cast(pa.binary()))
    return min_max["min"].as_py(), min_max["max"].as_py()


def _order_zeros(value: float) -> tuple[float, bool]:
    """Sort key that orders -0.0 before 0.0."""
    return value, not np.signbit(value)


def _find_lower(pairs: Sequence[BoundPair], key: Any = None) -> Any:
    return min((lower for lower, _ in pairs), key=key)


def _find_upper(pairs: Sequence[BoundPair], key: Any = None) -> Any:
    return max((upper for _, upper in pairs), key=key)


def _truncate(value: bytes, end: int | None) -> bytes:
    """Cuts a value, but not within a UTF-8 character; bytes that are not text may be cut anywhere."""
    if end is None or len(value) <= end:
        return value
    boundaries = [position for position in range(end, end - 4, -1) if value[position] & 0xC0 != 0x80]
    return value[: boundaries[0] if boundaries else end]
