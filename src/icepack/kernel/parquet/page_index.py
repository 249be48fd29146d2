"""Page indexes of column chunks: the offset index locates the pages, the column index has their bounds.

All functions take whole indexes, so that no call and no object is needed per page. Field ids are those of
parquet.thrift.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, NewType

from icepack.kernel.parquet.metadata import (
    CHUNK_COLUMN_INDEX_LENGTH,
    CHUNK_COLUMN_INDEX_OFFSET,
    CHUNK_OFFSET_INDEX_LENGTH,
    CHUNK_OFFSET_INDEX_OFFSET,
    ColumnChunk,
    FileMetaData,
    get_column_chunks,
    get_row_groups,
)
from icepack.kernel.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    CompactReader,
    ThriftStruct,
    write_struct,
)

OffsetIndex = NewType("OffsetIndex", ThriftStruct)
ColumnIndex = NewType("ColumnIndex", ThriftStruct)
# Offset and length.
ByteRange = tuple[int, int]

UNORDERED, ASCENDING, DESCENDING = 0, 1, 2

_PAGE_LOCATIONS = 1
_PAGE_OFFSET, _PAGE_BYTES, _PAGE_FIRST_ROW = 1, 2, 3
_NULL_PAGES, _MIN_VALUES, _MAX_VALUES, _BOUNDARY_ORDER, _NULL_COUNTS, _DEFINITION_LEVELS = 1, 2, 3, 4, 5, 7


class PageIndex(NamedTuple):
    """The page index of one chunk; both parts are empty if the chunk has none."""

    # As it is stored. Most column indexes are copied without being read.
    column_index: bytes
    offset_index: OffsetIndex


NO_PAGE_INDEX = PageIndex(b"", OffsetIndex({}))


def has_offset_index(chunk: ColumnChunk) -> bool:
    return CHUNK_OFFSET_INDEX_OFFSET in chunk


def has_column_index(chunk: ColumnChunk) -> bool:
    return CHUNK_COLUMN_INDEX_OFFSET in chunk


def read_page_index(data: Any, chunk: ColumnChunk, data_offset: int = 0) -> PageIndex:
    """Reads the page index of a chunk from bytes that start at `data_offset` of the file."""
    if CHUNK_OFFSET_INDEX_OFFSET not in chunk:
        return NO_PAGE_INDEX
    offset_index = OffsetIndex(CompactReader(data, chunk[CHUNK_OFFSET_INDEX_OFFSET][1] - data_offset).read_struct())
    if CHUNK_COLUMN_INDEX_OFFSET not in chunk:
        return PageIndex(b"", offset_index)
    start = chunk[CHUNK_COLUMN_INDEX_OFFSET][1] - data_offset
    return PageIndex(bytes(data[start : start + chunk[CHUNK_COLUMN_INDEX_LENGTH][1]]), offset_index)


def find_page_index_range(file: FileMetaData) -> ByteRange:
    """Returns where the page indexes of all chunks are; they are stored together before the footer."""
    fields = (
        (CHUNK_COLUMN_INDEX_OFFSET, CHUNK_COLUMN_INDEX_LENGTH),
        (CHUNK_OFFSET_INDEX_OFFSET, CHUNK_OFFSET_INDEX_LENGTH),
    )
    ranges = [
        (chunk[offset][1], chunk[offset][1] + chunk[length][1])
        for row_group in get_row_groups(file)
        for chunk in get_column_chunks(row_group)
        for offset, length in fields
        if offset in chunk
    ]
    start = min(start for start, _ in ranges)
    return start, max(stop for _, stop in ranges) - start


def set_column_index_range(chunk: ColumnChunk, offset: int, length: int) -> None:
    chunk[CHUNK_COLUMN_INDEX_OFFSET] = (I64, offset)
    chunk[CHUNK_COLUMN_INDEX_LENGTH] = (I32, length)


def set_offset_index_range(chunk: ColumnChunk, offset: int, length: int) -> None:
    chunk[CHUNK_OFFSET_INDEX_OFFSET] = (I64, offset)
    chunk[CHUNK_OFFSET_INDEX_LENGTH] = (I32, length)


def count_pages(offset_index: OffsetIndex) -> int:
    return len(offset_index[_PAGE_LOCATIONS][1][1])


def get_first_page_offset(offset_index: OffsetIndex) -> int:
    offset: int = offset_index[_PAGE_LOCATIONS][1][1][0][_PAGE_OFFSET][1]
    return offset


def list_page_ranges(offset_index: OffsetIndex) -> list[ByteRange]:
    """Returns where the data pages are."""
    return [(page[_PAGE_OFFSET][1], page[_PAGE_BYTES][1]) for page in offset_index[_PAGE_LOCATIONS][1][1]]


def list_first_rows(offset_index: OffsetIndex) -> list[int]:
    """Returns the first row of each page, counted from the start of the row group."""
    return [page[_PAGE_FIRST_ROW][1] for page in offset_index[_PAGE_LOCATIONS][1][1]]


def shift_offset_index(offset_index: OffsetIndex, shift: int) -> OffsetIndex:
    """Returns the index for pages that are `shift` bytes later."""
    if not offset_index:
        return OffsetIndex({})
    kind, pages = offset_index[_PAGE_LOCATIONS][1]
    pages = [{**page, _PAGE_OFFSET: (I64, page[_PAGE_OFFSET][1] + shift)} for page in pages]
    return OffsetIndex({**offset_index, _PAGE_LOCATIONS: (LIST, (kind, pages))})


def merge_offset_indexes(
    offset_indexes: Sequence[OffsetIndex], shifts: Sequence[int], first_rows: Sequence[int]
) -> OffsetIndex:
    """Returns the index of all pages, each shifted by so many bytes and so many rows as its own index."""
    pages = [
        {
            **page,
            _PAGE_OFFSET: (I64, page[_PAGE_OFFSET][1] + shift),
            _PAGE_FIRST_ROW: (I64, page[_PAGE_FIRST_ROW][1] + first_row),
        }
        for offset_index, shift, first_row in zip(offset_indexes, shifts, first_rows, strict=True)
        for page in offset_index[_PAGE_LOCATIONS][1][1]
    ]
    return OffsetIndex({_PAGE_LOCATIONS: (LIST, (STRUCT, pages))})


def build_column_index(
    null_pages: list[bool],
    min_values: list[bytes],
    max_values: list[bytes],
    boundary_order: int,
    null_counts: list[int],
    definition_levels: list[int] | None = None,
) -> ColumnIndex:
    """Builds a column index from one entry per page; `definition_levels` has one per page and level."""
    column_index = ColumnIndex(
        {
            _NULL_PAGES: (LIST, (TRUE, null_pages)),
            _MIN_VALUES: (LIST, (BINARY, min_values)),
            _MAX_VALUES: (LIST, (BINARY, max_values)),
            _BOUNDARY_ORDER: (I32, boundary_order),
            _NULL_COUNTS: (LIST, (I64, null_counts)),
        }
    )
    if definition_levels is not None:
        column_index[_DEFINITION_LEVELS] = (LIST, (I64, definition_levels))
    return column_index


def merge_column_indexes(column_indexes: Sequence[bytes], key: Callable[[bytes], Any]) -> bytes:
    """Merges stored column indexes; empty if one of them is missing or does not count nulls.

    `key` makes stored values comparable.
    """
    parsed = [CompactReader(data).read_struct() if data else {} for data in column_indexes]
    if not all(_NULL_COUNTS in column_index for column_index in parsed):
        return b""
    null_pages, min_values, max_values, null_counts = (
        [value for column_index in parsed for value in column_index[field_id][1][1]]
        for field_id in (_NULL_PAGES, _MIN_VALUES, _MAX_VALUES, _NULL_COUNTS)
    )
    low, high = (
        [key(value) for value, is_null in zip(values, null_pages, strict=True) if not is_null]
        for values in (min_values, max_values)
    )
    order = find_boundary_order(low, high)
    return write_struct(build_column_index(null_pages, min_values, max_values, order, null_counts))


def find_boundary_order(min_values: Sequence[Any], max_values: Sequence[Any]) -> int:
    """Returns whether the pages' bounds ascend, descend or neither; pages of nulls are left out of both lists."""
    if not min_values:
        return UNORDERED
    for order, is_in_order in ((ASCENDING, operator.le), (DESCENDING, operator.ge)):
        if all(is_in_order(*pair) for values in (min_values, max_values) for pair in pairwise(values)):
            return order
    return UNORDERED
