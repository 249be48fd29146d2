"""An input file: its row groups, its columns by field id, and which of its rows are still there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icepack.kernel.project import Names, by_id, missing, project, with_ids
from icepack.kernel.schema import LAST_UPDATED, ROW_ID, leaves, number_of
from icepack.kernel.storage import Storage
from icepack.kernel.task import Input


@dataclass(frozen=True, slots=True)
class Layout:
    """How the columns of a file lie, worked out once for all files that are alike."""

    schema: pa.Schema
    fields: list[pa.Field]
    positions: dict[int, int]
    first_leaf: list[int]

    @classmethod
    def of(cls, schema: pa.Schema, names: Names | None) -> Layout:
        fields = with_ids(schema, names)
        starts = [0]
        for field in fields:
            starts.append(starts[-1] + leaves(field.type))
        return cls(schema, fields, dict(by_id(fields)), starts)

    def leaf_numbers(self, position: int) -> range:
        return range(self.first_leaf[position], self.first_leaf[position + 1])


class Layouts:
    """Remembers the last layout: the files of a table are mostly alike."""

    def __init__(self, names: Names | None) -> None:
        self._names = names
        self._last: Layout | None = None

    def of(self, schema: pa.Schema) -> Layout:
        last = self._last
        if last is None or not last.schema.equals(schema, check_metadata=True):
            # Returned from here and not from `self`: another thread may have put another file's there by now.
            self._last = last = Layout.of(schema, self._names)
        return last


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one row group of one input; `start` and `stop` count from the row group's first row."""

    source: Source
    group: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


class Source:
    """Opened when its first column is asked for, closed with `close`."""

    def __init__(self, item: Input, storage: Storage, layouts: Layouts, dictionaries: Sequence[str] = ()) -> None:
        self.item = item
        self._storage = storage
        self._layouts = layouts
        self._dictionaries = list(dictionaries)
        self._opened: pq.ParquetFile | None = None
        self._opening = Lock()
        self._starts: list[int] | None = None

    @property
    def file(self) -> pq.ParquetFile:
        with self._opening:
            if self._opened is None:
                self._opened = pq.ParquetFile(
                    self._storage.open(self.item.path, self.item.bytes),
                    read_dictionary=self._dictionaries,
                    coerce_int96_timestamp_unit="us",
                )
            return self._opened

    @cached_property
    def layout(self) -> Layout:
        return self._layouts.of(self.file.schema_arrow)

    @property
    def group_starts(self) -> list[int]:
        """The first row of each row group, and the end of the last."""
        if self._starts is None:
            metadata = self.file.metadata
            self._starts = [0]
            for group in range(metadata.num_row_groups):
                self._starts.append(self._starts[-1] + metadata.row_group(group).num_rows)
        return self._starts

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close(force=True)
            self._opened = None

    def pieces(self) -> Iterator[Piece]:
        starts = self.group_starts
        stop = starts[-1] if self.item.stop is None else self.item.stop
        for group, (first, last) in enumerate(pairwise(starts)):
            begin, end = max(first, self.item.start), min(last, stop)
            if begin < end:
                yield Piece(self, group, begin - first, end - first)

    def read(self, piece: Piece, wanted: Sequence[pa.Field]) -> list[pa.ChunkedArray]:
        """These columns of the piece's rows, as the table has them, deleted rows included."""
        positions = self.layout.positions
        present = sorted({positions[number] for field in wanted if (number := number_of(field)) in positions})
        columns = self._read_columns(piece.group, present) if present else {}
        return [self._column(columns, piece, field) for field in wanted]

    def _read_columns(self, group: int, positions: list[int]) -> dict[int, pa.ChunkedArray]:
        """By position and never by name: nothing keeps two columns of a file from having the same."""
        numbers = [leaf for position in positions for leaf in self.layout.leaf_numbers(position)]
        table = self.file.reader.read_row_groups([group], column_indices=numbers, use_threads=False)
        return dict(zip(positions, table.columns, strict=True))

    def _column(self, columns: Mapping[int, pa.ChunkedArray], piece: Piece, field: pa.Field) -> pa.ChunkedArray:
        number = number_of(field)
        position = self.layout.positions.get(number)
        if position is None:
            column = pa.chunked_array([missing(piece.rows, field)])
        else:
            found = self.layout.fields[position]
            column = project(columns[position].slice(piece.start, piece.rows), found, field)
        return self._with_lineage(column, piece, number)

    def _with_lineage(self, column: pa.ChunkedArray, piece: Piece, number: int) -> pa.ChunkedArray:
        """A row that does not state its identity has that of its place in the file."""
        if number == ROW_ID and self.item.first_row_id is not None:
            first = self.item.first_row_id + self.group_starts[piece.group] + piece.start
            return _coalesced(column, pa.array(np.arange(first, first + piece.rows)))
        if number == LAST_UPDATED and self.item.first_row_id is not None:
            return pc.fill_null(column, self.item.sequence_number)
        return column


def _coalesced(column: pa.ChunkedArray, inherited: pa.Array) -> pa.ChunkedArray:
    if column.null_count == len(column):
        return pa.chunked_array([inherited])
    return pa.chunked_array([pc.coalesce(column.combine_chunks(), inherited)])
