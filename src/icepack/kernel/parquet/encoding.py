"""Chooses how the output's columns are encoded, by the rule of Spark's Parquet writer, so that it is no larger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icepack.kernel.arrow_schema import (
    count_leaves,
    find_field_id,
    get_child_fields,
    is_list,
    is_nested,
    is_string_or_binary,
    list_leaf_paths,
    list_leaf_types,
)
from icepack.kernel.dictionaries import iter_own_nulls
from icepack.kernel.file_projection import FileProjection, FileProjectionCache
from icepack.kernel.input_file import OpenParquetFile
from icepack.kernel.parquet.column_chunks import get_codec_name
from icepack.kernel.parquet.metadata import (
    ColumnMetaData,
    RowGroupMetaData,
    find_data_page_encodings,
    get_column_chunks,
    get_column_metadata,
    get_row_groups,
    get_uncompressed_bytes,
    parse_file_metadata,
)
from icepack.kernel.storage import Storage
from icepack.kernel.task import Task, WriteProperties

DEFAULT_BYTES_PER_ROW = 16.0
# PLAIN_DICTIONARY and RLE_DICTIONARY.
_DICTIONARY_ENCODINGS = (2, 8)
# The codecs that can be written, and the levels that Spark's writer uses for them; None if a codec has no level.
_DEFAULT_LEVELS = {"zstd": 3, "gzip": 6, "snappy": None, "uncompressed": None}


def build_write_options(properties: WriteProperties, input_codec: str | None = None) -> dict[str, Any]:
    """Returns PyArrow's write options for all columns; `input_codec` is the codec of the inputs."""
    codec = properties.codec or (input_codec if input_codec in _DEFAULT_LEVELS else "zstd")
    default_level = _DEFAULT_LEVELS[codec]
    return {
        "compression": "none" if codec == "uncompressed" else codec,
        "compression_level": default_level if default_level is None or properties.level is None else properties.level,
        "data_page_size": properties.page_bytes,
        "max_rows_per_page": properties.page_rows,
        "dictionary_pagesize_limit": properties.dictionary_bytes,
        "store_schema": False,
        "store_decimal_as_integer": True,
        "write_page_index": True,
        "write_page_checksum": True,
    }


class EncodingPlanner:
    """Learns about the columns from a few inputs; a wrong guess makes the output larger, never wrong."""

    def __init__(self, task: Task, storage: Storage, projections: FileProjectionCache) -> None:
        self._bytes_per_row: dict[int, float] = {}
        self._dictionary_paths: set[str] = set()
        self._codec: str | None = None
        self._page_rows = task.write_properties.page_rows
        self._keeps_all_rows_in_order = not task.has_deletes and task.sort_order is None
        for file in _pick_samples(task.inputs):
            opened = OpenParquetFile(file, storage, projections.schemas)
            self._inspect_file(opened, projections.get(opened.schema, opened.arrow_schema, frozenset(file.constants)))
        self.base_options = build_write_options(task.write_properties, self._codec)

    def build_options(self, field: pa.Field, column: pa.ChunkedArray) -> dict[str, Any]:
        paths = choose_dictionary_leaves(field, column, self._page_rows)
        return {**self.base_options, "use_dictionary": paths or False}

    @property
    def dictionary_paths(self) -> list[str]:
        """Paths of the files' string and binary columns that are read as dictionaries."""
        return sorted(self._dictionary_paths)

    def estimate_bytes_per_row(self, field: pa.Field) -> float:
        return self._bytes_per_row.get(find_field_id(field) or 0, DEFAULT_BYTES_PER_ROW)

    def _inspect_file(self, opened: OpenParquetFile, projection: FileProjection) -> None:
        first = 0
        row_groups = get_row_groups(parse_file_metadata(opened.footer))
        if self._codec is None and row_groups:
            first_chunk = get_column_chunks(row_groups[0])[0]
            self._codec = get_codec_name(get_column_metadata(first_chunk)).lower()
        for field in projection.fields:
            size = count_leaves(field.type)
            self._inspect_column(opened, row_groups, field, range(first, first + size))
            first += size

    def _inspect_column(
        self, opened: OpenParquetFile, row_groups: Sequence[RowGroupMetaData], field: pa.Field, leaves: range
    ) -> None:
        field_id = find_field_id(field)
        if field_id is None or not row_groups:
            return
        columns = {
            leaf: [get_column_metadata(get_column_chunks(group)[leaf]) for group in row_groups] for leaf in leaves
        }
        # If rows are dropped or moved, unused entries must be dropped too; in nested types that costs too much.
        if self._keeps_all_rows_in_order or not is_nested(field.type):
            for leaf, data_type, is_safe in zip(
                leaves, list_leaf_types(field.type), iter_own_nulls(field), strict=True
            ):
                if is_string_or_binary(data_type) and is_safe and all(map(is_dictionary_encoded, columns[leaf])):
                    self._dictionary_paths.add(opened.schema.paths[leaf])
        uncompressed = sum(get_uncompressed_bytes(column) for group in columns.values() for column in group)
        stored = uncompressed / max(opened.metadata.num_rows, 1)
        known = self._bytes_per_row.get(field_id, 0.0)
        self._bytes_per_row[field_id] = max(known, stored, float(_measure_type(field.type)))


