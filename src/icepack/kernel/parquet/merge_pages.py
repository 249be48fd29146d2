"""Merges the pages of many small row groups, as they are, into the column chunks of a large one.

Pages without a dictionary mean the same wherever they are stored. If they are as large as the table's page size,
decoding and encoding them again would produce the very same pages; only their metadata in the footers and page indexes
needs to be merged. Ids, timestamps and amounts are such columns in files of Spark and most other engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from struct import pack, unpack
from typing import Any

import pyarrow as pa

from icepack.kernel.arrow_schema import get_field_id
from icepack.kernel.live_rows import RowSelection
from icepack.kernel.parquet.copy_chunks import ChunkCopier, CopiedChunks, InputMetadata
from icepack.kernel.parquet.encoding import choose_dictionary_leaves
from icepack.kernel.parquet.metadata import (
    CHUNK_METADATA,
    MAGIC,
    ColumnChunk,
    ColumnMetaData,
    Statistics,
    build_statistics,
    find_chunk_start,
    find_min_max,
    get_column_metadata,
    get_compressed_bytes,
    get_encodings,
    get_null_count,
    get_num_values,
    get_statistics,
    get_uncompressed_bytes,
    has_dictionary_page,
    have_deprecated_bounds,
    merge_column_metadata,
)
from icepack.kernel.parquet.page_index import (
    PageIndex,
    count_pages,
    get_first_page_offset,
    merge_column_indexes,
    merge_offset_indexes,
)
from icepack.kernel.parquet.thrift import STRUCT
from icepack.kernel.task import Task, WriteProperties

# Minimum average page size, as a fraction of the table's page size. Smaller pages are merged by encoding them again.
MIN_PAGE_FRACTION = 0.5

# The plain encoding of values, and the encodings of levels.
_PLAIN_ENCODINGS = frozenset({0, 3, 4})
_FLOAT_FORMATS = {4: "<f", 8: "<d"}

# Makes stored values comparable.
ComparisonKey = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class MergedChunks:
    """The chunks of one column, merged from those of several inputs."""

    chunks: list[ColumnChunk]
    page_indexes: list[PageIndex]
    parts: Sequence[CopiedChunks]
    # Whether all chunks that need a column index have one; chunks in lists and maps need none.
    is_indexed: bool

    @property
    def copied_bytes(self) -> int:
        return sum(part.copied_bytes for part in self.parts)

    def iter_buffers(self) -> Iterator[bytes]:
        for number in range(len(self.chunks)):
            for part in self.parts:
                yield from part.iter_pages(number)


class PageMerger:
    """Finds the columns whose pages can be merged."""

    def __init__(self, task: Task, schema: pa.Schema, chunk_copier: ChunkCopier) -> None:
        self._task = task
        self._schema = schema
        self._chunk_copier = chunk_copier

    def merge_columns(self, selections: Sequence[RowSelection]) -> dict[int, MergedChunks]:
        """Returns the mergeable columns of one row group of the output, by field id."""
        properties = self._task.write_properties
        if not (properties.may_copy_chunks and all(selection.is_whole for selection in selections)):
            return {}
        if not _may_fill_pages(selections, properties):
            return {}
        fields = self._find_candidates(max(selections, key=lambda selection: selection.rows))
        if not fields:
            return {}
        files = self._read_metadata(selections)
        merged = {get_field_id(field): self._merge_column(field, selections, files) for field in fields}
        return {field_id: chunks for field_id, chunks in merged.items() if chunks is not None}

    def _read_metadata(self, selections: Sequence[RowSelection]) -> list[InputMetadata]:
        """Reads the metadata of each selection's file once: row groups of one file come one after another."""
        files: list[InputMetadata] = []
        for selection in selections:
            source = selection.slice.source
            files.append(files[-1] if files and files[-1].source is source else InputMetadata(source, self._task))
        return files

    def _find_candidates(self, selection: RowSelection) -> list[pa.Field]:
        """Returns the columns that have no dictionary in this input and would not get one in the output either."""
        file, row_group = InputMetadata(selection.slice.source, self._task), selection.slice.row_group
        copier = self._chunk_copier
        fields = [field for field in self._schema if _is_plain(copier.copy_column(file, row_group, field))]
        columns = selection.read_columns(fields) if fields else []
        page_rows = self._task.write_properties.page_rows
        return [
            field
            for field, column in zip(fields, columns, strict=True)
            if not choose_dictionary_leaves(field, column, page_rows)
        ]

    def _merge_column(
        self, field: pa.Field, selections: Sequence[RowSelection], files: Sequence[InputMetadata]
    ) -> MergedChunks | None:
        parts: list[CopiedChunks] = []
        for selection, file in zip(selections, files, strict=True):
            part = self._chunk_copier.copy_column(file, selection.slice.row_group, field)
            if part is None or not _is_plain(part):
                return None
            parts.append(part)
        rows = [selection.rows for selection in selections]
        if not _fill_pages(parts, sum(rows), self._task.write_properties):
            return None
        merged = merge_chunks(parts, rows, self._chunk_copier.get_parquet_columns(field))
        return merged if merged.is_indexed else None


