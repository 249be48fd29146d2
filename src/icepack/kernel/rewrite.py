"""One task: its inputs, without their deleted rows, as one Parquet file, or as several sorted together.

Row group after row group, and in each a few columns at a time: read from every input, put together and
encoded by themselves. So the memory is that of some columns of one row group, whatever the table's size.
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

from icepack.kernel.arrow_schema import LINEAGE, arrow_schema, leaf_paths, leaf_types, number_of
from icepack.kernel.input_file import Layouts
from icepack.kernel.live_rows import Rows, Selection
from icepack.kernel.memory import choose_allocator
from icepack.kernel.parquet.bounds import Bounds
from icepack.kernel.parquet.chunk_writer import Chunks, Encoded, Splicer, encode
from icepack.kernel.parquet.copy_chunks import Form, needs_values, tells_the_truth
from icepack.kernel.parquet.copy_row_groups import Copier, Original
from icepack.kernel.parquet.dictionaries import plain
from icepack.kernel.parquet.encoding import Encodings
from icepack.kernel.parquet.merge_pages import Joiner
from icepack.kernel.parquet.row_groups import Shares, in_shares, row_groups
from icepack.kernel.sorting.external_sort import Bucket, Sorting
from icepack.kernel.storage import Storage
from icepack.kernel.task import OutputFile, Task, Written
from icepack.kernel.thread_pool import Crew

Made = tuple[pa.ChunkedArray, Chunks]
"""A column's values and its chunks."""
MakeColumn = Callable[[pa.Field], Made]

BLOCK_SHARE = 0.3
"""Of a task's memory that the columns in work may take as Arrow; reading and encoding need the rest."""
LEAST_BLOCKS = 5
"""That fit into it together, so that threads seldom wait for one another. Measured on 20 million rows with two threads:
490 MB and 5.4 s instead of 850 MB and 5.8 s when both read a block and then both encode it."""
MOST_GROUP_ROWS = 2**25
"""Of a row group, however few bytes they take. PyArrow writes up to 2 ** 26 at a time and begins a new row group then;
a row group may outgrow its share by more than a third."""
MOVED_SHARE = 0.1
"""The same for rows that are moved into buckets, with all their columns, of which there are three copies at a time.
Measured on 20 million rows: 460 MB and 8.0 s of CPU instead of 1,050 MB and 10.5 s with a share of 0.3."""


def rewrite(task: Task, storage: Storage) -> Written:
    """Writes the outputs and says what became of the rows; leaves nothing behind when it fails."""
    choose_allocator()
    try:
        with Crew(task.threads) as crew:
            return _Rewrite(task, storage, crew).run()
    except BaseException:
        for output in task.outputs:
            storage.remove(output)
        raise


@dataclass(slots=True)
class Tally:
    """What the footer of an output does not tell."""

    nans: dict[int, int] = dataclass_field(default_factory=dict)
    bounds: Bounds = dataclass_field(default_factory=Bounds)

    def note(self, field: pa.Field, column: pa.ChunkedArray, made: Chunks) -> Chunks:
        """By whichever thread has made it: no column has two at a time."""
        count_nans(field, column, self.nans)
        self.bounds.see(field, column, made.chunks)
        return made


@dataclass(frozen=True, slots=True)
class Block:
    """Columns that are read together."""

    fields: list[pa.Field]
    bytes: float
    """As Arrow, of one row group."""


MakeBlock = Callable[[Block], Iterator[Made]]


