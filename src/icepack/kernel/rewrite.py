"""Rewrites a task's inputs, without their deleted rows, as one Parquet file, or as several that are sorted together.

It works row group by row group, and within each on a few columns at a time, which are read from every input,
concatenated and encoded independently. So memory is limited to some columns of one row group, whatever the table's
size.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icepack.kernel.arrow_schema import (
    LINEAGE_FIELDS,
    get_field_id,
    list_leaf_paths,
    list_leaf_types,
    to_arrow_schema,
)
from icepack.kernel.dictionaries import decode_dictionaries
from icepack.kernel.file_projection import FileProjectionCache
from icepack.kernel.live_rows import LiveRows, RowSelection
from icepack.kernel.memory import select_allocator
from icepack.kernel.parquet.bounds import BoundsCollector
from icepack.kernel.parquet.chunk_writer import ColumnChunks, EncodedChunks, ParquetChunkWriter, encode_column
from icepack.kernel.parquet.copy_chunks import ChunkCopier, has_correct_statistics, needs_values
from icepack.kernel.parquet.copy_row_groups import CopiedRowGroup, RowGroupCopier
from icepack.kernel.parquet.encoding import EncodingPlanner
from icepack.kernel.parquet.merge_pages import PageMerger
from icepack.kernel.parquet.row_groups import RowGroupSizing, plan_row_groups, split_evenly
from icepack.kernel.sorting.external_sort import ExternalSort, SortBucket
from icepack.kernel.storage import Storage
from icepack.kernel.task import OutputFile, RewriteResult, Task
from icepack.kernel.thread_pool import ThreadPool

# A column's values and its chunks.
ColumnResult = tuple[pa.ChunkedArray, ColumnChunks]
BuildColumn = Callable[[pa.Field], ColumnResult]

# Fraction of a task's memory for the Arrow data of columns that are being processed; reading and encoding need the
# rest.
COLUMN_MEMORY_FRACTION = 0.3
# Minimum number of column batches that fit into that memory, so that threads seldom wait for one another. Measured on
# 20 million rows with two threads: 490 MB and 5.4 s instead of 850 MB and 5.8 s if both read a batch and then both
# encode it.
MIN_COLUMN_BATCHES = 5
# Maximum rows of a row group, however few bytes they take. PyArrow writes up to 2 ** 26 rows at a time and then starts
# a new row group; a row group may exceed its planned size by more than a third.
MAX_ROW_GROUP_ROWS = 2**25
# Fraction of a task's memory for the rows that are distributed to sort buckets at a time, with all their columns, of
# which there are three copies. Measured on 20 million rows: 460 MB and 8.0 s of CPU instead of 1,050 MB and 10.5 s with
# a fraction of 0.3.
SORT_MEMORY_FRACTION = 0.1


def rewrite(task: Task, storage: Storage) -> RewriteResult:
    """Writes the outputs and counts the rows; removes the outputs if it fails."""
    select_allocator()
    try:
        with ThreadPool(task.threads) as thread_pool:
            return _TaskRewrite(task, storage, thread_pool).run()
    except BaseException:
        for output in task.outputs:
            storage.remove(output)
        raise


@dataclass(slots=True)
class OutputMetrics:
    """Metrics of an output that its footer does not contain."""

    nan_counts: dict[int, int] = dataclass_field(default_factory=dict)
    bounds: BoundsCollector = dataclass_field(default_factory=BoundsCollector)

    def add_column(self, field: pa.Field, column: pa.ChunkedArray, chunks: ColumnChunks) -> ColumnChunks:
        """Is called by the thread that built the column: no two threads have the same column at a time."""
        count_nans(field, column, self.nan_counts)
        self.bounds.add_column(field, column, chunks.chunks)
        return chunks


@dataclass(frozen=True, slots=True)
class ColumnBatch:
    """Columns that are read together."""

    fields: list[pa.Field]
    # Size in memory of one row group.
    bytes: float


BuildColumns = Callable[[ColumnBatch], Iterator[ColumnResult]]


class _TaskRewrite:
    def __init__(self, task: Task, storage: Storage, thread_pool: ThreadPool) -> None:
        self._task = task
        self._storage = storage
        self._thread_pool = thread_pool
        self._schema = to_arrow_schema(task.schema, with_lineage=task.lineage)
        projections = FileProjectionCache(task.name_mapping, list_read_columns(task))
        self._encoding = EncodingPlanner(task, storage, projections)
        self._rows = LiveRows(task, storage, self._schema, projections, self._encoding.dictionary_paths, thread_pool)
        chunk_copier = ChunkCopier(self._schema, self._encoding.base_options)
        self._row_group_copier = RowGroupCopier(task, self._rows, self._schema, chunk_copier)
        self._page_merger = PageMerger(task, self._schema, chunk_copier)
        self._copied_bytes = 0

    def run(self) -> RewriteResult:
        files = self._write_in_order() if self._task.sort_order is None else self._write_sorted()
        return RewriteResult(
            files=tuple(files),
            rows_in=self._rows.rows_read,
            rows_dropped=self._rows.rows_deleted,
            requests=self._storage.requests,
            copied_bytes=self._copied_bytes,
            classes=self._rows.file_classes,
            peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )

    def _write_sorted(self) -> Iterator[OutputFile]:
        rows, max_rows = self._plan_row_group_rows(), self._count_fitting_rows()
        sort = ExternalSort(self._task, self._rows, self._schema, rows, max_rows, self._thread_pool)
        buckets = sort.iter_buckets(self._iter_sort_batches())
        buckets_per_output = -(-sort.bucket_count // len(self._task.outputs))
        for output in self._task.outputs:
            first = list(islice(buckets, 1))
            if not first:
                return
            metrics = OutputMetrics()
            with self._storage.create(output) as sink:
                writer = self._create_writer(sink)
                for bucket in chain(first, islice(buckets, buckets_per_output - 1)):
                    self._write_each_column(writer, bucket.rows, partial(self._build_sorted, bucket), metrics)
                size = writer.close()
            yield self._build_output_file(output, size, writer, metrics)

    def _iter_sort_batches(self) -> Iterator[list[RowSelection]]:
        """Yields all rows, as many at a time as fit into memory with all their columns."""
        bytes_per_row = sum(map(self._encoding.estimate_bytes_per_row, self._schema))
        rows = max(int(self._task.memory_bytes * SORT_MEMORY_FRACTION / max(bytes_per_row, 1.0)), 1)
        for slices in split_evenly(self._rows.iter_slices(), rows):
            yield self._rows.select(slices)
            self._rows.close_finished(slices)

    def _create_writer(self, sink: Any) -> ParquetChunkWriter:
        return ParquetChunkWriter(sink, self._schema, build_key_values(self._task), self._encoding.base_options)

    def _write_in_order(self) -> Iterator[OutputFile]:
        (output,) = self._task.outputs
        metrics = OutputMetrics()
        with ExitStack() as stack:
            writer: ParquetChunkWriter | None = None
            sizing = RowGroupSizing(
                self._plan_row_group_rows(), self._count_max_rows(), self._row_group_copier.min_bytes
            )
            copy_row_group = partial(self._row_group_copier.copy_row_group, max_rows=self._count_fitting_rows())
            for planned in plan_row_groups(self._rows.iter_slices(), sizing, copy_row_group):
                selections = self._rows.select(planned.slices)
                rows = sum(selection.rows for selection in selections)
                if rows and writer is None:
                    sink = stack.enter_context(self._storage.create(output))
                    writer = self._create_writer(sink)
                if rows and writer is not None and planned.copied is not None:
                    build = partial(self._build_copied, planned.copied, selections)
                    self._write_each_column(writer, rows, build, metrics)
                elif rows and writer is not None:
                    self._write_merged(writer, rows, selections, metrics)
                self._rows.close_finished(planned.slices)
            if writer is None:
                return
            size = writer.close()
        yield self._build_output_file(output, size, writer, metrics)

    def _build_output_file(
        self, path: str, size: int, writer: ParquetChunkWriter, metrics: OutputMetrics
    ) -> OutputFile:
        return OutputFile(
            path=path,
            bytes=size,
            rows=writer.rows,
            nan_counts=metrics.nan_counts,
            bounds=metrics.bounds.build(self._task.write_properties.max_bound_length),
            split_offsets=writer.split_offsets,
        )

    def _write_merged(
        self, writer: ParquetChunkWriter, rows: int, selections: Sequence[RowSelection], metrics: OutputMetrics
    ) -> None:
        """Writes one row group from many slices."""
        merged = self._page_merger.merge_columns(selections)
        unread = {field_id for field_id in merged if not needs_values(self._rows.get_field(field_id))}

        def build(batch: ColumnBatch) -> Iterator[ColumnResult]:
            wanted = [field for field in batch.fields if get_field_id(field) not in unread]
            columns = iter(self._rows.read_columns(selections, wanted, in_this_thread=True) if wanted else ())
            for field in batch.fields:
                column = build_empty_column(field) if get_field_id(field) in unread else next(columns)
                yield column, self._reuse_or_encode(field, column, merged.get(get_field_id(field)))

        self._write_batches(writer, rows, build, metrics, unread)

    def _write_each_column(
        self, writer: ParquetChunkWriter, rows: int, build: BuildColumn, metrics: OutputMetrics
    ) -> None:
        """Writes one row group whose columns are built one by one."""
        self._write_batches(writer, rows, lambda batch: map(build, batch.fields), metrics)

    def _write_batches(
        self,
        writer: ParquetChunkWriter,
        rows: int,
        build: BuildColumns,
        metrics: OutputMetrics,
        unread: Container[int] = (),
    ) -> None:
        """Writes one row group. One thread builds a whole batch, so that none waits while batches are left."""
        writer.start_row_group(rows)
        batches = list(self._plan_batches(rows, unread))

        def process(batch: ColumnBatch) -> list[ColumnChunks]:
            results = zip(batch.fields, build(batch), strict=True)
            return [metrics.add_column(field, *result) for field, result in results]

        weights = [batch.bytes for batch in batches]
        for columns in self._thread_pool.map_weighted(process, batches, weights, self._column_memory_bytes):
            for column in columns:
                writer.add_column(column)
                self._copied_bytes += column.copied_bytes

    def _build_sorted(self, bucket: SortBucket, field: pa.Field) -> ColumnResult:
        column = bucket.read_column(field)
        return column, self._encode(field, column)

    def _build_copied(
        self, copied: CopiedRowGroup, selections: Sequence[RowSelection], field: pa.Field
    ) -> ColumnResult:
        """Copies the column if possible. It is read only if it has to be encoded or its values are needed."""
        chunks = copied.columns.get(get_field_id(field))
        if chunks is not None and not needs_values(field):
            return build_empty_column(field), chunks
        (column,) = self._rows.read_columns(selections, [field], in_this_thread=True)
        return column, self._reuse_or_encode(field, column, chunks)

    def _reuse_or_encode(self, field: pa.Field, column: pa.ChunkedArray, chunks: ColumnChunks | None) -> ColumnChunks:
        """Returns the inputs' chunks if their statistics are correct; otherwise encodes the values."""
        if chunks is not None and has_correct_statistics(field, column, chunks.chunks):
            return chunks
        return self._encode(field, column)

    def _encode(self, field: pa.Field, column: pa.ChunkedArray) -> EncodedChunks:
        options = self._encoding.build_options(field, column)
        leaves = zip(list_leaf_paths(field.name, field.type), list_leaf_types(column.type), strict=True)
        dictionaries = {path for path, data_type in leaves if pa.types.is_dictionary(data_type)}
        if dictionaries - set(options["use_dictionary"] or ()):
            column = decode_dictionaries(column)
        return encode_column(column, pa.schema([field]), options)

    def _plan_batches(self, rows: int, unread: Container[int] = ()) -> Iterator[ColumnBatch]:
        """Yields adjacent columns in batches that leave work for every thread; unread columns take no memory."""
        read = (field for field in self._schema if get_field_id(field) not in unread)
        sizes = {get_field_id(field): self._encoding.estimate_bytes_per_row(field) * rows for field in read}
        fitting_bytes = self._column_memory_bytes / max(self._task.threads + 1, MIN_COLUMN_BATCHES)
        max_bytes = min(fitting_bytes, sum(sizes.values()) / self._task.threads)
        fields: list[pa.Field] = []
        batch_bytes = 0.0
        for field in self._schema:
            size = sizes.get(get_field_id(field), 0.0)
            if fields and batch_bytes + size > max_bytes:
                yield ColumnBatch(fields, batch_bytes)
                fields, batch_bytes = [], 0.0
            fields.append(field)
            batch_bytes += size
        yield ColumnBatch(fields, batch_bytes)

    @property
    def _column_memory_bytes(self) -> float:
        return self._task.memory_bytes * COLUMN_MEMORY_FRACTION

    def _plan_row_group_rows(self) -> int:
        """Returns the rows of each row group if all are of the same size."""
        rows = max(self._task.rows, 1)
        return -(-rows // -(-rows // self._count_max_rows()))

    def _count_max_rows(self) -> int:
        """Returns how many rows a row group may have."""
        stored_bytes = sum(file.bytes_per_row * file.rows for file in self._task.inputs)
        bytes_per_row = max(stored_bytes / max(self._task.rows, 1), 1e-3)
        rows = self._task.write_properties.row_group_bytes / bytes_per_row
        return max(min(int(rows), self._count_fitting_rows()), 1)

    def _count_fitting_rows(self) -> int:
        """Returns how many rows of the widest column fit into memory."""
        widest = max(map(self._encoding.estimate_bytes_per_row, self._schema), default=1.0)
        return max(min(int(self._task.memory_bytes * COLUMN_MEMORY_FRACTION / widest), MAX_ROW_GROUP_ROWS), 1)


def list_read_columns(task: Task) -> list[Mapping[str, Any]]:
    """Returns the columns of the table that are read from the inputs."""
    return [*task.schema["fields"], *(LINEAGE_FIELDS if task.lineage else ())]


def build_empty_column(field: pa.Field) -> pa.ChunkedArray:
    """Stands for a column whose values are not needed."""
    return pa.chunked_array([], field.type)


def count_nans(field: pa.Field, column: Any, counts: dict[int, int]) -> None:
    """Counts NaNs of float columns that are not inside lists or maps, as Iceberg's metrics do."""
    if pa.types.is_floating(field.type):
        field_id = get_field_id(field)
        counts[field_id] = counts.get(field_id, 0) + (pc.sum(pc.is_nan(column)).as_py() or 0)
    elif pa.types.is_struct(field.type):
        for position, child in enumerate(field.type):
            count_nans(child, pc.struct_field(column, position), counts)


def build_key_values(task: Task) -> dict[str, str]:
    """Returns the file's key-value metadata: like Iceberg's writers, the table's schema."""
    return {"iceberg.schema": json.dumps(task.schema, separators=(",", ":"))}
