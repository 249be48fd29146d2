"""Rows in another order than the files': first sorted into buckets on the executor's disk, then within each bucket.

A bucket is a row group of an output and takes the rows of one span of keys, so only one of them is in memory
at a time. The spans come from a sample. Equal keys keep the order of the files; one that many rows have takes several
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

from icepack.kernel.arrow_schema import Uncovered
from icepack.kernel.live_rows import Rows, Selection
from icepack.kernel.parquet.dictionaries import together, without_leftovers
from icepack.kernel.sorting.sort_order import Order, permutation
from icepack.kernel.task import Task
from icepack.kernel.thread_pool import Crew

SAMPLED_GROUPS = 32
"""Row groups, of different inputs where there are as many."""
SAMPLED_ROWS = 2_000
"""Of each."""
MOST_ROWS = 2**26
"""Of a bucket, which is written as one row group: PyArrow writes no more at a time."""
LARGEST = 4
"""How many times its share a bucket may hold, where it may not hold more anyway because that fits into memory."""


class Bucket:
    """Some of the rows, in their final order."""

    def __init__(self, path: Path, schema: pa.Schema, order: Order, keys: Sequence[pa.Field]) -> None:
        self._path = path
        self._schema = schema
        self._order = permutation(self._read(keys), order)

    @property
    def rows(self) -> int:
        return len(self._order)

    def column(self, wanted: pa.Field) -> pa.ChunkedArray:
        (column,) = self._read([wanted])
        return without_leftovers(pa.chunked_array([_flat(column).take(pa.array(self._order))]))

    def close(self) -> None:
        """Frees what it takes, whoever may still hold it."""
        self._order = self._order[:0].copy()
        self._path.unlink()

    def _read(self, wanted: Sequence[pa.Field]) -> list[pa.ChunkedArray]:
        numbers = [self._schema.get_field_index(field.name) for field in wanted]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(set(numbers)), use_threads=False)
        with pa.memory_map(str(self._path)) as source:
            batches = list(pa.ipc.open_stream(source, options=options))
        return [
            together([pa.chunked_array([batch.column(field.name)]) for batch in batches], field.type)
            for field in wanted
        ]


class Sorting:
    """The buckets of a task, in order."""

    def __init__(self, task: Task, rows: Rows, schema: pa.Schema, share: int, fitting: int, crew: Crew) -> None:
        assert task.order is not None
        self._rows = rows
        self._crew = crew
        self._schema = schema
        self._most = min(max(share * LARGEST, fitting), MOST_ROWS)
        self._order = Order.from_dict(task.order)
        self._keys = [rows.field(key.field_id) for key in self._order.keys]
        self._all_rows = task.rows
        self._passed = 0
        """Rows that were given out."""
        self.count = -(-task.rows // (share * len(task.outputs))) * len(task.outputs)

    def buckets(self, chunks: Iterator[list[Selection]]) -> Iterator[Bucket]:
        """`chunks` are all rows, each as many as fit into memory."""
        with TemporaryDirectory(prefix="icepack-") as folder:
            paths = [Path(folder) / str(number) for number in range(self.count)]
            counts = self._distribute(chunks, paths)
            if max(counts, default=0) > self._most:
                raise Uncovered("a sort by keys that many rows of one file have in common")
            for path, count in zip(paths, counts, strict=True):
                if count:
                    bucket = Bucket(path, self._schema, self._order, self._keys)
                    yield bucket
                    bucket.close()

    def _distribute(self, chunks: Iterator[list[Selection]], paths: Sequence[Path]) -> list[int]:
        edges = self._edges()
        counts = [0] * len(paths)
        with ExitStack() as stack:
            streams: dict[int, _Stream] = {}
            for selections in chunks:
                for number, part in self._divided(selections, edges):
                    if number not in streams:
                        streams[number] = _Stream(stack, paths[number], part.schema)
                    counts[number] += part.num_rows
                    streams[number].write(part)
        return counts

    def _divided(self, selections: list[Selection], edges: Edges) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each bucket; the edges are sorted along with the rows and so fall between them."""
        columns = dict(zip(self._schema.names, self._rows.columns(selections, list(self._schema)), strict=True))
        keys = [edges.around(position, columns[field.name], field) for position, field in enumerate(self._keys)]
        order = permutation(keys, self._order)
        is_extra = edges.are_in(order)
        places = order[~is_extra] - edges.count
        ends = edges.ends(order, np.flatnonzero(is_extra), places, self._passed, self._all_rows)
        self._passed += len(places)
        taken = pa.array(places)
        moved = list(self._crew.each(lambda name: _flat(columns.pop(name)).take(taken), self._schema.names))
        batch = pa.record_batch(moved, names=self._schema.names)
        for number, (start, end) in enumerate(pairwise([0, *ends.tolist(), len(batch)])):
            if start < end:
                yield number, batch.slice(start, end - start)

    def _edges(self) -> Edges:
        sample = [_plain(column, field) for column, field in zip(self._sample(), self._keys, strict=True)]
        order = permutation(sample, self._order)
        if not len(order):
            return Edges([column.slice(0, 0) for column in sample])
        places = order[[len(order) * number // self.count for number in range(1, self.count)]]
        return Edges([column.take(pa.array(places)) for column in sample])

    def _sample(self) -> list[pa.ChunkedArray]:
        parts = [self._few(column) for column in self._rows.sample(SAMPLED_GROUPS, self._keys)]
        return [together([part[position] for part in parts], field.type) for position, field in enumerate(self._keys)]

    def _few(self, columns: list[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
        step = max(len(columns[0]) // SAMPLED_ROWS, 1)
        places = pa.array(np.arange(0, len(columns[0]), step))
        return [column.take(places) for column in columns]


class Edges:
    """The keys at which buckets begin, but for the first."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._columns = columns
        self.count = len(columns[0])
        keys = list(zip(*map(_numbered, columns), strict=True))
        runs = [list(group) for _, group in groupby(range(self.count), key=keys.__getitem__)]
        self._runs = [run for run in runs if len(run) > 1]
        """Edges that are the same key: so many rows have it that it fills as many buckets."""

    def around(self, position: int, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        """The column of one key, between all edges and, once more, those that stand for several: among equals, the
        former come first and the latter come last."""
        edge = self._columns[position]
        again = edge.take(pa.array([run[0] for run in self._runs], pa.int64()))
        if not pa.types.is_dictionary(column.type):
            return pa.chunked_array([edge, *column.chunks, again], field.type)
        before, after = (part.dictionary_encode().cast(column.type) for part in (edge, again))
        return pa.chunked_array([before, *column.chunks, after], column.type).unify_dictionaries()

    def are_in(self, order: np.ndarray) -> np.ndarray:
        """Where the sorted rows are none, but an edge or one that stands for several."""
        is_edge = order < self.count
        return is_edge | (order >= len(order) - len(self._runs)) if self._runs else is_edge

    def ends(self, order: np.ndarray, extras: np.ndarray, places: np.ndarray, passed: int, all_rows: int) -> np.ndarray:
        """How many of the sorted rows, `places`, come before each edge; `passed` of all rows came before these."""
        rows_before = extras - np.arange(len(extras))
        is_edge = order[extras] < self.count
        ends: np.ndarray = rows_before[is_edge]
        for run, last in zip(self._runs, rows_before[~is_edge].tolist(), strict=True):
            first = int(ends[run[0]])
            shares = [all_rows * part // len(run) - passed for part in range(1, len(run))]
            ends[run[1:]] = first + np.searchsorted(places[first:last], shares)
        return ends


def _numbered(column: pa.Array) -> list[int | None]:
    """The same number for the same value, whatever it is: not every one has a counterpart in Python."""
    stored = column.storage if isinstance(column, pa.ExtensionArray) else column
    indices: list[int | None] = stored.dictionary_encode().indices.to_pylist()
    return indices


class _Stream:
    def __init__(self, stack: ExitStack, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        sink = stack.enter_context(pa.OSFile(str(path), "wb"))
        self._writer = stack.enter_context(pa.ipc.new_stream(sink, schema))

    def write(self, part: pa.RecordBatch) -> None:
        """Whether a column comes as a dictionary may change from chunk to chunk; within a stream it may not."""
        self._writer.write_batch(part if part.schema.equals(self._schema) else part.cast(self._schema))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _plain(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    return _flat(column.cast(field.type) if pa.types.is_dictionary(column.type) else column)
