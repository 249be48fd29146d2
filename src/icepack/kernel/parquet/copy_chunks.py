"""How columns lie in an input, and whether the same bytes would mean the same in the output.

They do where types, levels and codec are the same, and where the footer and the page indexes tell exactly what a
rewrite would find out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from struct import unpack
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import LINEAGE_IDS, Uncovered, leaves, number_of, single_value
from icepack.kernel.input_file import Source
from icepack.kernel.parquet.bounds import bounded_leaves, said
from icepack.kernel.parquet.checksums import Checksum, checksum_state
from icepack.kernel.parquet.chunk_writer import (
    CHUNK_META,
    COLUMN_INDEX,
    COLUMN_INDEX_LENGTH,
    COLUMNS,
    COMPRESSED,
    ENCODINGS,
    MAGIC,
    OFFSET_INDEX,
    OFFSET_INDEX_LENGTH,
    PAGE_BYTES,
    PAGE_LOCATIONS,
    PAGE_OFFSET,
    PATH,
    ROW_GROUPS,
    STATISTICS,
    VALUES,
    chunk_start,
    empty_file,
    moved,
    moved_pages,
)
from icepack.kernel.parquet.dictionaries import plain_type
from icepack.kernel.parquet.errors import DamagedPage
from icepack.kernel.parquet.statistics import IS_MAX_EXACT, IS_MIN_EXACT, MAX, MIN, NULLS
from icepack.kernel.parquet.thrift import BINARY, LIST, STRUCT, TRUE, Reader, Struct
from icepack.kernel.projection import by_id, is_alike, with_ids
from icepack.kernel.task import Task

SLICE_BYTES = 8 * 2**20

# Numbers of fields in parquet.thrift.
_COLUMN_ORDERS, _TYPE_ORDER = 7, 1
_FILE_PATH, _CRYPTO, _ENCRYPTED = 1, 8, 9
_CODEC = 4
_LEFT_BEHIND = frozenset({8, 10, 14, 15})
"""A chunk's own keys and values, and where its index page and its bloom filter lie."""
_COMMON_ENCODINGS = frozenset({0, 2, 3, 4, 8})
"""Plain values, dictionaries and levels, which every reader knows; some of Iceberg's fail on the others, and a table
should be rid of them."""
_STORED_BY = ("physical_type", "length", "max_definition_level", "max_repetition_level")
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}


Place = tuple[int, int]
"""Offset and length."""


@dataclass(frozen=True, slots=True)
class Copied:
    """The chunks of one column, where they lie in an input."""

    chunks: list[Struct]
    indexes: list[tuple[bytes, Struct]]
    source: Source
    places: list[list[Place]]
    """The pages of each chunk, one after another without a gap."""

    @property
    def copied_bytes(self) -> int:
        return sum(length for pages in self.places for _, length in pages)

    def buffers(self) -> Iterator[bytes]:
        for number in range(len(self.places)):
            yield from self.pages(number)

    def pages(self, number: int) -> Iterator[bytes]:
        """Of one of the chunks, as they are, their checksums compared."""
        done = 0
        for run in _runs(self.places[number]):
            start = run[0][0]
            data = self.source.raw.read_at(sum(length for _, length in run), start)
            for page, (offset, length) in enumerate(run, done):
                self._check(number, page, memoryview(data)[offset - start : offset - start + length])
            done += len(run)
            yield data

    def _check(self, number: int, page: int, data: memoryview) -> None:
        state = checksum_state(data)
        if state is Checksum.WRONG:
            path = b".".join(self.chunks[number][CHUNK_META][1][PATH][1][1]).decode("utf-8", "replace")
            raise DamagedPage(self.source.item.path, path, f"page {page}")
        if state is Checksum.MISPLACED:
            raise Uncovered("pages that are not where their file's index says")


def _runs(pages: Sequence[Place]) -> Iterator[list[Place]]:
    """Pages that are read together."""
    run: list[Place] = []
    for page in pages:
        if run and page[0] + page[1] - run[0][0] > SLICE_BYTES:
            yield run
            run = []
        run.append(page)
    if run:
        yield run


