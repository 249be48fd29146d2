"""Reads input files: their row groups, and the table's columns with the rows that deletes may still remove."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID, UnsupportedByKernel
from icepack.kernel.file_classes import FileClassCounter
from icepack.kernel.file_projection import ColumnMapping, FileProjection, FileProjectionCache
from icepack.kernel.parquet.checksums import CorruptPage
from icepack.kernel.parquet.footer import (
    FileSchemaCache,
    has_arrow_schema,
    read_footer_bytes,
    read_pyarrow_metadata,
)
from icepack.kernel.projection import fill_constant, fill_missing, project_column, reject_nulls
from icepack.kernel.storage import Storage
from icepack.kernel.task import DeleteFile, InputFile

# Part of PyArrow's message.
CHECKSUM_FAILED_TEXT = "CRC checksum verification failed"


@dataclass(frozen=True, slots=True)
class RowGroupSlice:
    """A range of rows of one row group; `start` and `stop` count from the row group's first row."""

    source: InputFileReader
    row_group: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def is_whole(self) -> bool:
        starts = self.source.row_group_starts
        return self.rows == starts[self.row_group + 1] - starts[self.row_group]

    @property
    def stored_bytes(self) -> float:
        """Its share of the file's bytes, in proportion to its rows."""
        return self.source.input_file.bytes_per_row * self.rows


@dataclass(frozen=True, slots=True)
class _ReaderPool:
    """Readers of one file that no thread uses at the moment."""

    # Paths of the columns that these readers return as dictionaries.
    dictionary_paths: list[str]
    idle: list[pq.ParquetFile]


class OpenParquetFile:
    """An open file with a reader per thread, because two threads must not share one of PyArrow's readers."""

    def __init__(
        self,
        file: InputFile | DeleteFile,
        storage: Storage,
        schemas: FileSchemaCache,
        dictionary_paths: Sequence[str] = (),
    ) -> None:
        self.path = file.path
        self.raw_file = storage.open(file.path, file.bytes)
        is_remote = not isinstance(self.raw_file, pa.BufferReader) and storage.is_remote(file.path)
        self._options = {"pre_buffer": is_remote, "page_checksum_verification": True}
        self.footer = read_footer_bytes(self.raw_file, file.bytes)
        self.schema = schemas.get_schema(self.footer)
        present = [path for path in dictionary_paths if path in self.schema.paths]
        self.parquet_file = self._open_first_reader(present)
        self.metadata = self.parquet_file.metadata
        if self.metadata.serialized_size != len(self.footer):
            # A signature follows the footer. Reading an encrypted column with PyArrow would end the process.
            raise UnsupportedByKernel("encrypted Parquet files")
        declarations = schemas.get_declarations(self.schema)
        self.chunk_encodings = declarations.find_encodings(self.footer, self.metadata.num_row_groups)
        readable = self._filter_dictionary_paths(present)
        if len(readable) < len(present):
            self.parquet_file = self._open_reader(readable, self.metadata)
        self._readers = _ReaderPool(readable, [self.parquet_file])

    @property
    def arrow_schema(self) -> pa.Schema:
        return self.parquet_file.schema_arrow

    def read_row_group(self, row_group: int, leaves: list[int]) -> pa.Table:
        try:
            return self._read(row_group, leaves)
        except OSError as exc:
            if CHECKSUM_FAILED_TEXT in str(exc):
                raise self._locate_corrupt_page(row_group, leaves, exc) from exc
            raise

    def disable_dictionaries(self, leaves: Sequence[int]) -> None:
        """Reads these columns as plain values from now on."""
        paths = {self.schema.paths[leaf] for leaf in leaves}
        self._readers = _ReaderPool([path for path in self._readers.dictionary_paths if path not in paths], [])

    def close(self) -> None:
        self.parquet_file.close(force=True)

    def _read(self, row_group: int, leaves: list[int]) -> pa.Table:
        readers = self._readers
        try:
            reader = readers.idle.pop()
        except IndexError:
            reader = self._open_reader(readers.dictionary_paths, self.metadata)
        table = reader.reader.read_row_groups([row_group], column_indices=leaves, use_threads=False)
        readers.idle.append(reader)
        return table

    def _open_first_reader(self, dictionary_paths: list[str]) -> pq.ParquetFile:
        """Opens a reader without a request for the footer, which was read already."""
        try:
            if isinstance(self.raw_file, pa.BufferReader) and not has_arrow_schema(self.footer):
                return self._open_reader(dictionary_paths, None)
            return self._open_reader(dictionary_paths, read_pyarrow_metadata(self.footer, self.schema))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            # The footer was parsed by now, so PyArrow has no types for the schema.
            raise UnsupportedByKernel(f"files that PyArrow does not open: {exc}") from exc

    def _filter_dictionary_paths(self, paths: list[str]) -> list[str]:
        """Removes columns whose encoding PyArrow cannot read as a dictionary."""
        if not self.chunk_encodings.no_dictionary:
            return paths
        refused = {self.schema.paths[leaf] for leaf in self.chunk_encodings.no_dictionary}
        return [path for path in paths if path not in refused]

    def _locate_corrupt_page(self, row_group: int, leaves: list[int], cause: OSError) -> CorruptPage:
        """Finds the column: PyArrow names only the page, of whichever column it read first."""
        for leaf in leaves:
            try:
                self._read(row_group, [leaf])
            except OSError as exc:
                return CorruptPage(self.path, self.schema.paths[leaf], f"row group {row_group}, {exc}")
        return CorruptPage(self.path, "unknown", f"row group {row_group}, {cause}")

    def _open_reader(self, dictionary_paths: list[str], metadata: pq.FileMetaData | None) -> pq.ParquetFile:
        return pq.ParquetFile(self.raw_file, metadata=metadata, read_dictionary=dictionary_paths, **self._options)


