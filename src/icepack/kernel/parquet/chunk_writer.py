"""Writes a Parquet file from column chunks that were encoded independently of one another.

PyArrow writes a row group only from a table that holds all of it. Encoded column by column, a row group needs the
memory of one column, and several threads can encode its columns at once. What remains to be written here is the
footer: the chunks' own footers with shifted offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import is_nested, list_leaf_paths
from icepack.kernel.dictionaries import apply_dictionary_types
from icepack.kernel.parquet.metadata import (
    MAGIC,
    ColumnChunk,
    FileMetaData,
    build_row_group,
    build_statistics,
    count_defined_values,
    find_chunk_end,
    find_chunk_start,
    get_column_chunks,
    get_column_metadata,
    get_num_values,
    get_row_groups,
    read_file_metadata,
    set_key_values,
    set_row_groups,
    set_statistics,
    shift_chunk,
)
from icepack.kernel.parquet.page_index import (
    PageIndex,
    list_first_rows,
    read_page_index,
    set_column_index_range,
    set_offset_index_range,
    shift_offset_index,
)
from icepack.kernel.parquet.statistics import rank_leaves
from icepack.kernel.parquet.thrift import write_struct


class ColumnChunks(Protocol):
    """The chunks of one top-level column for one row group, with offsets as in a file that holds nothing else."""

    @property
    def chunks(self) -> list[ColumnChunk]: ...

    @property
    def page_indexes(self) -> list[PageIndex]: ...

    @property
    def copied_bytes(self) -> int:
        """How many of their bytes were copied from an input."""

    def iter_buffers(self) -> Iterator[Any]:
        """Yields their bytes."""


@dataclass(frozen=True, slots=True)
class EncodedChunks:
    """Chunks that were encoded as a Parquet file of their own."""

    data: pa.Buffer
    chunks: list[ColumnChunk]
    page_indexes: list[PageIndex]
    copied_bytes: int = 0

    def iter_buffers(self) -> Iterator[pa.Buffer]:
        end = max(find_chunk_end(get_column_metadata(chunk)) for chunk in self.chunks)
        yield self.data.slice(len(MAGIC), end - len(MAGIC))


def encode_column(column: pa.ChunkedArray, schema: pa.Schema, options: Mapping[str, Any]) -> EncodedChunks:
    """Encodes a column. Arrow dictionaries are written as they are, without looking up their values again."""
    (column_field,) = schema
    ranked = rank_leaves(column)
    data = _write_column(column, column_field, ranked, options)
    (row_group,) = get_row_groups(read_file_metadata(data))
    chunks = get_column_chunks(row_group)
    view = memoryview(data).cast("B")
    page_indexes = [read_page_index(view, chunk) for chunk in chunks]
    for leaf, ranks in ranked.items():
        column_metadata, offset_index = get_column_metadata(chunks[leaf]), page_indexes[leaf].offset_index
        if ranks is None:
            null_count = get_num_values(column_metadata) - count_defined_values(column_metadata)
            set_statistics(column_metadata, build_statistics(null_count))
        else:
            set_statistics(column_metadata, ranks.build_statistics())
            has_levels = column_field.nullable and not is_nested(column_field.type)
            column_index = ranks.build_column_index(list_first_rows(offset_index), has_levels=has_levels)
            page_indexes[leaf] = PageIndex(write_struct(column_index), offset_index)
    return EncodedChunks(data, chunks, page_indexes)


def _write_column(
    column: pa.ChunkedArray, column_field: pa.Field, ranked: Mapping[int, Any], options: Mapping[str, Any]
) -> pa.Buffer:
    """Writes a file with one column. PyArrow computes no statistics for the ranked leaves."""
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays([column], schema=pa.schema([apply_dictionary_types(column_field, column.type)]))
    paths = list_leaf_paths(column_field.name, column_field.type)
    others = [path for leaf, path in enumerate(paths) if leaf not in ranked]
    pq.write_table(
        table, sink, row_group_size=max(len(column), 1), write_statistics=others if ranked else True, **options
    )
    return sink.getvalue()


@dataclass(slots=True)
class _RowGroupChunks:
    rows: int
    chunks: list[ColumnChunk] = field(default_factory=list)
    page_indexes: list[PageIndex] = field(default_factory=list)


class ParquetChunkWriter:
    """Writes column chunks one after another, then the page indexes and the footer."""

    def __init__(self, sink: Any, schema: pa.Schema, key_values: Mapping[str, str], options: Mapping[str, Any]) -> None:
        self._sink = sink
        self._position = 0
        self._row_groups: list[_RowGroupChunks] = []
        self._file_metadata = _build_file_metadata(schema, key_values, options)
        self._write(MAGIC)

    @property
    def rows(self) -> int:
        return sum(row_group.rows for row_group in self._row_groups)

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return tuple(find_chunk_start(get_column_metadata(row_group.chunks[0])) for row_group in self._row_groups)

    def start_row_group(self, rows: int) -> None:
        self._row_groups.append(_RowGroupChunks(rows))

    def add_column(self, column: ColumnChunks) -> None:
        shift = self._position - len(MAGIC)
        row_group = self._row_groups[-1]
        for chunk, (column_index, offset_index) in zip(column.chunks, column.page_indexes, strict=True):
            row_group.page_indexes.append(PageIndex(column_index, shift_offset_index(offset_index, shift)))
            row_group.chunks.append(shift_chunk(chunk, shift))
        for buffer in column.iter_buffers():
            self._write(buffer)

    def close(self) -> int:
        """Writes the page indexes and the footer, and returns the size of the file."""
        self._write_page_indexes()
        row_groups = [
            build_row_group(ordinal, row_group.rows, row_group.chunks)
            for ordinal, row_group in enumerate(self._row_groups)
        ]
        set_row_groups(self._file_metadata, self.rows, row_groups)
        footer = write_struct(self._file_metadata)
        self._write(footer)
        self._write(len(footer).to_bytes(4, "little") + MAGIC)
        return self._position

    def _write_page_indexes(self) -> None:
        """Writes all column indexes, then all offset indexes, as the format requires."""
        chunks = [pair for group in self._row_groups for pair in zip(group.chunks, group.page_indexes, strict=True)]
        for chunk, (column_index, _) in chunks:
            if column_index:
                set_column_index_range(chunk, self._position, len(column_index))
                self._write(column_index)
        for chunk, (_, offset_index) in chunks:
            if offset_index:
                data = write_struct(offset_index)
                set_offset_index_range(chunk, self._position, len(data))
                self._write(data)

    def _write(self, data: Any) -> None:
        self._sink.write(data)
        self._position += len(data)


def write_empty_file(schema: pa.Schema, options: Mapping[str, Any]) -> pa.Buffer:
    """Returns a file that has this schema and no rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink, **options)
    return sink.getvalue()


def _build_file_metadata(schema: pa.Schema, key_values: Mapping[str, str], options: Mapping[str, Any]) -> FileMetaData:
    file_metadata = read_file_metadata(write_empty_file(schema, options))
    set_key_values(file_metadata, key_values)
    return file_metadata