def merge_chunks(parts: Sequence[CopiedChunks], rows: Sequence[int], parquet_columns: Sequence[Any]) -> MergedChunks:
    """Merges the chunks of one column; `rows` has the number of rows of each part."""
    first_rows = list(accumulate(rows, initial=0))[:-1]
    end = len(MAGIC)
    chunks, page_indexes = [], []
    for number, parquet_column in enumerate(parquet_columns):
        columns = [get_column_metadata(part.chunks[number]) for part in parts]
        indexes = [part.page_indexes[number] for part in parts]
        starts = list(accumulate(map(get_compressed_bytes, columns), initial=end))
        shifts = [start - find_chunk_start(column) for start, column in zip(starts, columns, strict=False)]
        key = _get_comparison_key(parquet_column)
        merged = merge_column_metadata(columns, end, _merge_statistics(columns, key))
        chunks.append(ColumnChunk({CHUNK_METADATA: (STRUCT, merged)}))
        offset_index = merge_offset_indexes([index.offset_index for index in indexes], shifts, first_rows)
        column_index = merge_column_indexes([index.column_index for index in indexes], key)
        page_indexes.append(PageIndex(column_index, offset_index))
        end = starts[-1]
    is_indexed = all(
        index.column_index or column.max_repetition_level
        for index, column in zip(page_indexes, parquet_columns, strict=True)
    )
    return MergedChunks(chunks, page_indexes, parts, is_indexed)


def _may_fill_pages(selections: Sequence[RowSelection], properties: WriteProperties) -> bool:
    """Checks without reading a footer: files that are smaller than a page cannot contain a full one."""
    count = len(selections)
    rows = sum(selection.rows for selection in selections)
    size = sum(selection.slice.stored_bytes for selection in selections)
    return count > 1 and _are_pages_large(rows, size, count, properties)


def _fill_pages(parts: Sequence[CopiedChunks], rows: int, properties: WriteProperties) -> bool:
    for number in range(len(parts[0].chunks)):
        pages = sum(count_pages(part.page_indexes[number].offset_index) for part in parts)
        size = sum(get_uncompressed_bytes(get_column_metadata(part.chunks[number])) for part in parts)
        if not _are_pages_large(rows, size, pages, properties):
            return False
    return True


def _are_pages_large(rows: int, size: float, pages: int, properties: WriteProperties) -> bool:
    """Whether pages are large enough on average, by their rows or by their bytes."""
    min_rows = pages * properties.page_rows * MIN_PAGE_FRACTION
    return rows >= min_rows or size >= pages * properties.page_bytes * MIN_PAGE_FRACTION


def _is_plain(part: CopiedChunks | None) -> bool:
    """Whether the chunks contain nothing but pages of plain values."""
    return part is not None and all(map(_has_only_plain_pages, part.chunks, part.page_indexes))


def _has_only_plain_pages(chunk: ColumnChunk, page_index: PageIndex) -> bool:
    column = get_column_metadata(chunk)
    return (
        set(get_encodings(column)) <= _PLAIN_ENCODINGS
        and not has_dictionary_page(column)
        and get_first_page_offset(page_index.offset_index) == find_chunk_start(column)
    )


def _merge_statistics(columns: Sequence[ColumnMetaData], key: ComparisonKey) -> Statistics:
    """Merges statistics; without bounds if a part has none, as happens in lists and maps."""
    statistics = [get_statistics(column) for column in columns]
    null_counts = [get_null_count(part) for part in statistics]
    with_values = [
        part
        for part, nulls, column in zip(statistics, null_counts, columns, strict=True)
        if nulls < get_num_values(column)
    ]
    bounds = [pair for pair in map(find_min_max, with_values) if pair is not None]
    if not bounds or len(bounds) < len(with_values):
        return build_statistics(sum(null_counts))
    low = _normalize_zero(min((low for low, _ in bounds), key=key), key, -0.0)
    high = _normalize_zero(max((high for _, high in bounds), key=key), key, 0.0)
    return build_statistics(sum(null_counts), (low, high), with_deprecated=have_deprecated_bounds(with_values))


def _normalize_zero(stored: bytes, key: ComparisonKey, zero: float) -> bytes:
    """The format requires that a float minimum of zero is stored as -0.0, and a maximum of zero as 0.0."""
    value = key(stored)
    return pack(_FLOAT_FORMATS[len(stored)], zero) if isinstance(value, float) and value == 0 else stored


def _get_comparison_key(parquet_column: Any) -> ComparisonKey:
    """Returns a key for the order that the format defines for the column's type."""
    match parquet_column.physical_type:
        case "INT32" | "INT64":
            return lambda stored: int.from_bytes(stored, "little", signed=True)
        case "FLOAT" | "DOUBLE":
            return lambda stored: unpack(_FLOAT_FORMATS[len(stored)], stored)[0]
        case "FIXED_LEN_BYTE_ARRAY" if parquet_column.logical_type.type == "DECIMAL":
            return lambda stored: int.from_bytes(stored, "big", signed=True)
    return bytes