def choose_dictionary_leaves(field: pa.Field, column: pa.ChunkedArray, page_rows: int) -> list[str]:
    """Returns the paths of the Parquet columns whose first page is smaller with a dictionary.

    Spark's writer makes the same decision after each column's first page.
    """
    page = column.slice(0, page_rows)
    first_page = page.combine_chunks() if page.num_chunks != 1 else page.chunk(0)
    paths = list_leaf_paths(field.name, field.type)
    leaves = zip(paths, _iter_leaf_values(first_page), strict=True)
    return [path for path, values in leaves if _is_smaller_as_dictionary(values)]


def _iter_leaf_values(array: pa.Array) -> Iterator[pa.Array]:
    data_type = array.type
    if pa.types.is_struct(data_type):
        parts = array.flatten()
    elif pa.types.is_map(data_type):
        parts = [array.keys, array.items]
    elif is_list(data_type):
        parts = [array.flatten()]
    else:
        yield array
        return
    for part in parts:
        yield from _iter_leaf_values(part)


def _is_smaller_as_dictionary(page: pa.Array) -> bool:
    if pa.types.is_boolean(page.type):
        # No writer uses dictionaries for booleans.
        return False
    values = _to_plain(page.drop_null())
    distinct = values.unique()
    index_bits = max(len(distinct) - 1, 1).bit_length()
    return _measure_plain(distinct) + len(values) * index_bits // 8 < _measure_plain(values)


def _to_plain(column: pa.Array) -> pa.Array:
    data_type = column.type
    if pa.types.is_dictionary(data_type):
        return column.cast(data_type.value_type)
    return column.cast(data_type.storage_type) if isinstance(data_type, pa.BaseExtensionType) else column


def _measure_plain(values: Any) -> int:
    """Returns the size in Parquet's plain encoding; strings and bytes are preceded by their length."""
    data_type = values.type
    if is_string_or_binary(data_type):
        return 4 * len(values) + (pc.sum(pc.binary_length(values)).as_py() or 0)
    if pa.types.is_decimal(data_type):
        return len(values) * _measure_decimal(data_type.precision)
    return len(values) * max(int(data_type.bit_width) // 8, 1)


def _measure_decimal(precision: int) -> int:
    return 4 if precision <= 9 else 8 if precision <= 18 else 16


def is_dictionary_encoded(column: ColumnMetaData) -> bool:
    """Whether every data page uses a dictionary; False if the writer did not record it."""
    encodings = find_data_page_encodings(column)
    return encodings is not None and all(encoding in _DICTIONARY_ENCODINGS for encoding in encodings)


def _measure_type(data_type: pa.DataType) -> int:
    if pa.types.is_struct(data_type):
        return sum(_measure_type(child.type) for child in get_child_fields(data_type))
    try:
        return max(int(data_type.bit_width) // 8, 1)
    except (ValueError, AttributeError):
        return 4


def _pick_samples(inputs: Sequence[Any]) -> list[Any]:
    """Returns the first, the last and the middle input."""
    chosen = {0, len(inputs) // 2, len(inputs) - 1} if inputs else set()
    return [inputs[position] for position in sorted(chosen)]
