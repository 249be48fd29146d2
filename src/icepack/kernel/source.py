"""An input file: its row groups, its columns by field id, and which of its rows are still there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from threading import Lock, get_ident
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icepack.kernel.dictionaries import has_own_nulls, stored_as
from icepack.kernel.project import LOST_FIELDS, Names, by_id, has_ids, has_lost_all, is_same, missing, project, with_ids
from icepack.kernel.schema import LAST_UPDATED, ROW_ID, Uncovered, leaf_types, leaves, number_of
from icepack.kernel.storage import Storage
from icepack.kernel.task import Input


@dataclass(frozen=True, slots=True)
class Way:
    """How one column that is wanted comes out of what is read."""

    field: pa.Field
    number: int
    found: pa.Field | None
    """The file's own; None where it has none."""
    place: int
    """Among the columns that are read."""
    as_it_is: pa.DataType | None
    """The type with which it can be taken as it is; None where it cannot."""


@dataclass(frozen=True, slots=True)
class Route:
    """Some columns of the table, out of any file of one layout."""

    wanted: Sequence[pa.Field]
    leaf_numbers: list[int]
    ways: list[Way]


class Layout:
    """How the columns of a file lie, worked out once for all files that are alike."""

    def __init__(self, schema: pa.Schema, names: Names | None) -> None:
        self.schema = schema
        self._fields = with_ids(schema, names)
        self._is_by_name = not has_ids(schema)
        self._positions = dict(by_id(self._fields))
        self._first_leaf = list(accumulate((leaves(field.type) for field in self._fields), initial=0))
        self._last: dict[int, Route] = {}
        kinds = (kind for field in schema for kind in leaf_types(field.type))
        own_nulls = (is_own for field in schema for is_own in has_own_nulls(field))
        self.unsafe = [
            number
            for number, (kind, is_own) in enumerate(zip(kinds, own_nulls, strict=True))
            if pa.types.is_dictionary(kind) and not is_own
        ]
        """Parquet columns, by number, that must not be read as dictionaries."""

    def route(self, wanted: Sequence[pa.Field]) -> Route:
        """Remembers the last one of each thread: it asks the same columns of file after file."""
        last = self._last.get(get_ident())
        if last is None or last.wanted is not wanted:
            self._last[get_ident()] = last = self._route(wanted)
        return last

    def _route(self, wanted: Sequence[pa.Field]) -> Route:
        numbers = [number_of(field) for field in wanted]
        present = sorted({self._positions[number] for number in numbers if number in self._positions})
        places = {position: place for place, position in enumerate(present)}
        read = [leaf for at in present for leaf in range(self._first_leaf[at], self._first_leaf[at + 1])]
        return Route(wanted, read, [self._way(field, places) for field in wanted])

    def _way(self, field: pa.Field, places: Mapping[int, int]) -> Way:
        number = number_of(field)
        position = self._positions.get(number)
        if position is None:
            return Way(field, number, None, 0, as_it_is=None)
        found = self._fields[position]
        if self._is_by_name and has_lost_all(found, field):
            raise Uncovered(LOST_FIELDS)
        as_it_is = stored_as(field, found.type).type if is_same(found, field) else None
        return Way(field, number, found, places[position], as_it_is)


class Layouts:
    """Remembers the last layout: the files of a table are mostly alike."""

    def __init__(self, names: Names | None) -> None:
        self._names = names
        self._last: Layout | None = None

    def of(self, schema: pa.Schema) -> Layout:
        last = self._last
        if last is None or not last.schema.equals(schema, check_metadata=True):
            # Returned from here and not from `self`: another thread may have put another file's there by now.
            self._last = last = Layout(schema, self._names)
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

    @property
    def is_whole(self) -> bool:
        starts = self.source.group_starts
        return self.rows == starts[self.group + 1] - starts[self.group]

    @property
    def stored_bytes(self) -> float:
        """Its share of the file, by its rows."""
        return self.source.item.bytes_per_row * self.rows


@dataclass(frozen=True, slots=True)
class Readers:
    """Of one file, that nobody uses right now."""

    dictionaries: list[str]
    """Columns that they read as such, by their paths."""
    idle: list[pq.ParquetFile]


