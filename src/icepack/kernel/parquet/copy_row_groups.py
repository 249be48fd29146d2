"""Finds row groups that are large already: their column chunks are copied byte for byte instead of being decoded.

A column that is not stored as in the output is encoded beside the copied ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from icepack.kernel.arrow_schema import get_field_id
from icepack.kernel.input_file import InputFileReader, RowGroupSlice
from icepack.kernel.live_rows import LiveRows
from icepack.kernel.parquet.copy_chunks import ChunkCopier, CopiedChunks, InputMetadata
from icepack.kernel.parquet.metadata import get_column_metadata, get_compressed_bytes
from icepack.kernel.task import Task

# Minimum and maximum size of a copied row group, as fractions of the table's row group size. A smaller one would stay
# too small.
MIN_ROW_GROUP_FRACTION = 0.25
MAX_ROW_GROUP_FRACTION = 1.1
# Minimum share of a row group's bytes that can be copied. If most of it must be encoded anyway, its rows may as well
# share row groups with others.
MIN_COPIED_FRACTION = 0.5


@dataclass(frozen=True, slots=True)
class CopiedRowGroup:
    """A row group of an input, most of which can be copied."""

    slice: RowGroupSlice
    # The copied columns by field id; the others are encoded.
    columns: Mapping[int, CopiedChunks]


class RowGroupCopier:
    """Finds the row groups of the inputs that can be copied."""

    def __init__(self, task: Task, rows: LiveRows, schema: pa.Schema, chunk_copier: ChunkCopier) -> None:
        self._task = task
        self._rows = rows
        self._schema = schema
        self._chunk_copier = chunk_copier
        self._last: InputMetadata | None = None
        self.min_bytes = task.write_properties.row_group_bytes * MIN_ROW_GROUP_FRACTION

    def copy_row_group(self, row_slice: RowGroupSlice, max_rows: int) -> CopiedRowGroup | None:
        """Returns None unless the slice is a whole row group of the right size without deleted rows."""
        properties = self._task.write_properties
        if not properties.may_copy_chunks or row_slice.stored_bytes < self.min_bytes:
            return None
        if row_slice.rows > max_rows or not row_slice.is_whole:
            return None
        if self._rows.may_have_deletes(row_slice.source.input_file):
            return None
        file = self._get_metadata(row_slice.source)
        chunks = file.get_chunks(row_slice.row_group)
        size = sum(get_compressed_bytes(get_column_metadata(chunk)) for chunk in chunks)
        if not self.min_bytes <= size <= properties.row_group_bytes * MAX_ROW_GROUP_FRACTION:
            return None
        columns = self._copy_columns(file, row_slice.row_group)
        copied_bytes = sum(column.copied_bytes for column in columns.values())
        return CopiedRowGroup(row_slice, columns) if copied_bytes >= size * MIN_COPIED_FRACTION else None

    def _copy_columns(self, file: InputMetadata, row_group: int) -> dict[int, CopiedChunks]:
        found = {get_field_id(field): self._chunk_copier.copy_column(file, row_group, field) for field in self._schema}
        return {field_id: chunks for field_id, chunks in found.items() if chunks is not None}

    def _get_metadata(self, source: InputFileReader) -> InputMetadata:
        """Keeps the last file's metadata, because row groups of a file come one after another."""
        if self._last is None or self._last.source is not source:
            self._last = InputMetadata(source, self._task)
        return self._last
