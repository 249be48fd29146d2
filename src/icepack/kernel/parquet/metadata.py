"""Named access to the structs of a Parquet footer: file metadata, row groups, column chunks and statistics.

The structs stay the dictionaries that the Thrift reader returns: one object per chunk would cost more than is read from
it. The types below exist only for the type checker. Field ids are those of parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NewType

import pyarrow as pa

from icepack.kernel.parquet.thrift import BINARY, I16, I32, I64, LIST, STRUCT, TRUE, CompactReader, ThriftStruct

MAGIC = b"PAR1"

FileMetaData = NewType("FileMetaData", ThriftStruct)
RowGroupMetaData = NewType("RowGroupMetaData", ThriftStruct)
ColumnChunk = NewType("ColumnChunk", ThriftStruct)
ColumnMetaData = NewType("ColumnMetaData", ThriftStruct)
Statistics = NewType("Statistics", ThriftStruct)

FILE_SCHEMA, FILE_NUM_ROWS, FILE_ROW_GROUPS, FILE_KEY_VALUES, FILE_COLUMN_ORDERS = 2, 3, 4, 5, 7
GROUP_COLUMNS, GROUP_BYTES, GROUP_NUM_ROWS, GROUP_OFFSET, GROUP_COMPRESSED_BYTES, GROUP_ORDINAL = 1, 2, 3, 5, 6, 7
CHUNK_FILE_PATH, CHUNK_FILE_OFFSET, CHUNK_METADATA = 1, 2, 3
CHUNK_OFFSET_INDEX_OFFSET, CHUNK_OFFSET_INDEX_LENGTH = 4, 5
CHUNK_COLUMN_INDEX_OFFSET, CHUNK_COLUMN_INDEX_LENGTH = 6, 7
CHUNK_CRYPTO_METADATA, CHUNK_ENCRYPTED_METADATA = 8, 9
COLUMN_TYPE, COLUMN_ENCODINGS, COLUMN_PATH, COLUMN_CODEC, COLUMN_NUM_VALUES = 1, 2, 3, 4, 5
COLUMN_UNCOMPRESSED_BYTES, COLUMN_COMPRESSED_BYTES, COLUMN_KEY_VALUES = 6, 7, 8
COLUMN_DATA_PAGE_OFFSET, COLUMN_INDEX_PAGE_OFFSET, COLUMN_DICTIONARY_PAGE_OFFSET = 9, 10, 11
COLUMN_STATISTICS, COLUMN_ENCODING_STATS = 12, 13
COLUMN_BLOOM_FILTER_OFFSET, COLUMN_BLOOM_FILTER_LENGTH, COLUMN_SIZE_STATISTICS = 14, 15, 16

_KEY, _VALUE = 1, 2
_TYPE_DEFINED_ORDER = 1
_DEFINITION_LEVEL_HISTOGRAM = 3
_STATS_PAGE_TYPE, _STATS_ENCODING = 1, 2
# Types of data pages in encoding statistics: version 1 and version 2.
_DATA_PAGE_TYPES = (0, 3)
# Older readers look for the bounds here, for types whose order they know.
_DEPRECATED_MAX, _DEPRECATED_MIN = 1, 2
_NULL_COUNT, _MAX_VALUE, _MIN_VALUE, _IS_MAX_EXACT, _IS_MIN_EXACT = 3, 5, 6, 7, 8
# What is not taken from a copied chunk's metadata: its own key-value pairs, and the offsets of its index page and of
# its Bloom filter, which are not copied.
_NOT_COPIED = frozenset({COLUMN_KEY_VALUES, COLUMN_INDEX_PAGE_OFFSET, COLUMN_BLOOM_FILTER_OFFSET,
                         COLUMN_BLOOM_FILTER_LENGTH})  # fmt: skip
_NOT_MERGED = frozenset({COLUMN_DICTIONARY_PAGE_OFFSET, COLUMN_ENCODING_STATS, COLUMN_SIZE_STATISTICS})
_NO_FIELDS: tuple[int, ThriftStruct] = (STRUCT, {})


def parse_file_metadata(footer: bytes) -> FileMetaData:
    return FileMetaData(CompactReader(footer).read_struct())


def read_file_metadata(data: pa.Buffer) -> FileMetaData:
    """Reads the footer of a whole file in memory."""
    view = memoryview(data).cast("B")
    length = int.from_bytes(view[-8:-4], "little")
    return FileMetaData(CompactReader(view, len(view) - 8 - length).read_struct())


def get_row_groups(file: FileMetaData) -> list[RowGroupMetaData]:
    row_groups: list[RowGroupMetaData] = file[FILE_ROW_GROUPS][1][1] if FILE_ROW_GROUPS in file else []
    return row_groups


def set_row_groups(file: FileMetaData, num_rows: int, row_groups: Sequence[RowGroupMetaData]) -> None:
    file[FILE_NUM_ROWS] = (I64, num_rows)
    file[FILE_ROW_GROUPS] = (LIST, (STRUCT, row_groups))


def set_key_values(file: FileMetaData, key_values: Mapping[str, str]) -> None:
    pairs = [{_KEY: (BINARY, key.encode()), _VALUE: (BINARY, value.encode())} for key, value in key_values.items()]
    file[FILE_KEY_VALUES] = (LIST, (STRUCT, pairs))


def has_type_defined_order(file: FileMetaData, leaf: int) -> bool:
    """Whether the bounds of a column use the order that the format defines for its type."""
    orders = file.get(FILE_COLUMN_ORDERS)
    return orders is not None and _TYPE_DEFINED_ORDER in orders[1][1][leaf]


def build_row_group(ordinal: int, num_rows: int, chunks: Sequence[ColumnChunk]) -> RowGroupMetaData:
    columns = [get_column_metadata(chunk) for chunk in chunks]
    return RowGroupMetaData(
        {
            GROUP_COLUMNS: (LIST, (STRUCT, chunks)),
            GROUP_BYTES: (I64, sum(map(get_uncompressed_bytes, columns))),
            GROUP_NUM_ROWS: (I64, num_rows),
            GROUP_OFFSET: (I64, find_chunk_start(columns[0])),
            GROUP_COMPRESSED_BYTES: (I64, sum(map(get_compressed_bytes, columns))),
            # The ordinal is optional, and a 16-bit integer does not hold larger ones.
            **({GROUP_ORDINAL: (I16, ordinal)} if ordinal < 2**15 else {}),
        }
    )


def get_column_chunks(row_group: RowGroupMetaData) -> list[ColumnChunk]:
    chunks: list[ColumnChunk] = row_group[GROUP_COLUMNS][1][1]
    return chunks


def get_column_metadata(chunk: ColumnChunk) -> ColumnMetaData:
    column: ColumnMetaData = chunk[CHUNK_METADATA][1]
    return column


def is_encrypted_or_external(chunk: ColumnChunk) -> bool:
    """Whether a chunk is encrypted or stored in another file."""
    return not chunk.keys().isdisjoint((CHUNK_FILE_PATH, CHUNK_CRYPTO_METADATA, CHUNK_ENCRYPTED_METADATA))


def shift_chunk(chunk: ColumnChunk, shift: int) -> ColumnChunk:
    """Returns the chunk for a position that is `shift` bytes later, without the offsets of its page index."""
    column = dict(chunk[CHUNK_METADATA][1])
    for field_id in (COLUMN_DATA_PAGE_OFFSET, COLUMN_INDEX_PAGE_OFFSET, COLUMN_DICTIONARY_PAGE_OFFSET):
        if field_id in column and column[field_id][1] > 0:
            column[field_id] = (I64, column[field_id][1] + shift)
    return ColumnChunk({CHUNK_FILE_OFFSET: (I64, 0), CHUNK_METADATA: (STRUCT, column)})


def rename_chunk(chunk: ColumnChunk, path: str) -> ColumnChunk:
    """Returns the chunk under the current path of its column, without offsets of what is not copied with it."""
    column = {field_id: value for field_id, value in chunk[CHUNK_METADATA][1].items() if field_id not in _NOT_COPIED}
    column[COLUMN_PATH] = (LIST, (BINARY, [name.encode() for name in path.split(".")]))
    return ColumnChunk({CHUNK_METADATA: (STRUCT, column)})


def get_path(column: ColumnMetaData) -> str:
    return b".".join(column[COLUMN_PATH][1][1]).decode("utf-8", "replace")


def get_codec(column: ColumnMetaData) -> int:
    codec: int = column[COLUMN_CODEC][1]
    return codec


def get_encodings(column: ColumnMetaData) -> list[int]:
    encodings: list[int] = column[COLUMN_ENCODINGS][1][1]
    return encodings


def find_data_page_encodings(column: ColumnMetaData) -> list[int] | None:
    """Returns the encodings of the data pages; None if the writer did not record them."""
    if COLUMN_ENCODING_STATS not in column:
        return None
    stats = column[COLUMN_ENCODING_STATS][1][1]
    return [stat[_STATS_ENCODING][1] for stat in stats if stat[_STATS_PAGE_TYPE][1] in _DATA_PAGE_TYPES]


def get_num_values(column: ColumnMetaData) -> int:
    num_values: int = column[COLUMN_NUM_VALUES][1]
    return num_values


def get_uncompressed_bytes(column: ColumnMetaData) -> int:
    size: int = column[COLUMN_UNCOMPRESSED_BYTES][1]
    return size


def get_compressed_bytes(column: ColumnMetaData) -> int:
    size: int = column[COLUMN_COMPRESSED_BYTES][1]
    return size


def has_dictionary_page(column: ColumnMetaData) -> bool:
    return COLUMN_DICTIONARY_PAGE_OFFSET in column and column[COLUMN_DICTIONARY_PAGE_OFFSET][1] > 0


def find_chunk_start(column: ColumnMetaData) -> int:
    """Returns the offset of the first page, which is the dictionary page if there is one."""
    fields = (COLUMN_DICTIONARY_PAGE_OFFSET, COLUMN_DATA_PAGE_OFFSET)
    offsets: list[int] = [column[field_id][1] for field_id in fields if field_id in column]
    return min(offset for offset in offsets if offset > 0)


def find_chunk_end(column: ColumnMetaData) -> int:
    return find_chunk_start(column) + get_compressed_bytes(column)


def count_defined_values(column: ColumnMetaData) -> int:
    """Returns how many values are not null, by the definition levels that the writer counted."""
    defined: int = column[COLUMN_SIZE_STATISTICS][1][_DEFINITION_LEVEL_HISTOGRAM][1][1][-1]
    return defined


def merge_column_metadata(columns: Sequence[ColumnMetaData], start: int, statistics: Statistics) -> ColumnMetaData:
    """Returns the metadata of a chunk at offset `start` that holds the pages of several chunks without dictionaries."""
    sums = (COLUMN_NUM_VALUES, COLUMN_UNCOMPRESSED_BYTES, COLUMN_COMPRESSED_BYTES)
    encodings = sorted({encoding for column in columns for encoding in get_encodings(column)})
    return ColumnMetaData(
        {
            **{field_id: value for field_id, value in columns[0].items() if field_id not in _NOT_MERGED},
            **{field_id: (I64, sum(column[field_id][1] for column in columns)) for field_id in sums},
            COLUMN_ENCODINGS: (LIST, (I32, encodings)),
            COLUMN_DATA_PAGE_OFFSET: (I64, start),
            COLUMN_STATISTICS: (STRUCT, statistics),
        }
    )


def build_statistics(
    null_count: int, min_max: tuple[bytes, bytes] | None = None, *, with_deprecated: bool = False
) -> Statistics:
    """Builds statistics with exact bounds, or with the null count alone."""
    statistics = Statistics({_NULL_COUNT: (I64, null_count)})
    if min_max is None:
        return statistics
    low, high = (BINARY, min_max[0]), (BINARY, min_max[1])
    if with_deprecated:
        statistics |= {_DEPRECATED_MAX: high, _DEPRECATED_MIN: low}
    statistics |= {_MAX_VALUE: high, _MIN_VALUE: low, _IS_MAX_EXACT: (TRUE, True), _IS_MIN_EXACT: (TRUE, True)}
    return statistics


def get_statistics(column: ColumnMetaData) -> Statistics:
    """Returns an empty struct if there are no statistics."""
    statistics: Statistics = column.get(COLUMN_STATISTICS, _NO_FIELDS)[1]
    return statistics


def set_statistics(column: ColumnMetaData, statistics: Statistics) -> None:
    column[COLUMN_STATISTICS] = (STRUCT, statistics)


def has_null_count(statistics: Statistics) -> bool:
    return _NULL_COUNT in statistics


def get_null_count(statistics: Statistics) -> int:
    null_count: int = statistics[_NULL_COUNT][1]
    return null_count


def find_min_max(statistics: Statistics) -> tuple[bytes, bytes] | None:
    if _MIN_VALUE not in statistics or _MAX_VALUE not in statistics:
        return None
    return statistics[_MIN_VALUE][1], statistics[_MAX_VALUE][1]


def has_exact_statistics(column: ColumnMetaData) -> bool:
    """Whether the statistics have a null count and, unless all values are null, exact bounds."""
    statistics = get_statistics(column)
    if not has_null_count(statistics):
        return False
    if get_null_count(statistics) == get_num_values(column):
        return True
    flags = (_IS_MIN_EXACT, _IS_MAX_EXACT)
    return find_min_max(statistics) is not None and all(statistics.get(flag, (TRUE, True))[1] for flag in flags)


def have_deprecated_bounds(statistics: Iterable[Statistics]) -> bool:
    return all(_DEPRECATED_MAX in each and _DEPRECATED_MIN in each for each in statistics)