class InputFileReader:
    """Reads an input file. It is opened when its first column is read, and can be opened again after `close`."""

    def __init__(
        self,
        input_file: InputFile,
        storage: Storage,
        projections: FileProjectionCache,
        dictionary_paths: Sequence[str] = (),
        file_classes: FileClassCounter | None = None,
    ) -> None:
        self.input_file = input_file
        self._storage = storage
        self._projections = projections
        self._file_classes = file_classes
        self._constants = frozenset(input_file.constants)
        self._dictionary_paths = list(dictionary_paths)
        self._opened: OpenParquetFile | None = None
        self._lock = Lock()
        self._projection: FileProjection | None = None
        self._row_group_starts: list[int] | None = None

    @property
    def parquet_file(self) -> pq.ParquetFile:
        return self._open().parquet_file

    @property
    def projection(self) -> FileProjection:
        self._open()
        assert self._projection is not None
        return self._projection

    @property
    def raw_file(self) -> Any:
        return self._open().raw_file

    @property
    def footer(self) -> bytes:
        return self._open().footer

    def _open(self) -> OpenParquetFile:
        with self._lock:
            if self._opened is None:
                opened = OpenParquetFile(
                    self.input_file, self._storage, self._projections.schemas, self._dictionary_paths
                )
                self._projection = self._projections.get(opened.schema, opened.arrow_schema, self._constants)
                if self._projection.no_dictionary_leaves:
                    opened.disable_dictionaries(self._projection.no_dictionary_leaves)
                self._count_class(opened)
                self._opened = opened
            return self._opened

    def _count_class(self, opened: OpenParquetFile) -> None:
        """Counts the file once, even if it is closed and opened again."""
        if self._file_classes is not None:
            writer = opened.metadata.created_by or ""
            self._file_classes.add(self.input_file, opened.schema, writer, opened.chunk_encodings)
            self._file_classes = None

    @property
    def row_group_starts(self) -> list[int]:
        """The first row of each row group, and the end of the last one."""
        if self._row_group_starts is None:
            metadata = self.parquet_file.metadata
            rows = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
            self._row_group_starts = list(accumulate(rows, initial=0))
        return self._row_group_starts

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def iter_slices(self) -> Iterator[RowGroupSlice]:
        """Yields the rows of the task by row group."""
        starts = self.row_group_starts
        stop = starts[-1] if self.input_file.stop is None else self.input_file.stop
        for row_group, (first, last) in enumerate(pairwise(starts)):
            begin, end = max(first, self.input_file.start), min(last, stop)
            if begin < end:
                yield RowGroupSlice(self, row_group, begin - first, end - first)

    def read_columns(self, row_slice: RowGroupSlice, wanted: Sequence[pa.Field]) -> list[pa.ChunkedArray]:
        """Returns columns in the table's types, including deleted rows."""
        plan = self.projection.plan_read(wanted)
        columns = self._read_leaves(row_slice, plan.leaves)
        return [self._project(columns, row_slice, mapping) for mapping in plan.columns]

    def _read_leaves(self, row_slice: RowGroupSlice, leaves: list[int]) -> list[pa.ChunkedArray]:
        """Reads by position and never by name: two columns of a file may have the same name."""
        if not leaves:
            return []
        table = self._open().read_row_group(row_slice.row_group, leaves)
        is_whole = row_slice.rows == table.num_rows
        return list((table if is_whole else table.slice(row_slice.start, row_slice.rows)).columns)

    def _project(
        self, columns: list[pa.ChunkedArray], row_slice: RowGroupSlice, mapping: ColumnMapping
    ) -> pa.ChunkedArray:
        rows, table_field = row_slice.rows, mapping.table_field
        if mapping.is_constant:
            return pa.chunked_array([fill_constant(rows, table_field, self.input_file.constants[mapping.field_id])])
        if mapping.file_field is None:
            column = pa.chunked_array([fill_missing(rows, table_field)])
        else:
            column = columns[mapping.position]
            if column.type != mapping.direct_type:
                column = project_column(column, mapping.file_field, table_field)
            if mapping.may_have_nulls:
                reject_nulls(column, table_field)
        return self._fill_lineage(column, row_slice, mapping.field_id)

    def _fill_lineage(self, column: pa.ChunkedArray, row_slice: RowGroupSlice, field_id: int) -> pa.ChunkedArray:
        """Fills in row lineage: a row without a stored row id gets the one of its position in the file."""
        if field_id == ROW_ID and self.input_file.first_row_id is not None:
            first = self.input_file.first_row_id + self.row_group_starts[row_slice.row_group] + row_slice.start
            return _coalesce(column, pa.array(np.arange(first, first + row_slice.rows)))
        if field_id == LAST_UPDATED_SEQUENCE_NUMBER and self.input_file.first_row_id is not None:
            return pc.fill_null(column, self.input_file.sequence_number)
        return column


def _coalesce(column: pa.ChunkedArray, inherited: pa.Array) -> pa.ChunkedArray:
    if column.null_count == len(column):
        return pa.chunked_array([inherited])
    return pa.chunked_array([pc.coalesce(column.combine_chunks(), inherited)])