class Form:
    """In which the output's columns are stored."""

    def __init__(self, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        self._codec = _CODECS[options["compression"]]
        self._columns = pq.ParquetFile(pa.BufferReader(empty_file(schema, options))).metadata.schema
        self._first_leaf = dict(zip(map(number_of, schema), _first_leaves(schema), strict=True))

    def columns(self, field: pa.Field) -> list[Any]:
        """The Parquet columns that a field takes."""
        first = self._first_leaf[number_of(field)]
        return [self._columns.column(number) for number in range(first, first + leaves(field.type))]

    def found(self, file: StoredFile, group: int, field: pa.Field) -> Copied | None:
        """A column of one row group of an input, where it has it in this very form."""
        if number_of(field) in LINEAGE_IDS:
            # A null among them stands for the identity that a row has by its place in the file.
            return None
        wanted, numbers = self.columns(field), file.leaves_of(field)
        chunks = [file.chunks(group)[number] for number in numbers]
        constants = file.source.item.constants
        if number_of(field) in constants and not _all_are(chunks, field, constants[number_of(field)]):
            return None
        if not (
            len(numbers) == len(wanted)
            and all(map(_is_stored_alike, wanted, map(file.schema.column, numbers)))
            and all(map(file.is_ordered, numbers))
            and all(map(self._is_complete, chunks, wanted))
        ):
            return None
        return file.copied(chunks, [column.path for column in wanted])

    def _is_complete(self, chunk: Struct, wanted: Any) -> bool:
        """Whether it is compressed as the output is, and tells all that one encoded anew would."""
        meta = chunk[CHUNK_META][1]
        is_repeated = wanted.max_repetition_level > 0
        return (
            not chunk.keys() & {_FILE_PATH, _CRYPTO, _ENCRYPTED}
            and (COLUMN_INDEX in chunk or is_repeated)
            and OFFSET_INDEX in chunk
            and meta[_CODEC][1] == self._codec
            and set(meta[ENCODINGS][1][1]) <= _COMMON_ENCODINGS
            and (_has_exact_statistics(meta) or (is_repeated and _counts_nulls(meta)))
        )


class StoredFile:
    """An input's footer and page indexes, of which PyArrow shows but a part."""

    def __init__(self, source: Source, task: Task) -> None:
        self.source = source
        self.schema = source.file.metadata.schema
        self._footer = Reader(source.footer).struct()
        found = (field.with_type(plain_type(field.type)) for field in source.file.schema_arrow)
        self._fields = with_ids(pa.schema(found), task.name_mapping)
        self._positions = by_id(self._fields)
        self._first_leaf = [*_first_leaves(self._fields), sum(leaves(field.type) for field in self._fields)]
        self._indexes: tuple[int, bytes] | None = None

    def chunks(self, group: int) -> list[Struct]:
        found: list[Struct] = self._footer[ROW_GROUPS][1][1][group][COLUMNS][1][1]
        return found

    def leaves_of(self, field: pa.Field) -> range:
        """The numbers of the file's columns that are this one of the table's; none where it has it otherwise."""
        position = self._positions.get(number_of(field))
        if position is None or not is_alike(self._fields[position], field):
            return range(0)
        return range(self._first_leaf[position], self._first_leaf[position + 1])

    def is_ordered(self, number: int) -> bool:
        """Whether the column's smallest and largest are told in the order that its type defines."""
        orders = self._footer.get(_COLUMN_ORDERS)
        return orders is not None and _TYPE_ORDER in orders[1][1][number]

    def copied(self, chunks: Sequence[Struct], paths: Sequence[str]) -> Copied | None:
        end = len(MAGIC)
        made, indexes, places = [], [], []
        for chunk, path in zip(chunks, paths, strict=True):
            start, length = chunk_start(chunk[CHUNK_META][1]), chunk[CHUNK_META][1][COMPRESSED][1]
            column_index, offset_index = self._index(chunk)
            pages = _pages(offset_index, start, start + length)
            if pages is None:
                return None
            indexes.append((column_index, moved_pages(offset_index, end - start)))
            made.append(moved(_renamed(chunk, path), end - start))
            places.append(pages)
            end += length
        return Copied(made, indexes, self.source, places)

    def _index(self, chunk: Struct) -> tuple[bytes, Struct]:
        base, data = self._all_indexes()
        offset_index = Reader(data, chunk[OFFSET_INDEX][1] - base).struct()
        if COLUMN_INDEX not in chunk:
            return b"", offset_index
        start = chunk[COLUMN_INDEX][1] - base
        return data[start : start + chunk[COLUMN_INDEX_LENGTH][1]], offset_index

    def _all_indexes(self) -> tuple[int, bytes]:
        """They lie together before the footer: one request for all of them."""
        if self._indexes is None:
            places = [
                (chunk[offset][1], chunk[offset][1] + chunk[length][1])
                for group in self._footer[ROW_GROUPS][1][1]
                for chunk in group[COLUMNS][1][1]
                for offset, length in ((COLUMN_INDEX, COLUMN_INDEX_LENGTH), (OFFSET_INDEX, OFFSET_INDEX_LENGTH))
                if offset in chunk
            ]
            start, stop = min(start for start, _ in places), max(stop for _, stop in places)
            self._indexes = start, self.source.raw.read_at(stop - start, start)
        return self._indexes


def needs_values(field: pa.Field) -> bool:
    """Whether a copied column has to be read all the same: no footer says how many values are not numbers."""
    if pa.types.is_struct(field.type):
        return any(needs_values(field.type.field(position)) for position in range(field.type.num_fields))
    return bool(pa.types.is_floating(field.type))


def tells_the_truth(field: pa.Field, column: Any, chunks: Sequence[Struct]) -> bool:
    """Of numbers with a point: writers do not agree on what a NaN does to the smallest and the largest of a chunk."""
    for leaf, values, chunk in bounded_leaves(field, column, list(chunks)):
        if pa.types.is_floating(leaf.type):
            found, told = pc.min_max(values), said(chunk)
            if told is None:
                if values.null_count < len(values):
                    return False
                continue
            lower, upper = (unpack("<f" if leaf.type.bit_width == 32 else "<d", raw)[0] for raw in told)
            if (found["min"].as_py(), found["max"].as_py()) != (lower, upper):
                return False
    return True


def _is_stored_alike(wanted: Any, found: Any) -> bool:
    return all(getattr(wanted, name) == getattr(found, name) for name in _STORED_BY)


def _counts_nulls(meta: Struct) -> bool:
    return NULLS in meta.get(STATISTICS, (STRUCT, {}))[1]


def _has_exact_statistics(meta: Struct) -> bool:
    if not _counts_nulls(meta):
        return False
    told: Struct = meta[STATISTICS][1]
    if told[NULLS][1] == meta[VALUES][1]:
        return True
    is_exact = all(told.get(flag, (TRUE, True))[1] for flag in (IS_MIN_EXACT, IS_MAX_EXACT))
    return MIN in told and MAX in told and is_exact


def _pages(offset_index: Struct, start: int, end: int) -> list[Place] | None:
    """The pages from the start of a chunk to its end, its dictionary first; None where the index leaves a gap."""
    told = [(page[PAGE_OFFSET][1], page[PAGE_BYTES][1]) for page in offset_index[PAGE_LOCATIONS][1][1]]
    if told and told[0][0] > start:
        told.insert(0, (start, told[0][0] - start))
    ends = [offset + length for offset, length in told]
    return told if told and [start, *ends] == [*(offset for offset, _ in told), end] else None


def _all_are(chunks: Sequence[Struct], field: pa.Field, said: Any) -> bool:
    """Whether a column surely has nothing but this value, by its own statistics."""
    return bool(chunks) and all(_is_constant(chunk[CHUNK_META][1], field.type, said) for chunk in chunks)


def _is_constant(meta: Struct, kind: pa.DataType, said: Any) -> bool:
    if not _has_exact_statistics(meta):
        return False
    told: Struct = meta[STATISTICS][1]
    if said is None:
        return bool(told[NULLS][1] == meta[VALUES][1])
    value = _plain_bytes(said, kind)
    return bool(value is not None and told[NULLS][1] == 0 and told[MIN][1] == told[MAX][1] == value)


def _plain_bytes(said: Any, kind: pa.DataType) -> bytes | None:
    """As statistics state a value; None for types where it is not compared."""
    if pa.types.is_string(kind):
        return str(said).encode()
    if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        value: int = single_value(said, kind).value if pa.types.is_temporal(kind) else said
        return value.to_bytes(kind.bit_width // 8, "little", signed=True)
    return None


def _renamed(chunk: Struct, path: str) -> Struct:
    """Under the name that the column has now, without what lies elsewhere in the input."""
    meta = {key: value for key, value in chunk[CHUNK_META][1].items() if key not in _LEFT_BEHIND}
    meta[PATH] = (LIST, (BINARY, [name.encode() for name in path.split(".")]))
    return {CHUNK_META: (STRUCT, meta)}


def _first_leaves(fields: Sequence[pa.Field]) -> Iterator[int]:
    """For each field the number of its first Parquet column."""
    ends = accumulate(leaves(field.type) for field in fields)
    return (end - leaves(field.type) for end, field in zip(ends, fields, strict=True))
