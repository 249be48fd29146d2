"""One Parquet file out of column chunks that were encoded apart from one another.

PyArrow writes a row group only from a table that holds all of it. Encoded column by column, a row group
needs the memory of one column, and its columns can be encoded by several threads at once. What is left
to do by hand is the footer: the chunks' own footers, with their offsets moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import is_nested, leaf_paths
from icepack.kernel.parquet.dictionaries import stored_as
from icepack.kernel.parquet.statistics import counted_nulls, ranked_leaves
from icepack.kernel.parquet.thrift import BINARY, I16, I32, I64, LIST, STRUCT, Reader, Struct, write_struct

MAGIC = b"PAR1"

# Numbers of fields in parquet.thrift.
SCHEMA, NUM_ROWS, ROW_GROUPS, KEY_VALUES = 2, 3, 4, 5
COLUMNS, GROUP_BYTES, GROUP_ROWS, GROUP_OFFSET, GROUP_COMPRESSED, ORDINAL = 1, 2, 3, 5, 6, 7
CHUNK_OFFSET, CHUNK_META, OFFSET_INDEX, OFFSET_INDEX_LENGTH, COLUMN_INDEX, COLUMN_INDEX_LENGTH = 2, 3, 4, 5, 6, 7
ENCODINGS, PATH, VALUES, UNCOMPRESSED, COMPRESSED = 2, 3, 5, 6, 7
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, STATISTICS = 9, 10, 11, 12
PAGE_LOCATIONS, PAGE_OFFSET, PAGE_BYTES, PAGE_FIRST_ROW = 1, 1, 2, 3


class Chunks(Protocol):
    """Of one top-level column for one row group; their offsets are those of a file that holds nothing else."""

    @property
    def chunks(self) -> list[Struct]: ...

    @property
    def indexes(self) -> list[tuple[bytes, Struct]]:
        """For each chunk its column index, as it is, and its offset index, read."""

    @property
    def copied_bytes(self) -> int:
        """Of them: what was taken over as it lay in an input."""

    def buffers(self) -> Iterator[Any]:
        """Their bytes."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """As a Parquet file of their own."""

    data: pa.Buffer
    chunks: list[Struct]
    indexes: list[tuple[bytes, Struct]]
    copied_bytes: int = 0

    def buffers(self) -> Iterator[pa.Buffer]:
        yield self.data.slice(len(MAGIC), max(map(_end, self.chunks)) - len(MAGIC))


def encode(column: pa.ChunkedArray, schema: pa.Schema, options: Mapping[str, Any]) -> Encoded:
    """Dictionaries are written as they lie, without their values being looked up again."""
    (field,) = schema
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays([column], schema=pa.schema([stored_as(field, column.type)]))
    known = ranked_leaves(column)
    others = [path for number, path in enumerate(leaf_paths(field.name, field.type)) if number not in known]
    pq.write_table(
        table, sink, row_group_size=max(len(column), 1), write_statistics=others if known else True, **options
    )
    data = sink.getvalue()
    (group,) = footer(data)[ROW_GROUPS][1][1]
    chunks = group[COLUMNS][1][1]
    indexes = [_page_index(data, chunk) for chunk in chunks]
    for number, places in known.items():
        (_, offsets), meta = indexes[number], chunks[number][CHUNK_META][1]
        if places is None:
            meta[STATISTICS] = (STRUCT, counted_nulls(meta))
        else:
            meta[STATISTICS] = (STRUCT, places.statistics())
            starts = [page[PAGE_FIRST_ROW][1] for page in offsets[PAGE_LOCATIONS][1][1]]
            has_levels = field.nullable and not is_nested(field.type)
            indexes[number] = (write_struct(places.column_index(starts, has_levels=has_levels)), offsets)
    return Encoded(data, chunks, indexes)


def footer(data: pa.Buffer) -> Struct:
    view = memoryview(data).cast("B")
    length = int.from_bytes(view[-8:-4], "little")
    return Reader(view, len(view) - 8 - length).struct()


@dataclass(slots=True)
class _Group:
    rows: int
    chunks: list[Struct] = field(default_factory=list)
    indexes: list[tuple[bytes, Struct]] = field(default_factory=list)
    """For each chunk its column index, as it is, and its offset index, read."""


class Splicer:
    """Writes the chunks one after another and the footer at the end."""

    def __init__(self, sink: Any, schema: pa.Schema, key_values: Mapping[str, str], options: Mapping[str, Any]) -> None:
        self._sink = sink
        self._position = 0
        self._groups: list[_Group] = []
        self._footer = _empty_footer(schema, key_values, options)
        self._write(MAGIC)

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self._groups)

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return tuple(chunk_start(group.chunks[0][CHUNK_META][1]) for group in self._groups)

    def begin(self, rows: int) -> None:
        self._groups.append(_Group(rows))

    def add(self, column: Chunks) -> None:
        shift = self._position - len(MAGIC)
        group = self._groups[-1]
        for chunk, (column_index, offset_index) in zip(column.chunks, column.indexes, strict=True):
            group.indexes.append((column_index, moved_pages(offset_index, shift)))
            group.chunks.append(moved(chunk, shift))
        for buffer in column.buffers():
            self._write(buffer)

    def close(self) -> int:
        """The size of the whole file."""
        self._write_indexes()
        self._footer[NUM_ROWS] = (I64, self.rows)
        self._footer[ROW_GROUPS] = (LIST, (STRUCT, [_row_group(*item) for item in enumerate(self._groups)]))
        tail = write_struct(self._footer)
        self._write(tail)
        self._write(len(tail).to_bytes(4, "little") + MAGIC)
        return self._position

    def _write_indexes(self) -> None:
        """All column indexes, then all offset indexes, as the format wants them."""
        chunks = [pair for group in self._groups for pair in zip(group.chunks, group.indexes, strict=True)]
        for chunk, (column_index, _) in chunks:
            self._place(chunk, COLUMN_INDEX, COLUMN_INDEX_LENGTH, column_index)
        for chunk, (_, offset_index) in chunks:
            self._place(chunk, OFFSET_INDEX, OFFSET_INDEX_LENGTH, write_struct(offset_index) if offset_index else b"")

    def _place(self, chunk: Struct, offset_field: int, length_field: int, data: bytes) -> None:
        if data:
            chunk[offset_field] = (I64, self._position)
            chunk[length_field] = (I32, len(data))
            self._write(data)

    def _write(self, data: Any) -> None:
        self._sink.write(data)
        self._position += len(data)


def empty_file(schema: pa.Schema, options: Mapping[str, Any]) -> pa.Buffer:
    """A file that has this schema and no rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink, **options)
    return sink.getvalue()