class OpenFile:
    """A file, and readers of it: PyArrow's must not be used by two threads at once, so each takes one for itself."""

    def __init__(self, raw: Any, dictionaries: Sequence[str], *, is_remote: bool = False) -> None:
        self.raw = raw
        self._options = {"coerce_int96_timestamp_unit": "us", "pre_buffer": is_remote}
        self.file, there = self._first_reader(list(dictionaries))
        self._readers = Readers(there, [self.file])

    def read(self, group: int, numbers: list[int]) -> pa.Table:
        readers = self._readers
        try:
            return self._read(readers, group, numbers)
        except OSError:
            readable = [path for path in readers.dictionaries if self._is_readable(path)]
            if len(readable) == len(readers.dictionaries):
                raise
            self._readers = Readers(readable, [])
            return self._read(self._readers, group, numbers)

    def read_plainly(self, numbers: Sequence[int]) -> None:
        """These of its columns, although they were to be read as dictionaries."""
        paths = {path for number, path in enumerate(paths_of(self.file.metadata)) if number in numbers}
        self._readers = Readers([path for path in self._readers.dictionaries if path not in paths], [])

    def close(self) -> None:
        self.file.close(force=True)

    def _read(self, readers: Readers, group: int, numbers: list[int]) -> pa.Table:
        try:
            file = readers.idle.pop()
        except IndexError:
            file = self._reader(readers.dictionaries, metadata=self.file.metadata)
        table = file.reader.read_row_groups([group], column_indices=numbers, use_threads=False)
        readers.idle.append(file)
        return table

    def _first_reader(self, dictionaries: list[str]) -> tuple[pq.ParquetFile, list[str]]:
        """PyArrow refuses a name that the file does not have; a file may be older than a column, or than its name."""
        try:
            return self._reader(dictionaries), dictionaries
        except KeyError:
            paths = paths_of(pq.read_metadata(self.raw))
            there = [path for path in dictionaries if path in paths]
            return self._reader(there), there

    def _is_readable(self, path: str) -> bool:
        """PyArrow makes no dictionaries of texts that are stored by their differences, as some writers do."""
        metadata = self.file.metadata
        number = paths_of(metadata).index(path)
        chunks = (metadata.row_group(group).column(number) for group in range(metadata.num_row_groups))
        return not any(encoding.startswith("DELTA") for chunk in chunks for encoding in chunk.encodings)

    def _reader(self, dictionaries: list[str], **more: Any) -> pq.ParquetFile:
        return pq.ParquetFile(self.raw, read_dictionary=dictionaries, **self._options, **more)


def paths_of(metadata: pq.FileMetaData) -> list[str]:
    """Of a file's columns, by number."""
    return [metadata.schema.column(number).path for number in range(metadata.num_columns)]


class Source:
    """Opened when its first column is asked for, closed with `close`."""

    def __init__(self, item: Input, storage: Storage, layouts: Layouts, dictionaries: Sequence[str] = ()) -> None:
        self.item = item
        self._storage = storage
        self._layouts = layouts
        self._dictionaries = list(dictionaries)
        self._opened: OpenFile | None = None
        self._opening = Lock()
        self._layout: Layout | None = None
        self._starts: list[int] | None = None

    @property
    def file(self) -> pq.ParquetFile:
        return self._open().file

    @property
    def layout(self) -> Layout:
        self._open()
        assert self._layout is not None
        return self._layout

    @property
    def raw(self) -> Any:
        """Its bytes."""
        return self._open().raw

    def _open(self) -> OpenFile:
        with self._opening:
            if self._opened is None:
                raw = self._storage.open(self.item.path, self.item.bytes)
                is_remote = not isinstance(raw, pa.BufferReader) and self._storage.is_remote(self.item.path)
                opened = OpenFile(raw, self._dictionaries, is_remote=is_remote)
                self._layout = self._layouts.of(opened.file.schema_arrow)
                if self._layout.unsafe:
                    opened.read_plainly(self._layout.unsafe)
                self._opened = opened
            return self._opened

    @property
    def group_starts(self) -> list[int]:
        """The first row of each row group, and the end of the last."""
        if self._starts is None:
            metadata = self.file.metadata
            rows = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
            self._starts = list(accumulate(rows, initial=0))
        return self._starts

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
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
        route = self.layout.route(wanted)
        columns = self._read_columns(piece, route.leaf_numbers)
        return [self._column(columns, piece, way) for way in route.ways]

    def _read_columns(self, piece: Piece, numbers: list[int]) -> list[pa.ChunkedArray]:
        """By position and never by name: nothing keeps two columns of a file from having the same."""
        if not numbers:
            return []
        table = self._open().read(piece.group, numbers)
        whole = piece.rows == table.num_rows
        return list((table if whole else table.slice(piece.start, piece.rows)).columns)

    def _column(self, columns: list[pa.ChunkedArray], piece: Piece, way: Way) -> pa.ChunkedArray:
        if way.found is None:
            column = pa.chunked_array([missing(piece.rows, way.field)])
        else:
            column = columns[way.place]
            if column.type != way.as_it_is:
                column = project(column, way.found, way.field)
        return self._with_lineage(column, piece, way.number)

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
