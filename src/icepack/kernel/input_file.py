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

from icepack.kernel.arrow_schema import LAST_UPDATED, ROW_ID, Uncovered, leaf_types, leaves, number_of
from icepack.kernel.file_classes import FileClasses
from icepack.kernel.file_coverage import Json, check_columns
from icepack.kernel.parquet.dictionaries import has_own_nulls, stored_as
from icepack.kernel.parquet.errors import DamagedPage
from icepack.kernel.parquet.file_schema import FileSchema
from icepack.kernel.parquet.footer import KnownSchemas, has_arrow_schema, metadata_of, read_footer_bytes
from icepack.kernel.projection import (
    LOST_FIELDS,
    Names,
    by_id,
    constant,
    has_ids,
    has_lost_all,
    is_looser,
    is_same,
    missing,
    project,
    refuse_nulls,
    with_ids,
)
from icepack.kernel.storage import Storage
from icepack.kernel.task import DeleteFile, Input

CHECKSUM_FAILED = "CRC checksum verification failed"
"""Part of PyArrow's message."""


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
    is_constant: bool = False
    """Whether the partition says its value."""
    may_be_null: bool = False
    """Whether the file allows nulls where the table does not."""


@dataclass(frozen=True, slots=True)
class Route:
    """Some columns of the table, out of any file of one layout."""

    wanted: Sequence[pa.Field]
    leaf_numbers: list[int]
    ways: list[Way]


class Layout:
    """How the columns of a file lie, worked out and checked once for all files that are alike."""

    def __init__(
        self,
        stored: FileSchema,
        schema: pa.Schema,
        constants: frozenset[int],
        names: Names | None,
        columns: Sequence[Json],
    ) -> None:
        self.stored = stored
        self.schema = schema
        self.constants = constants
        if stored.has_ids != has_ids(schema):
            raise Uncovered("files whose field ids PyArrow does not read")
        self._fields = with_ids(schema, names)
        check_columns(stored, self._fields, [column for column in columns if column["id"] not in constants])
        self._is_by_name = not stored.has_ids
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

    @property
    def fields(self) -> Sequence[pa.Field]:
        """The file's columns with their ids."""
        return self._fields

    def route(self, wanted: Sequence[pa.Field]) -> Route:
        """Remembers the last one of each thread: it asks the same columns of file after file."""
        last = self._last.get(get_ident())
        if last is None or last.wanted is not wanted:
            self._last[get_ident()] = last = self._route(wanted)
        return last

    def _route(self, wanted: Sequence[pa.Field]) -> Route:
        numbers = [number for field in wanted if (number := number_of(field)) not in self.constants]
        present = sorted({self._positions[number] for number in numbers if number in self._positions})
        places = {position: place for place, position in enumerate(present)}
        read = [leaf for at in present for leaf in range(self._first_leaf[at], self._first_leaf[at + 1])]
        return Route(wanted, read, [self._way(field, places) for field in wanted])

    def _way(self, field: pa.Field, places: Mapping[int, int]) -> Way:
        number = number_of(field)
        position = self._positions.get(number)
        if number in self.constants:
            return Way(field, number, None, 0, as_it_is=None, is_constant=True)
        if position is None:
            return Way(field, number, None, 0, as_it_is=None)
        found = self._fields[position]
        if self._is_by_name and has_lost_all(found, field):
            raise Uncovered(LOST_FIELDS)
        as_it_is = stored_as(field, found.type).type if is_same(found, field) else None
        return Way(field, number, found, places[position], as_it_is, may_be_null=is_looser(found, field))


