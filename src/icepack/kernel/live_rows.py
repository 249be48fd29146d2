"""The rows of a task's inputs that are still there, column by column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from icepack.kernel.arrow_schema import field_id
from icepack.kernel.deletes.deleted_rows import EqualityDeletes, PositionDeletes, is_kept
from icepack.kernel.file_classes import FileClasses
from icepack.kernel.input_file import Layouts, Piece, Source
from icepack.kernel.parquet.dictionaries import together, without_leftovers
from icepack.kernel.storage import Storage
from icepack.kernel.task import DeleteFile, FileClassSeen, Input, Task
from icepack.kernel.thread_pool import Crew

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """A piece and which of its rows stay; None for all."""

    piece: Piece
    kept: pa.Array | None
    rows: int

    @property
    def is_whole(self) -> bool:
        return self.kept is None and self.piece.is_whole

    def read(self, wanted: Sequence[pa.Field]) -> list[pa.ChunkedArray]:
        columns = self.piece.source.read(self.piece, wanted)
        return columns if self.kept is None else [column.filter(self.kept) for column in columns]


class Rows:
    """Counts what it has seen and what deletes have taken of it."""

    def __init__(
        self,
        task: Task,
        storage: Storage,
        schema: pa.Schema,
        layouts: Layouts,
        dictionaries: Sequence[str],
        crew: Crew,
    ) -> None:
        self._crew = crew
        self._classes = FileClasses()
        self._sources = [Source(item, storage, layouts, dictionaries, self._classes) for item in task.inputs]
        self._positions = PositionDeletes(task, storage)
        self._fields = {field_id(field): field for field in schema}
        self._equality = list(self._read_equality_deletes(task, storage))
        self.seen = 0
        self.dropped = 0

    @property
    def classes(self) -> tuple[FileClassSeen, ...]:
        """Of the inputs that were opened, which are all of them once their rows were read."""
        return self._classes.seen()

    def field(self, number: int) -> pa.Field:
        return self._fields[number]

    def pieces(self) -> Iterator[Piece]:
        for source in self._sources:
            yield from source.pieces()
            if source.group_starts[-1] == 0:
                source.close()

    def sample(self, count: int, wanted: Sequence[pa.Field]) -> Iterator[list[pa.ChunkedArray]]:
        """These columns of some row groups, spread over the inputs and within each, deleted rows and all."""
        sources = _spread(self._sources, count)
        for source in sources:
            for piece in _spread(list(source.pieces()), max(count // len(sources), 1)):
                yield source.read(piece, wanted)
            source.close()

    def select(self, pieces: Sequence[Piece]) -> list[Selection]:
        found = self._crew.all(self._select, pieces)
        self.seen += sum(piece.rows for piece in pieces)
        self.dropped += sum(selection.piece.rows - selection.rows for selection in found)
        return [selection for selection in found if selection.rows]

    def columns(
        self, selections: Sequence[Selection], wanted: Sequence[pa.Field], *, alone: bool = False
    ) -> list[pa.ChunkedArray]:
        """Read by all threads, or `alone` by the one that asks."""
        if alone:
            parts = [selection.read(wanted) for selection in selections]
        else:
            parts = self._crew.all(lambda selection: selection.read(wanted), selections)
        columns = [together([part[position] for part in parts], field.type) for position, field in enumerate(wanted)]
        if all(selection.is_whole for selection in selections):
            return columns
        return [without_leftovers(column) for column in columns]

    def may_lose(self, item: Input) -> bool:
        """Whether there are deletes that apply to this input."""
        is_older = any(deletes.newest > item.sequence_number for deletes in self._equality)
        return is_older or bool(item.position_deletes) or item.vector is not None

    def let_go(self, pieces: Sequence[Piece]) -> None:
        """Closes every input whose last row was among these."""
        for piece in pieces:
            source = piece.source
            last = source.item.stop if source.item.stop is not None else source.group_starts[-1]
            if source.group_starts[piece.group] + piece.stop >= last:
                source.close()

    def _select(self, piece: Piece) -> Selection:
        start = piece.source.group_starts[piece.group] + piece.start
        mask = is_kept(self._positions.of(piece.source.item), start, start + piece.rows)
        for deletes in self._equality:
            if deletes.newest > piece.source.item.sequence_number:
                columns = piece.source.read(piece, [self._fields[number] for number in deletes.ids])
                kept = deletes.keeps(columns, piece.source.item.sequence_number)
                mask = kept if mask is None else mask & kept
        if mask is None or mask.all():
            return Selection(piece, None, piece.rows)
        return Selection(piece, pa.array(mask), int(np.count_nonzero(mask)))

    def _read_equality_deletes(self, task: Task, storage: Storage) -> Iterator[EqualityDeletes]:
        by_ids: dict[tuple[int, ...], list[DeleteFile]] = defaultdict(list)
        for file in task.equality_deletes:
            by_ids[file.equality_ids].append(file)
        for ids, files in by_ids.items():
            fields = [self._fields[number] for number in ids]
            layouts = Layouts(task.name_mapping, [column for column in task.schema["fields"] if column["id"] in ids])
            keys, numbers = [], []
            for file in files:
                for columns in self._keys(file, storage, layouts, fields):
                    keys.append(columns)
                    numbers.append(np.full(len(columns[0]), file.sequence_number, np.int64))
            if keys:
                together_keys = [together([part[i] for part in keys], field.type) for i, field in enumerate(fields)]
                yield EqualityDeletes(ids, together_keys, np.concatenate(numbers))

    def _keys(
        self, file: DeleteFile, storage: Storage, layouts: Layouts, fields: Sequence[pa.Field]
    ) -> Iterator[list[pa.ChunkedArray]]:
        item = Input(path=file.path, bytes=file.bytes, records=0, sequence_number=file.sequence_number)
        source = Source(item, storage, layouts)
        wanted = [field.with_nullable(True) for field in fields]
        for piece in source.pieces():
            yield source.read(piece, wanted)
        source.close()


def _spread(items: Sequence[T], count: int) -> list[T]:
    """So many of them at most, one from the middle of each of as many even parts."""
    count = min(count, len(items))
    return [items[(2 * number + 1) * len(items) // (2 * count)] for number in range(count)]
