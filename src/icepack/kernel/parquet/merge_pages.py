"""Columns of many small row groups whose pages are joined, as they are, to the column chunks of a large one.

Pages without a dictionary mean the same wherever they stand. Where each of them is as large as the table wants its
pages, to decode and encode them again would make the very same pages; what is put together is only what the footers and
the page indexes tell of them. Ids, moments and amounts are such columns in what Spark and most other engines write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from struct import pack, unpack
from typing import Any

import pyarrow as pa

from icepack.kernel.arrow_schema import number_of
from icepack.kernel.live_rows import Selection
from icepack.kernel.parquet.chunk_writer import (
    CHUNK_META,
    COMPRESSED,
    DATA_PAGE,
    DICTIONARY_PAGE,
    ENCODINGS,
    MAGIC,
    PAGE_FIRST_ROW,
    PAGE_LOCATIONS,
    PAGE_OFFSET,
    STATISTICS,
    UNCOMPRESSED,
    VALUES,
    chunk_start,
)
from icepack.kernel.parquet.copy_chunks import Copied, Form, StoredFile
from icepack.kernel.parquet.encoding import dictionary_leaves
from icepack.kernel.parquet.statistics import (
    IS_MAX_EXACT,
    IS_MIN_EXACT,
    MAX,
    MAXIMA,
    MIN,
    MINIMA,
    NULL_PAGES,
    NULLS,
    ORDER,
    PAGE_NULLS,
    order_of,
)
from icepack.kernel.parquet.thrift import BINARY, I32, I64, LIST, STRUCT, TRUE, Reader, Struct, write_struct
from icepack.kernel.task import Task, Writing

LEAST_PAGE = 0.5
"""Of what the table wants in a page, on average: smaller ones are put together by encoding them anew."""

# Numbers of fields in parquet.thrift.
_ENCODING_STATS, _SIZES = 13, 16
_OLD_MAX, _OLD_MIN = 1, 2
"""Where older readers look, for types of which they know the order."""
_PLAIN_ENCODINGS = frozenset({0, 3, 4})
"""Of values, and of levels."""

Key = Callable[[bytes], Any]
"""Makes values, as they are stored, comparable."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The chunks of one column, out of those of several inputs."""

    chunks: list[Struct]
    indexes: list[tuple[bytes, Struct]]
    parts: Sequence[Copied]
    is_indexed: bool
    """Whether of all chunks it is told what lies in which page, as far as anybody asks."""

    @property
    def copied_bytes(self) -> int:
        return sum(part.copied_bytes for part in self.parts)

    def buffers(self) -> Iterator[bytes]:
        for number in range(len(self.chunks)):
            for part in self.parts:
                yield from part.pages(number)


class Joiner:
    """Finds the columns whose pages can be joined."""

    def __init__(self, task: Task, schema: pa.Schema, form: Form) -> None:
        self._task = task
        self._schema = schema
        self._form = form

    def columns(self, selections: Sequence[Selection]) -> dict[int, Joined]:
        """By field id, of the rows of one row group of the output."""
        if not (self._task.writing.as_found and all(selection.is_whole for selection in selections)):
            return {}
        if not _may_fill_pages(selections, self._task.writing):
            return {}
        fields = self._candidates(max(selections, key=lambda selection: selection.rows))
        if not fields:
            return {}
        files = self._files(selections)
        found = {number_of(field): self._joined(field, selections, files) for field in fields}
        return {number: joined for number, joined in found.items() if joined is not None}

    def _files(self, selections: Sequence[Selection]) -> list[StoredFile]:
        """Of each its own; row groups of one file come one after another, and its footer is read once for them."""
        found: list[StoredFile] = []
        for selection in selections:
            source = selection.piece.source
            found.append(found[-1] if found and found[-1].source is source else StoredFile(source, self._task))
        return found

    def _candidates(self, selection: Selection) -> list[pa.Field]:
        """The columns that lie there without a dictionary, and would not get one in the output either."""
        file, group = StoredFile(selection.piece.source, self._task), selection.piece.group
        fields = [field for field in self._schema if _is_plain(self._form.found(file, group, field))]
        columns = selection.read(fields) if fields else []
        rows = self._task.writing.page_rows
        return [
            field for field, column in zip(fields, columns, strict=True) if not dictionary_leaves(field, column, rows)
        ]

    def _joined(self, field: pa.Field, selections: Sequence[Selection], files: Sequence[StoredFile]) -> Joined | None:
        parts: list[Copied] = []
        for selection, file in zip(selections, files, strict=True):
            part = self._form.found(file, selection.piece.group, field)
            if part is None or not _is_plain(part):
                return None
            parts.append(part)
        if not _fill_pages(parts, sum(selection.rows for selection in selections), self._task.writing):
            return None
        joined = join(parts, [selection.rows for selection in selections], self._form.columns(field))
        return joined if joined.is_indexed else None


