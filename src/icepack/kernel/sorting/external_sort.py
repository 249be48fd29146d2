"""Sorts more rows than fit into memory: first into buckets on the executor's disk, then within each bucket.

A bucket is a row group of an output and takes the rows of one range of keys, so that only one bucket is in memory at a
time. The ranges come from a sample. Equal keys keep the order of the files; a key that many rows have takes several
buckets, each with the rows of some of the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.dictionaries import concat_columns, drop_unused_entries
from icepack.kernel.live_rows import LiveRows, RowSelection
from icepack.kernel.sorting.sort_order import SortOrder, compute_permutation
from icepack.kernel.task import Task
from icepack.kernel.thread_pool import ThreadPool

# Number of row groups in the sample, from different inputs if there are as many.
SAMPLE_ROW_GROUPS = 32
# Number of rows that are sampled from each of them.
SAMPLE_ROWS_PER_GROUP = 2_000
# Maximum rows of a bucket, which is written as one row group: PyArrow writes no more at a time.
MAX_BUCKET_ROWS = 2**26
# Maximum rows of a bucket as a multiple of its planned rows, unless more rows fit into memory.
MAX_BUCKET_OVERSIZE = 4


class SortBucket:
    """Some of the rows, in their final order."""

    def __init__(self, path: Path, schema: pa.Schema, order: SortOrder, keys: Sequence[pa.Field]) -> None:
        self._path = path
        self._schema = schema
        self._permutation = compute_permutation(self._read(keys), order)

    @property
    def rows(self) -> int:
        return len(self._permutation)

    def read_column(self, wanted: pa.Field) -> pa.ChunkedArray:
        (column,) = self._read([wanted])
        return drop_unused_entries(pa.chunked_array([_combine_chunks(column).take(pa.array(self._permutation))]))

    def close(self) -> None:
        """Frees memory and disk space even if the bucket is still referenced."""
        self._permutation = self._permutation[:0].copy()
        self._path.unlink()

    def _read(self, wanted: Sequence[pa.Field]) -> list[pa.ChunkedArray]:
        positions = [self._schema.get_field_index(field.name) for field in wanted]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(set(positions)), use_threads=False)
        with pa.memory_map(str(self._path)) as source:
            batches = list(pa.ipc.open_stream(source, options=options))
        return [
            concat_columns([pa.chunked_array([batch.column(field.name)]) for batch in batches], field.type)
            for field in wanted
        ]


class ExternalSort:
    """Sorts the rows of a task into buckets."""

    def __init__(
        self,
        task: Task,
        rows: LiveRows,
        schema: pa.Schema,
        bucket_rows: int,
        fitting_rows: int,
        thread_pool: ThreadPool,
    ) -> None:
        """`bucket_rows` are planned for each bucket; `fitting_rows` fit into memory."""
        assert task.sort_order is not None
        self._rows = rows
        self._thread_pool = thread_pool
        self._schema = schema
        self._max_bucket_rows = min(max(bucket_rows * MAX_BUCKET_OVERSIZE, fitting_rows), MAX_BUCKET_ROWS)
        self._order = SortOrder.from_dict(task.sort_order)
        self._keys = [rows.get_field(key.field_id) for key in self._order.keys]
        self._all_rows = task.rows
        self._distributed_rows = 0
        self.bucket_count = -(-task.rows // (bucket_rows * len(task.outputs))) * len(task.outputs)

    def iter_buckets(self, batches: Iterator[list[RowSelection]]) -> Iterator[SortBucket]:
        """Yields the buckets in order; `batches` are all rows, each as many as fit into memory."""
        with TemporaryDirectory(prefix="icepack-") as folder:
            paths = [Path(folder) / str(number) for number in range(self.bucket_count)]
            counts = self._distribute(batches, paths)
            if max(counts, default=0) > self._max_bucket_rows:
                raise UnsupportedByKernel("a sort by keys that many rows of one file have in common")
            for path, count in zip(paths, counts, strict=True):
                if count:
                    bucket = SortBucket(path, self._schema, self._order, self._keys)
                    yield bucket
                    bucket.close()

    def _distribute(self, batches: Iterator[list[RowSelection]], paths: Sequence[Path]) -> list[int]:
        """Writes all rows to the buckets' files and returns the number of rows of each."""
        boundaries = self._find_boundaries()
        counts = [0] * len(paths)
        with ExitStack() as stack:
            streams: dict[int, _BucketStream] = {}
            for selections in batches:
                for number, part in self._split(selections, boundaries):
                    if number not in streams:
                        streams[number] = _BucketStream(stack, paths[number], part.schema)
                    counts[number] += part.num_rows
                    streams[number].write(part)
        return counts

    def _split(
        self, selections: list[RowSelection], boundaries: BucketBoundaries
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yields the rows of each bucket. The boundaries are sorted along with the rows and so end up between them."""
        all_columns = self._rows.read_columns(selections, list(self._schema))
        columns = dict(zip(self._schema.names, all_columns, strict=True))
        keys = [boundaries.surround(position, columns[field.name], field) for position, field in enumerate(self._keys)]
        order = compute_permutation(keys, self._order)
        is_boundary = boundaries.find_in(order)
        positions = order[~is_boundary] - boundaries.count
        ends = boundaries.find_ends(
            order, np.flatnonzero(is_boundary), positions, self._distributed_rows, self._all_rows
        )
        self._distributed_rows += len(positions)
        indices = pa.array(positions)
        sorted_columns = list(
            self._thread_pool.map(lambda name: _combine_chunks(columns.pop(name)).take(indices), self._schema.names)
        )
        batch = pa.record_batch(sorted_columns, names=self._schema.names)
        for number, (start, end) in enumerate(pairwise([0, *ends.tolist(), len(batch)])):
            if start < end:
                yield number, batch.slice(start, end - start)

    def _find_boundaries(self) -> BucketBoundaries:
        sample = [_to_plain(column, field) for column, field in zip(self._read_sample(), self._keys, strict=True)]
        order = compute_permutation(sample, self._order)
        if not len(order):
            return BucketBoundaries([column.slice(0, 0) for column in sample])
        positions = order[[len(order) * number // self.bucket_count for number in range(1, self.bucket_count)]]
        return BucketBoundaries([column.take(pa.array(positions)) for column in sample])

    def _read_sample(self) -> list[pa.ChunkedArray]:
        parts = [self._thin_out(columns) for columns in self._rows.sample_columns(SAMPLE_ROW_GROUPS, self._keys)]
        return [
            concat_columns([part[position] for part in parts], field.type) for position, field in enumerate(self._keys)
        ]

    def _thin_out(self, columns: list[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
        step = max(len(columns[0]) // SAMPLE_ROWS_PER_GROUP, 1)
        positions = pa.array(np.arange(0, len(columns[0]), step))
        return [column.take(positions) for column in columns]


class BucketBoundaries:
    """The keys at which buckets start, except the first bucket."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._columns = columns
        self.count = len(columns[0])
        keys = list(zip(*map(_to_codes, columns), strict=True))
        runs = [list(group) for _, group in groupby(range(self.count), key=keys.__getitem__)]
        # Boundaries with the same key: so many rows have it that it fills as many buckets.
        self._runs = [run for run in runs if len(run) > 1]

    def surround(self, position: int, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        """Returns a key column with all boundaries before it and the keys of the runs, once more, after it.

        The sort is stable, so among equal keys the former come first and the latter come last.
        """
        boundaries = self._columns[position]
        run_keys = boundaries.take(pa.array([run[0] for run in self._runs], pa.int64()))
        if not pa.types.is_dictionary(column.type):
            return pa.chunked_array([boundaries, *column.chunks, run_keys], field.type)
        before, after = (part.dictionary_encode().cast(column.type) for part in (boundaries, run_keys))
        return pa.chunked_array([before, *column.chunks, after], column.type).unify_dictionaries()

    def find_in(self, order: np.ndarray) -> np.ndarray:
        """Returns where the sorted rows are not rows but boundaries or keys of runs."""
        is_boundary = order < self.count
        return is_boundary | (order >= len(order) - len(self._runs)) if self._runs else is_boundary

    def find_ends(
        self, order: np.ndarray, extras: np.ndarray, positions: np.ndarray, rows_before: int, all_rows: int
    ) -> np.ndarray:
        """Returns how many of the sorted rows come before each boundary.

        `extras` are the places of boundaries and run keys in `order`, `positions` are the sorted rows alone, and
        `rows_before` of all rows came in earlier batches.
        """
        preceding_rows = extras - np.arange(len(extras))
        is_boundary = order[extras] < self.count
        ends: np.ndarray = preceding_rows[is_boundary]
        for run, last in zip(self._runs, preceding_rows[~is_boundary].tolist(), strict=True):
            first = int(ends[run[0]])
            shares = [all_rows * part // len(run) - rows_before for part in range(1, len(run))]
            ends[run[1:]] = first + np.searchsorted(positions[first:last], shares)
        return ends


def _to_codes(column: pa.Array) -> list[int | None]:
    """Returns the same code for the same value; not every Arrow value has a Python counterpart to compare."""
    stored = column.storage if isinstance(column, pa.ExtensionArray) else column
    indices: list[int | None] = stored.dictionary_encode().indices.to_pylist()
    return indices


class _BucketStream:
    def __init__(self, stack: ExitStack, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        sink = stack.enter_context(pa.OSFile(str(path), "wb"))
        self._writer = stack.enter_context(pa.ipc.new_stream(sink, schema))

    def write(self, part: pa.RecordBatch) -> None:
        """Casts to the stream's schema: whether a column is a dictionary may change between batches."""
        self._writer.write_batch(part if part.schema.equals(self._schema) else part.cast(self._schema))


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _to_plain(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    return _combine_chunks(column.cast(field.type) if pa.types.is_dictionary(column.type) else column)