def _empty_footer(schema: pa.Schema, key_values: Mapping[str, str], options: Mapping[str, Any]) -> Struct:
    found = footer(empty_file(schema, options))
    pairs = [{1: (BINARY, key.encode()), 2: (BINARY, value.encode())} for key, value in key_values.items()]
    found[KEY_VALUES] = (LIST, (STRUCT, pairs))
    return found


def _row_group(ordinal: int, group: _Group) -> Struct:
    metas = [chunk[CHUNK_META][1] for chunk in group.chunks]
    return {
        COLUMNS: (LIST, (STRUCT, group.chunks)),
        GROUP_BYTES: (I64, sum(meta[UNCOMPRESSED][1] for meta in metas)),
        GROUP_ROWS: (I64, group.rows),
        GROUP_OFFSET: (I64, chunk_start(metas[0])),
        GROUP_COMPRESSED: (I64, sum(meta[COMPRESSED][1] for meta in metas)),
        # Readers know row groups by number; a short integer does not hold more of them.
        **({ORDINAL: (I16, ordinal)} if ordinal < 2**15 else {}),
    }


def chunk_start(meta: Struct) -> int:
    pages: list[int] = [meta[key][1] for key in (DICTIONARY_PAGE, DATA_PAGE) if key in meta]
    return min(page for page in pages if page > 0)


def _end(chunk: Struct) -> int:
    meta = chunk[CHUNK_META][1]
    return int(chunk_start(meta) + meta[COMPRESSED][1])


def moved(chunk: Struct, shift: int) -> Struct:
    meta = dict(chunk[CHUNK_META][1])
    for key in (DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE):
        if key in meta and meta[key][1] > 0:
            meta[key] = (I64, meta[key][1] + shift)
    return {CHUNK_OFFSET: (I64, 0), CHUNK_META: (STRUCT, meta)}


def moved_pages(offset_index: Struct, shift: int) -> Struct:
    if not offset_index:
        return {}
    kind, pages = offset_index[PAGE_LOCATIONS][1]
    pages = [{**page, PAGE_OFFSET: (I64, page[PAGE_OFFSET][1] + shift)} for page in pages]
    return {**offset_index, PAGE_LOCATIONS: (LIST, (kind, pages))}


def _page_index(data: pa.Buffer, chunk: Struct) -> tuple[bytes, Struct]:
    if OFFSET_INDEX not in chunk:
        return b"", {}
    offsets = Reader(memoryview(data).cast("B"), chunk[OFFSET_INDEX][1]).struct()
    if COLUMN_INDEX not in chunk:
        return b"", offsets
    start = chunk[COLUMN_INDEX][1]
    return bytes(memoryview(data).cast("B")[start : start + chunk[COLUMN_INDEX_LENGTH][1]]), offsets