def join(parts: Sequence[Copied], rows: Sequence[int], columns: Sequence[Any]) -> Joined:
    """`rows` of each part; `columns` as Parquet's schema has them."""
    first_rows = list(accumulate(rows, initial=0))[:-1]
    end = len(MAGIC)
    chunks, indexes = [], []
    for number, column in enumerate(columns):
        metas = [part.chunks[number][CHUNK_META][1] for part in parts]
        found = [part.indexes[number] for part in parts]
        starts = list(accumulate((meta[COMPRESSED][1] for meta in metas), initial=end))
        shifts = [start - chunk_start(meta) for start, meta in zip(starts, metas, strict=False)]
        key = _key(column)
        chunks.append({CHUNK_META: (STRUCT, _meta(metas, end, key))})
        offsets = _offset_index([index for _, index in found], shifts, first_rows)
        indexes.append((_column_index([index for index, _ in found], key), offsets))
        end = starts[-1]
    is_indexed = all(index or column.max_repetition_level for (index, _), column in zip(indexes, columns, strict=True))
    return Joined(chunks, indexes, parts, is_indexed)


def _may_fill_pages(selections: Sequence[Selection], writing: Writing) -> bool:
    """Without a look at any footer: files that hold less than a page have no page to offer."""
    count = len(selections)
    rows = sum(selection.rows for selection in selections)
    size = sum(selection.piece.stored_bytes for selection in selections)
    return count > 1 and _is_enough(rows, size, count, writing)


def _fill_pages(parts: Sequence[Copied], rows: int, writing: Writing) -> bool:
    for number in range(len(parts[0].chunks)):
        pages = sum(len(part.indexes[number][1][PAGE_LOCATIONS][1][1]) for part in parts)
        size = sum(part.chunks[number][CHUNK_META][1][UNCOMPRESSED][1] for part in parts)
        if not _is_enough(rows, size, pages, writing):
            return False
    return True


def _is_enough(rows: int, size: float, pages: int, writing: Writing) -> bool:
    """A page is full by its rows or by its bytes."""
    return rows >= pages * writing.page_rows * LEAST_PAGE or size >= pages * writing.page_bytes * LEAST_PAGE


def _is_plain(part: Copied | None) -> bool:
    """Whether all that lies there are pages of plain values."""
    return part is not None and all(map(_has_only_plain_pages, part.chunks, part.indexes))


def _has_only_plain_pages(chunk: Struct, index: tuple[bytes, Struct]) -> bool:
    meta = chunk[CHUNK_META][1]
    first_page = index[1][PAGE_LOCATIONS][1][1][0][PAGE_OFFSET][1]
    return (
        set(meta[ENCODINGS][1][1]) <= _PLAIN_ENCODINGS
        and meta.get(DICTIONARY_PAGE, (I64, 0))[1] <= 0
        and first_page == chunk_start(meta)
    )


def _meta(metas: Sequence[Struct], start: int, key: Key) -> Struct:
    """What is told of a chunk, as of the first and summed up over all."""
    left_out = {DICTIONARY_PAGE, _ENCODING_STATS, _SIZES}
    encodings = sorted({encoding for meta in metas for encoding in meta[ENCODINGS][1][1]})
    return {
        **{number: value for number, value in metas[0].items() if number not in left_out},
        **{number: (I64, sum(meta[number][1] for meta in metas)) for number in (VALUES, UNCOMPRESSED, COMPRESSED)},
        ENCODINGS: (LIST, (I32, encodings)),
        DATA_PAGE: (I64, start),
        STATISTICS: (STRUCT, _statistics(metas, key)),
    }