class _Rewrite:
    def __init__(self, task: Task, storage: Storage, crew: Crew) -> None:
        self._task = task
        self._storage = storage
        self._crew = crew
        self._schema = arrow_schema(task.schema, with_lineage=task.lineage)
        layouts = Layouts(task.name_mapping, read_columns(task))
        self._encodings = Encodings(task, storage, layouts)
        self._rows = Rows(task, storage, self._schema, layouts, self._encodings.dictionary_names, crew)
        form = Form(self._schema, self._encodings.base)
        self._copier = Copier(task, self._rows, self._schema, form)
        self._joiner = Joiner(task, self._schema, form)
        self._copied_bytes = 0

    def run(self) -> Written:
        files = self._write_in_order() if self._task.order is None else self._write_sorted()
        return Written(
            files=tuple(files),
            rows_in=self._rows.seen,
            rows_dropped=self._rows.dropped,
            requests=self._storage.requests,
            copied_bytes=self._copied_bytes,
            classes=self._rows.classes,
            peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )

    def _write_sorted(self) -> Iterator[OutputFile]:
        share, fitting = self._share(), self._fitting_rows()
        sorting = Sorting(self._task, self._rows, self._schema, share, fitting, self._crew)
        buckets = sorting.buckets(self._chunks())
        each = -(-sorting.count // len(self._task.outputs))
        for output in self._task.outputs:
            mine = list(islice(buckets, 1))
            if not mine:
                return
            tally = Tally()
            with self._storage.create(output) as sink:
                splicer = self._splicer(sink)
                for bucket in chain(mine, islice(buckets, each - 1)):
                    self._write_each(splicer, bucket.rows, partial(self._sorted, bucket), tally)
                size = splicer.close()
            yield self._output_file(output, size, splicer, tally)

    def _chunks(self) -> Iterator[list[Selection]]:
        """All rows, as many at a time as fit into memory with all their columns."""
        width = sum(map(self._encodings.bytes_per_row, self._schema))
        share = max(int(self._task.memory_bytes * MOVED_SHARE / max(width, 1.0)), 1)
        for pieces in in_shares(self._rows.pieces(), share):
            yield self._rows.select(pieces)
            self._rows.let_go(pieces)

    def _splicer(self, sink: Any) -> Splicer:
        return Splicer(sink, self._schema, key_values(self._task), self._encodings.base)

    def _write_in_order(self) -> Iterator[OutputFile]:
        (output,) = self._task.outputs
        tally = Tally()
        with ExitStack() as stack:
            splicer: Splicer | None = None
            shares = Shares(self._share(), self._most_rows(), self._copier.least_bytes)
            original_of = partial(self._copier.original, most_rows=self._fitting_rows())
            for group in row_groups(self._rows.pieces(), shares, original_of):
                selections = self._rows.select(group.pieces)
                rows = sum(selection.rows for selection in selections)
                if rows and splicer is None:
                    sink = stack.enter_context(self._storage.create(output))
                    splicer = self._splicer(sink)
                if rows and splicer is not None and group.original is not None:
                    self._write_each(splicer, rows, partial(self._copied, group.original, selections), tally)
                elif rows and splicer is not None:
                    self._write_columns(splicer, rows, selections, tally)
                self._rows.let_go(group.pieces)
            if splicer is None:
                return
            size = splicer.close()
        yield self._output_file(output, size, splicer, tally)

    def _output_file(self, path: str, size: int, splicer: Splicer, tally: Tally) -> OutputFile:
        return OutputFile(
            path=path,
            bytes=size,
            rows=splicer.rows,
            nan_counts=tally.nans,
            bounds=tally.bounds.told(self._task.writing.longest_bound),
            split_offsets=splicer.split_offsets,
        )

    def _write_columns(self, splicer: Splicer, rows: int, selections: Sequence[Selection], tally: Tally) -> None:
        """One row group, out of many pieces."""
        joined = self._joiner.columns(selections)
        unread = {number for number in joined if not needs_values(self._rows.field(number))}

        def make(block: Block) -> Iterator[Made]:
            wanted = [field for field in block.fields if number_of(field) not in unread]
            found = iter(self._rows.columns(selections, wanted, alone=True) if wanted else ())
            for field in block.fields:
                column = no_values(field) if number_of(field) in unread else next(found)
                yield column, self._taken_over(field, column, joined.get(number_of(field)))

        self._write_blocks(splicer, rows, make, tally, unread)

    def _write_each(self, splicer: Splicer, rows: int, make: MakeColumn, tally: Tally) -> None:
        """One row group of which each column is made by itself, from the first byte on."""
        self._write_blocks(splicer, rows, lambda block: map(make, block.fields), tally)

    def _write_blocks(
        self, splicer: Splicer, rows: int, make: MakeBlock, tally: Tally, unread: Container[int] = ()
    ) -> None:
        """One row group. A thread makes all of a block, so that none waits for another while there are blocks left."""
        splicer.begin(rows)
        blocks = list(self._blocks(rows, unread))

        def finish(block: Block) -> list[Chunks]:
            return [tally.note(field, *made) for field, made in zip(block.fields, make(block), strict=True)]

        for chunks in self._crew.ahead(finish, blocks, [block.bytes for block in blocks], self._budget):
            for column in chunks:
                splicer.add(column)
                self._copied_bytes += column.copied_bytes

    def _sorted(self, bucket: Bucket, field: pa.Field) -> Made:
        column = bucket.column(field)
        return column, self._encode(field, column)

    def _copied(self, original: Original, selections: Sequence[Selection], field: pa.Field) -> Made:
        """As it lies in the input, but for what the table has otherwise. No values where nobody needs them."""
        copied = original.columns.get(number_of(field))
        if copied is not None and not needs_values(field):
            return no_values(field), copied
        (column,) = self._rows.columns(selections, [field], alone=True)
        return column, self._taken_over(field, column, copied)

    def _taken_over(self, field: pa.Field, column: pa.ChunkedArray, ready: Chunks | None) -> Chunks:
        """What lies in the inputs where its footer is right about the values; else they are encoded."""
        if ready is not None and tells_the_truth(field, column, ready.chunks):
            return ready
        return self._encode(field, column)

    def _encode(self, field: pa.Field, column: pa.ChunkedArray) -> Encoded:
        options = self._encodings.options(field, column)
        paths = zip(leaf_paths(field.name, field.type), leaf_types(column.type), strict=True)
        if {path for path, kind in paths if pa.types.is_dictionary(kind)} - set(options["use_dictionary"] or ()):
            column = plain(column)
        return encode(column, pa.schema([field]), options)

    def _blocks(self, rows: int, unread: Container[int] = ()) -> Iterator[Block]:
        """Neighbouring columns, so many that every thread can have some in work; those that are not read take none."""
        read = (field for field in self._schema if number_of(field) not in unread)
        sizes = {number_of(field): self._encodings.bytes_per_row(field) * rows for field in read}
        fit = self._budget / max(self._task.threads + 1, LEAST_BLOCKS)
        budget = min(fit, sum(sizes.values()) / self._task.threads)
        fields: list[pa.Field] = []
        filled = 0.0
        for field in self._schema:
            size = sizes.get(number_of(field), 0.0)
            if fields and filled + size > budget:
                yield Block(fields, filled)
                fields, filled = [], 0.0
            fields.append(field)
            filled += size
        yield Block(fields, filled)

    @property
    def _budget(self) -> float:
        return self._task.memory_bytes * BLOCK_SHARE

    def _share(self) -> int:
        """Rows of each row group, so that all are of the same size."""
        rows = max(self._task.rows, 1)
        return -(-rows // -(-rows // self._most_rows()))

    def _most_rows(self) -> int:
        """That a row group may have."""
        stored = sum(item.bytes_per_row * item.rows for item in self._task.inputs)
        by_size = self._task.writing.row_group_bytes / max(stored / max(self._task.rows, 1), 1e-3)
        return max(min(int(by_size), self._fitting_rows()), 1)

    def _fitting_rows(self) -> int:
        """Of which any column fits into memory."""
        widest = max(map(self._encodings.bytes_per_row, self._schema), default=1.0)
        return max(min(int(self._task.memory_bytes * BLOCK_SHARE / widest), MOST_GROUP_ROWS), 1)


def read_columns(task: Task) -> list[Mapping[str, Any]]:
    """The columns of the table that are read from the inputs."""
    return [*task.schema["fields"], *(LINEAGE if task.lineage else ())]


def no_values(field: pa.Field) -> pa.ChunkedArray:
    """Of a column that nobody has to read."""
    return pa.chunked_array([], field.type)


def count_nans(field: pa.Field, column: Any, counts: dict[int, int]) -> None:
    """Iceberg keeps them for numbers that are not inside lists or maps."""
    if pa.types.is_floating(field.type):
        number = number_of(field)
        counts[number] = counts.get(number, 0) + (pc.sum(pc.is_nan(column)).as_py() or 0)
    elif pa.types.is_struct(field.type):
        for position, child in enumerate(field.type):
            count_nans(child, pc.struct_field(column, position), counts)


def key_values(task: Task) -> dict[str, str]:
    """Iceberg's writers put the table's schema beside the file's own."""
    return {"iceberg.schema": json.dumps(task.schema, separators=(",", ":"))}