class Layouts:
    """Remembers the last layout: the files of a table are mostly alike."""

    def __init__(self, names: Names | None, columns: Sequence[Json]) -> None:
        """`columns` are those of the table that are read, as its schema has them."""
        self._names = names
        self._columns = columns
        self._last: Layout | None = None
        self.schemas = KnownSchemas()

    def of(self, opened: OpenFile, constants: frozenset[int] = frozenset()) -> Layout:
        last = self._last
        stored, schema = opened.schema, opened.file.schema_arrow
        if (
            last is None
            or last.stored is not stored
            or last.constants != constants
            or not last.schema.equals(schema, check_metadata=True)
        ):
            # Returned from here and not from `self`: another thread may have put another file's there by now.
            self._last = last = Layout(stored, schema, constants, self._names, self._columns)
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

    def __init__(
        self,
        item: Input | DeleteFile,
        storage: Storage,
        schemas: KnownSchemas,
        dictionaries: Sequence[str] = (),
    ) -> None:
        self.path = item.path
        self.raw = storage.open(item.path, item.bytes)
        is_remote = not isinstance(self.raw, pa.BufferReader) and storage.is_remote(item.path)
        self._options = {"pre_buffer": is_remote, "page_checksum_verification": True}
        self.footer = read_footer_bytes(self.raw, item.bytes)
        self.schema = schemas.of(self.footer)
        there = [path for path in dictionaries if path in self.schema.paths]
        self.file = self._first_reader(there)
        self.metadata = self.file.metadata
        if self.metadata.serialized_size != len(self.footer):
            # A signature follows the footer. To ask PyArrow for an encrypted column would end the process.
            raise Uncovered("encrypted Parquet files")
        self.facts = schemas.chunks(self.schema).facts(self.footer, self.metadata.num_row_groups)
        readable = self._readable(there)
        if len(readable) < len(there):
            self.file = self._reader(readable, self.metadata)
        self._readers = Readers(readable, [self.file])

    def read(self, group: int, numbers: list[int]) -> pa.Table:
        try:
            return self._read(group, numbers)
        except OSError as exc:
            if CHECKSUM_FAILED in str(exc):
                raise self._damage(group, numbers, exc) from exc
            raise

    def read_plainly(self, numbers: Sequence[int]) -> None:
        """These of its columns, although they were to be read as dictionaries."""
        paths = {self.schema.paths[number] for number in numbers}
        self._readers = Readers([path for path in self._readers.dictionaries if path not in paths], [])

    def close(self) -> None:
        self.file.close(force=True)

    def _read(self, group: int, numbers: list[int]) -> pa.Table:
        readers = self._readers
        try:
            file = readers.idle.pop()
        except IndexError:
            file = self._reader(readers.dictionaries, self.metadata)
        table = file.reader.read_row_groups([group], column_indices=numbers, use_threads=False)
        readers.idle.append(file)
        return table

    def _first_reader(self, dictionaries: list[str]) -> pq.ParquetFile:
        """Without a request for the footer, which is here already."""
        try:
            if isinstance(self.raw, pa.BufferReader) and not has_arrow_schema(self.footer):
                return self._reader(dictionaries, None)
            return self._reader(dictionaries, metadata_of(self.footer, self.schema))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            # The footer was read by now, so it is the schema that PyArrow has no types for.
            raise Uncovered(f"files that PyArrow does not open: {exc}") from exc

    def _readable(self, dictionaries: list[str]) -> list[str]:
        """Without columns whose encoding PyArrow makes no dictionary of."""
        if not self.facts.no_dictionary:
            return dictionaries
        refused = {self.schema.paths[number] for number in self.facts.no_dictionary}
        return [path for path in dictionaries if path not in refused]

    def _damage(self, group: int, numbers: list[int], cause: OSError) -> DamagedPage:
        """Names the column: PyArrow tells only the page, and of whichever column it read first."""
        for number in numbers:
            try:
                self._read(group, [number])
            except OSError as exc:
                return DamagedPage(self.path, self.schema.paths[number], f"row group {group}, {exc}")
        return DamagedPage(self.path, "unknown", f"row group {group}, {cause}")

    def _reader(self, dictionaries: list[str], metadata: pq.FileMetaData | None) -> pq.ParquetFile:
        return pq.ParquetFile(self.raw, metadata=metadata, read_dictionary=dictionaries, **self._options)


class Source:
    """Opened when its first column is asked for, closed with `close`."""

    def __init__(
        self,
        item: Input,
        storage: Storage,
        layouts: Layouts,
        dictionaries: Sequence[str] = (),
        classes: FileClasses | None = None,
    ) -> None:
        self.item = item
        self._storage = storage
        self._layouts = layouts
        self._classes = classes
        self._constants = frozenset(item.constants)
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

    @property
    def footer(self) -> bytes:
        return self._open().footer

    def _open(self) -> OpenFile:
        with self._opening:
            if self._opened is None:
                opened = OpenFile(self.item, self._storage, self._layouts.schemas, self._dictionaries)
                self._layout = self._layouts.of(opened, self._constants)
                if self._layout.unsafe:
                    opened.read_plainly(self._layout.unsafe)
                self._count_class(opened)
                self._opened = opened
            return self._opened

    def _count_class(self, opened: OpenFile) -> None:
        """Once: a file that was closed may be opened again."""
        if self._classes is not None:
            self._classes.add(self.item, opened.schema, opened.metadata.created_by or "", opened.facts)
            self._classes = None

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
        if way.is_constant:
            return pa.chunked_array([constant(piece.rows, way.field, self.item.constants[way.number])])
        if way.found is None:
            column = pa.chunked_array([missing(piece.rows, way.field)])
        else:
            column = columns[way.place]
            if column.type != way.as_it_is:
                column = project(column, way.found, way.field)
            if way.may_be_null:
                refuse_nulls(column, way.field)
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
