"""Finds column chunks of inputs that can be copied to the output unchanged.

The same bytes mean the same in the output if types, levels and codec are the same, and if the footer and the page
indexes contain exactly what a rewrite would compute.
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

from icepack.kernel.arrow_schema import (
    LINEAGE_FIELD_IDS,
    UnsupportedByKernel,
    count_leaves,
    get_child_fields,
    get_field_id,
    parse_single_value,
)
from icepack.kernel.dictionaries import to_plain_type
from icepack.kernel.input_file import InputFileReader
from icepack.kernel.parquet.bounds import iter_bounded_leaves, read_min_max
from icepack.kernel.parquet.checksums import ChecksumStatus, CorruptPage, verify_checksum
from icepack.kernel.parquet.chunk_writer import write_empty_file
from icepack.kernel.parquet.metadata import (
    MAGIC,
    ColumnChunk,
    ColumnMetaData,
    find_chunk_start,
    find_min_max,
    get_codec,
    get_column_chunks,
    get_column_metadata,
    get_compressed_bytes,
    get_encodings,
    get_null_count,
    get_num_values,
    get_path,
    get_row_groups,
    get_statistics,
    has_exact_statistics,
    has_null_count,
    has_type_defined_order,
    is_encrypted_or_external,
    parse_file_metadata,
    rename_chunk,
    shift_chunk,
)
from icepack.kernel.parquet.page_index import (
    ByteRange,
    OffsetIndex,
    PageIndex,
    find_page_index_range,
    has_column_index,
    has_offset_index,
    list_page_ranges,
    read_page_index,
    shift_offset_index,
)
from icepack.kernel.projection import assign_field_ids, index_by_field_id, is_byte_compatible
from icepack.kernel.task import Task

# Maximum size of one read of consecutive pages.
MAX_READ_BYTES = 8 * 2**20

# Plain values, dictionaries and levels, which every reader supports. Some of Iceberg's readers fail on the other
# encodings, and a rewrite should remove those from the table.
_COMMON_ENCODINGS = frozenset({0, 2, 3, 4, 8})
_STORAGE_ATTRIBUTES = ("physical_type", "length", "max_definition_level", "max_repetition_level")
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}


@dataclass(frozen=True, slots=True)
class CopiedChunks:
    """The chunks of one column, and where they are in an input."""

    chunks: list[ColumnChunk]
    page_indexes: list[PageIndex]
    source: InputFileReader
    # The pages of each chunk, one after another without a gap.
    page_ranges: list[list[ByteRange]]

    @property
    def copied_bytes(self) -> int:
        return sum(length for pages in self.page_ranges for _, length in pages)

    def iter_buffers(self) -> Iterator[bytes]:
        for number in range(len(self.page_ranges)):
            yield from self.iter_pages(number)

    def iter_pages(self, number: int) -> Iterator[bytes]:
        """Yields the stored pages of one of the chunks after verifying their checksums."""
        first_page = 0
        for run in _group_pages(self.page_ranges[number]):
            start = run[0][0]
            data = self.source.raw_file.read_at(sum(length for _, length in run), start)
            for page, (offset, length) in enumerate(run, first_page):
                self._verify(number, page, memoryview(data)[offset - start : offset - start + length])
            first_page += len(run)
            yield data

    def _verify(self, number: int, page: int, data: memoryview) -> None:
        status = verify_checksum(data)
        if status is ChecksumStatus.INVALID:
            path = get_path(get_column_metadata(self.chunks[number]))
            raise CorruptPage(self.source.input_file.path, path, f"page {page}")
        if status is ChecksumStatus.NOT_A_PAGE:
            raise UnsupportedByKernel("pages that are not where the file's offset index says")


def _group_pages(pages: Sequence[ByteRange]) -> Iterator[list[ByteRange]]:
    """Groups consecutive pages that are read together."""
    run: list[ByteRange] = []
    for page in pages:
        if run and page[0] + page[1] - run[0][0] > MAX_READ_BYTES:
            yield run
            run = []
        run.append(page)
    if run:
        yield run


class ChunkCopier:
    """Finds columns of inputs that are stored exactly as the output stores them."""

    def __init__(self, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        self._codec = _CODECS[options["compression"]]
        self._columns = pq.ParquetFile(pa.BufferReader(write_empty_file(schema, options))).metadata.schema
        self._first_leaf = dict(zip(map(get_field_id, schema), _iter_first_leaves(schema), strict=True))

    def get_parquet_columns(self, field: pa.Field) -> list[Any]:
        """Returns the output's Parquet columns that store a field."""
        first = self._first_leaf[get_field_id(field)]
        return [self._columns.column(leaf) for leaf in range(first, first + count_leaves(field.type))]

    def copy_column(self, file: InputMetadata, row_group: int, field: pa.Field) -> CopiedChunks | None:
        """Returns a column of one row group of an input; None if it cannot be copied."""
        field_id = get_field_id(field)
        if field_id in LINEAGE_FIELD_IDS:
            # A null in these columns stands for the identity that a row has by its position in the file.
            return None
        wanted, leaves = self.get_parquet_columns(field), file.find_leaves(field)
        all_chunks = file.get_chunks(row_group)
        chunks = [all_chunks[leaf] for leaf in leaves]
        constants = file.source.input_file.constants
        if field_id in constants and not _are_constant(chunks, field, constants[field_id]):
            return None
        if not (
            len(leaves) == len(wanted)
            and all(map(_is_stored_alike, wanted, map(file.schema.column, leaves)))
            and all(map(file.has_type_defined_order, leaves))
            and all(map(self._is_complete, chunks, wanted))
        ):
            return None
        return file.locate_chunks(chunks, [column.path for column in wanted])

    def _is_complete(self, chunk: ColumnChunk, wanted: Any) -> bool:
        """Whether a chunk is compressed as the output is, and has all metadata that a newly encoded one would have."""
        column = get_column_metadata(chunk)
        is_repeated = wanted.max_repetition_level > 0
        return (
            not is_encrypted_or_external(chunk)
            and (has_column_index(chunk) or is_repeated)
            and has_offset_index(chunk)
            and get_codec(column) == self._codec
            and set(get_encodings(column)) <= _COMMON_ENCODINGS
            and (has_exact_statistics(column) or (is_repeated and has_null_count(get_statistics(column))))
        )