def _statistics(metas: Sequence[Struct], key: Key) -> Struct:
    """The smallest and the largest only where every part tells them: in lists and maps some do not."""
    told = [meta[STATISTICS][1] for meta in metas]
    nulls: Struct = {NULLS: (I64, sum(statistics[NULLS][1] for statistics in told))}
    filled = [
        statistics for statistics, meta in zip(told, metas, strict=True) if statistics[NULLS][1] < meta[VALUES][1]
    ]
    if not filled or not all(MIN in statistics and MAX in statistics for statistics in filled):
        return nulls
    high = (BINARY, _zero(max((statistics[MAX][1] for statistics in filled), key=key), key, 0.0))
    low = (BINARY, _zero(min((statistics[MIN][1] for statistics in filled), key=key), key, -0.0))
    is_told_twice = all(_OLD_MAX in statistics and _OLD_MIN in statistics for statistics in filled)
    old: Struct = {_OLD_MAX: high, _OLD_MIN: low} if is_told_twice else {}
    return {**nulls, **old, MAX: high, MIN: low, IS_MAX_EXACT: (TRUE, True), IS_MIN_EXACT: (TRUE, True)}


def _zero(raw: bytes, key: Key, zero: float) -> bytes:
    """The format wants every zero of a float that is a minimum as -0.0, and every one that is a maximum as 0.0."""
    value = key(raw)
    return pack(_FLOATS[len(raw)], zero) if isinstance(value, float) and value == 0 else raw


def _offset_index(indexes: Sequence[Struct], shifts: Sequence[int], first_rows: Sequence[int]) -> Struct:
    pages = [
        {
            **page,
            PAGE_OFFSET: (I64, page[PAGE_OFFSET][1] + shift),
            PAGE_FIRST_ROW: (I64, page[PAGE_FIRST_ROW][1] + first_row),
        }
        for index, shift, first_row in zip(indexes, shifts, first_rows, strict=True)
        for page in index[PAGE_LOCATIONS][1][1]
    ]
    return {PAGE_LOCATIONS: (LIST, (STRUCT, pages))}


def _column_index(raws: Sequence[bytes], key: Key) -> bytes:
    """None where one of the parts has none, or does not count nulls."""
    indexes = [Reader(raw).struct() if raw else {} for raw in raws]
    if not all(PAGE_NULLS in index for index in indexes):
        return b""
    joined = {
        number: [value for index in indexes for value in index[number][1][1]]
        for number in (NULL_PAGES, MINIMA, MAXIMA, PAGE_NULLS)
    }
    filled = [not is_null for is_null in joined[NULL_PAGES]]
    low, high = (
        [key(raw) for raw, is_filled in zip(joined[ends], filled, strict=True) if is_filled]
        for ends in (MINIMA, MAXIMA)
    )
    kinds = {NULL_PAGES: TRUE, MINIMA: BINARY, MAXIMA: BINARY, PAGE_NULLS: I64}
    lists: Struct = {number: (LIST, (kinds[number], values)) for number, values in joined.items()}
    return write_struct({**lists, ORDER: (I32, order_of(low, high))})


_FLOATS = {4: "<f", 8: "<d"}


def _key(column: Any) -> Key:
    """By the order that the format defines for a column's type."""
    match column.physical_type:
        case "INT32" | "INT64":
            return lambda raw: int.from_bytes(raw, "little", signed=True)
        case "FLOAT" | "DOUBLE":
            return lambda raw: unpack(_FLOATS[len(raw)], raw)[0]
        case "FIXED_LEN_BYTE_ARRAY" if column.logical_type.type == "DECIMAL":
            return lambda raw: int.from_bytes(raw, "big", signed=True)
    return bytes
