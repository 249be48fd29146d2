"""Reads the rows of a task's inputs that are not deleted, column by column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from icepack.kernel.arrow_schema import find_field_id
from icepack.kernel.deletes.deleted_rows import EqualityDeletes, PositionDeletes, build_position_mask
from icepack.kernel.dictionaries import concat_columns, drop_unused_entries
from icepack.kernel.file_classes import FileClassCounter
from icepack.kernel.file_projection import FileProjectionCache
from icepack.kernel.input_file import InputFileReader, RowGroupSlice
from icepack.kernel.storage import Storage
from icepack.kernel.task import DeleteFile, FileClassCount, InputFile, Task
from icepack.kernel.thread_pool import ThreadPool

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowSelection:
    """A slice of a row group and a mask of the rows that are live; None if all are."""

    slice: RowGroupSlice
    mask: pa.Array | None
    rows: int

    @property
    def is_whole(self) -> bool:
        return self.mask is None and self.slice.is_whole

    def read_columns(self, wanted: Sequence[pa.Field]) -> list[pa.ChunkedArray]:
        columns = self.slice.source.read_columns(self.slice, wanted)
        return columns if self.mask is None else [column.filter(self.mask) for column in columns]


class LiveRows:
    """Applies deletes to the rows of a task's inputs, and counts rows that were read and rows that were deleted."""

    def __init__(
        self,
        task: Task,
        storage: Storage,
        schema: pa.Schema,
        projections: FileProjectionCache,
        dictionary_paths: Sequence[str],
        thread_pool: ThreadPool,
    ) -> None:
        self._thread_pool = thread_pool
        self._file_classes = FileClassCounter()
        self._sources = [
            InputFileReader(file, storage, projections, dictionary_paths, self._file_classes) for file in task.inputs
        ]
        self._position_deletes = PositionDeletes(task, storage)
        self._fields = {find_field_id(field): field for field in schema}
        self._equality_deletes = list(self._read_equality_deletes(task, storage))
        self.rows_read = 0
        self.rows_deleted = 0

    @property
    def file_classes(self) -> tuple[FileClassCount, ...]:
        """Counts of the inputs that were opened, which are all inputs once their rows were read."""
        return self._file_classes.list_counts()

    def get_field(self, field_id: int) -> pa.Field:
        return self._fields[field_id]

    def iter_slices(self) -> Iterator[RowGroupSlice]:
        for source in self._sources:
            yield from source.iter_slices()
            if source.row_group_starts[-1] == 0:
                source.close()

    def sample_columns(self, count: int, wanted: Sequence[pa.Field]) -> Iterator[list[pa.ChunkedArray]]:
        """Reads columns of about `count` row groups, spread over the inputs and within each; ignores deletes."""
        sources = _pick_evenly(self._sources, count)
        for source in sources:
            for row_slice in _pick_evenly(list(source.iter_slices()), max(count // len(sources), 1)):
                yield source.read_columns(row_slice, wanted)
            source.close()

    def select(self, slices: Sequence[RowGroupSlice]) -> list[RowSelection]:
        """Applies the deletes and returns the slices that have live rows."""
        selections = self._thread_pool.map_batches(self._select, slices)
        self.rows_read += sum(row_slice.rows for row_slice in slices)
        self.rows_deleted += sum(selection.slice.rows - selection.rows for selection in selections)
        return [selection for selection in selections if selection.rows]

    def read_columns(
        self, selections: Sequence[RowSelection], wanted: Sequence[pa.Field], *, in_this_thread: bool = False
    ) -> list[pa.ChunkedArray]:
        """Reads columns with all threads, or only with the calling one."""
        if in_this_thread:
            parts = [selection.read_columns(wanted) for selection in selections]
        else:
            parts = self._thread_pool.map_batches(lambda selection: selection.read_columns(wanted), selections)
        columns = [
            concat_columns([part[position] for part in parts], field.type) for position, field in enumerate(wanted)
        ]
        if all(selection.is_whole for selection in selections):
            return columns
        return [drop_unused_entries(column) for column in columns]

    def may_have_deletes(self, file: InputFile) -> bool:
        """Whether there are deletes that apply to this input."""
        is_older = any(deletes.max_sequence_number > file.sequence_number for deletes in self._equality_deletes)
        return is_older or bool(file.position_deletes) or file.deletion_vector is not None

    def close_finished(self, slices: Sequence[RowGroupSlice]) -> None:
        """Closes every input whose last row is in these slices."""
        for row_slice in slices:
            source = row_slice.source
            last = source.input_file.stop if source.input_file.stop is not None else source.row_group_starts[-1]
            if source.row_group_starts[row_slice.row_group] + row_slice.stop >= last:
                source.close()

    def _select(self, row_slice: RowGroupSlice) -> RowSelection:
        source = row_slice.source
        start = source.row_group_starts[row_slice.row_group] + row_slice.start
        positions = self._position_deletes.get_positions(source.input_file)
        mask = build_position_mask(positions, start, start + row_slice.rows)
        for deletes in self._equality_deletes:
            if deletes.max_sequence_number > source.input_file.sequence_number:
                columns = source.read_columns(row_slice, [self._fields[field_id] for field_id in deletes.field_ids])
                is_live = deletes.build_mask(columns, source.input_file.sequence_number)
                mask = is_live if mask is None else mask & is_live
        if mask is None or mask.all():
            return RowSelection(row_slice, None, row_slice.rows)
        return RowSelection(row_slice, pa.array(mask), int(np.count_nonzero(mask)))

    def _read_equality_deletes(self, task: Task, storage: Storage) -> Iterator[EqualityDeletes]:
        by_ids: dict[tuple[int, ...], list[DeleteFile]] = defaultdict(list)
        for file in task.equality_deletes:
            by_ids[file.equality_ids].append(file)
        for field_ids, files in by_ids.items():
            fields = [self._fields[field_id] for field_id in field_ids]
            table_columns = [column for column in task.schema["fields"] if column["id"] in field_ids]
            projections = FileProjectionCache(task.name_mapping, table_columns)
            parts, sequence_numbers = [], []
            for file in files:
                for columns in self._read_keys(file, storage, projections, fields):
                    parts.append(columns)
                    sequence_numbers.append(np.full(len(columns[0]), file.sequence_number, np.int64))
            if parts:
                keys = [concat_columns([part[at] for part in parts], field.type) for at, field in enumerate(fields)]
                yield EqualityDeletes(field_ids, keys, np.concatenate(sequence_numbers))

    def _read_keys(
        self, file: DeleteFile, storage: Storage, projections: FileProjectionCache, fields: Sequence[pa.Field]
    ) -> Iterator[list[pa.ChunkedArray]]:
        input_file = InputFile(path=file.path, bytes=file.bytes, records=0, sequence_number=file.sequence_number)
        source = InputFileReader(input_file, storage, projections)
        wanted = [field.with_nullable(True) for field in fields]
        for row_slice in source.iter_slices():
            yield source.read_columns(row_slice, wanted)
        source.close()


def _pick_evenly(items: Sequence[T], count: int) -> list[T]:
    """Picks at most `count` items, one from the middle of each of as many even parts."""
    count = min(count, len(items))
    return [items[(2 * number + 1) * len(items) // (2 * count)] for number in range(count)]