class InputMetadata:
    """An input's footer and page indexes, of which PyArrow exposes only a part."""

    def __init__(self, source: InputFileReader, task: Task) -> None:
        self.source = source
        self.schema = source.parquet_file.metadata.schema
        self._file_metadata = parse_file_metadata(source.footer)
        plain = (field.with_type(to_plain_type(field.type)) for field in source.parquet_file.schema_arrow)
        self._fields = assign_field_ids(pa.schema(plain), task.name_mapping)
        self._positions = index_by_field_id(self._fields)
        all_leaves = sum(count_leaves(field.type) for field in self._fields)
        self._first_leaf = [*_iter_first_leaves(self._fields), all_leaves]
        self._page_indexes: tuple[int, bytes] | None = None

    def get_chunks(self, row_group: int) -> list[ColumnChunk]:
        return get_column_chunks(get_row_groups(self._file_metadata)[row_group])

    def find_leaves(self, field: pa.Field) -> range:
        """Returns the indexes of the file's columns that store a field of the table; none if the types differ."""
        position = self._positions.get(get_field_id(field))
        if position is None or not is_byte_compatible(self._fields[position], field):
            return range(0)
        return range(self._first_leaf[position], self._first_leaf[position + 1])

    def has_type_defined_order(self, leaf: int) -> bool:
        return has_type_defined_order(self._file_metadata, leaf)

    def locate_chunks(self, chunks: Sequence[ColumnChunk], paths: Sequence[str]) -> CopiedChunks | None:
        """Returns where the pages of the chunks are; None if an offset index does not cover its chunk."""
        end = len(MAGIC)
        shifted, page_indexes, page_ranges = [], [], []
        for chunk, path in zip(chunks, paths, strict=True):
            column = get_column_metadata(chunk)
            start, length = find_chunk_start(column), get_compressed_bytes(column)
            column_index, offset_index = self._read_page_index(chunk)
            pages = _locate_pages(offset_index, start, start + length)
            if pages is None:
                return None
            page_indexes.append(PageIndex(column_index, shift_offset_index(offset_index, end - start)))
            shifted.append(shift_chunk(rename_chunk(chunk, path), end - start))
            page_ranges.append(pages)
            end += length
        return CopiedChunks(shifted, page_indexes, self.source, page_ranges)

    def _read_page_index(self, chunk: ColumnChunk) -> PageIndex:
        """Reads the page indexes of the whole file with one request, at the first call."""
        if self._page_indexes is None:
            start, length = find_page_index_range(self._file_metadata)
            self._page_indexes = start, self.source.raw_file.read_at(length, start)
        start, data = self._page_indexes
        return read_page_index(data, chunk, start)


def needs_values(field: pa.Field) -> bool:
    """Whether a copied column must be read nevertheless: footers do not contain NaN counts."""
    if pa.types.is_struct(field.type):
        return any(map(needs_values, get_child_fields(field.type)))
    return bool(pa.types.is_floating(field.type))


def has_correct_statistics(field: pa.Field, column: Any, chunks: Sequence[ColumnChunk]) -> bool:
    """Whether the bounds of float columns are right: writers disagree on how a NaN affects them."""
    for leaf, values, chunk in iter_bounded_leaves(field, column, list(chunks)):
        if pa.types.is_floating(leaf.type):
            computed, stated = pc.min_max(values), read_min_max(chunk)
            if stated is None:
                if values.null_count < len(values):
                    return False
                continue
            lower, upper = (unpack("<f" if leaf.type.bit_width == 32 else "<d", raw)[0] for raw in stated)
            if (computed["min"].as_py(), computed["max"].as_py()) != (lower, upper):
                return False
    return True


def _is_stored_alike(wanted: Any, stored: Any) -> bool:
    return all(getattr(wanted, name) == getattr(stored, name) for name in _STORAGE_ATTRIBUTES)


def _locate_pages(offset_index: OffsetIndex, start: int, end: int) -> list[ByteRange] | None:
    """Returns the pages of a chunk from `start` to `end`, its dictionary first; None if the index leaves a gap."""
    pages = list_page_ranges(offset_index)
    if pages and pages[0][0] > start:
        pages.insert(0, (start, pages[0][0] - start))
    ends = [offset + length for offset, length in pages]
    return pages if pages and [start, *ends] == [*(offset for offset, _ in pages), end] else None


def _are_constant(chunks: Sequence[ColumnChunk], field: pa.Field, value: Any) -> bool:
    """Whether the chunks' statistics prove that a column contains nothing but this value."""
    return bool(chunks) and all(_is_constant(get_column_metadata(chunk), field.type, value) for chunk in chunks)


def _is_constant(column: ColumnMetaData, data_type: pa.DataType, value: Any) -> bool:
    if not has_exact_statistics(column):
        return False
    statistics = get_statistics(column)
    null_count = get_null_count(statistics)
    if value is None:
        return null_count == get_num_values(column)
    stored = _to_plain_bytes(value, data_type)
    return stored is not None and null_count == 0 and find_min_max(statistics) == (stored, stored)


def _to_plain_bytes(value: Any, data_type: pa.DataType) -> bytes | None:
    """Returns a value as statistics store it; None for types that are not compared."""
    if pa.types.is_string(data_type):
        return str(value).encode()
    if pa.types.is_integer(data_type) or pa.types.is_date32(data_type) or pa.types.is_timestamp(data_type):
        number: int = parse_single_value(value, data_type).value if pa.types.is_temporal(data_type) else value
        return number.to_bytes(data_type.bit_width // 8, "little", signed=True)
    return None


def _iter_first_leaves(fields: Sequence[pa.Field]) -> Iterator[int]:
    """Yields for each field the index of its first Parquet column."""
    ends = accumulate(count_leaves(field.type) for field in fields)
    return (end - count_leaves(field.type) for end, field in zip(ends, fields, strict=True))
