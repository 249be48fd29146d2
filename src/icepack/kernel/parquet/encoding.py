"""How the output's columns are encoded: by the rule that Spark's Parquet writer follows, so that it is no larger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icepack.kernel.arrow_schema import field_id, is_list, is_nested, is_text, leaf_paths, leaf_types, leaves
from icepack.kernel.input_file import Layout, Layouts, OpenFile
from icepack.kernel.parquet.chunk_writer import CHUNK_META, COLUMNS, ROW_GROUPS, UNCOMPRESSED
from icepack.kernel.parquet.column_chunks import codec_name
from icepack.kernel.parquet.dictionaries import has_own_nulls
from icepack.kernel.parquet.thrift import Reader, Struct
from icepack.kernel.storage import Storage
from icepack.kernel.task import Task, Writing

DEFAULT_BYTES_PER_ROW = 16.0
_ENCODINGS_USED, _ENCODING, _PAGE_TYPE = 13, 2, 1
_DICTIONARY_ENCODINGS = (2, 8)
_DATA_PAGES = (0, 3)
_LEVELS = {"zstd": 3, "gzip": 6, "snappy": None, "uncompressed": None}
"""The codecs that are written, and the levels that Spark's writer has for them; without one, none is taken."""


def write_options(writing: Writing, found: str | None = None) -> dict[str, Any]:
    """What PyArrow is told for every column alike; `found` is the codec that the inputs have."""
    codec = writing.codec or (found if found in _LEVELS else "zstd")
    usual = _LEVELS[codec]
    return {
        "compression": "none" if codec == "uncompressed" else codec,
        "compression_level": usual if usual is None or writing.level is None else writing.level,
        "data_page_size": writing.page_bytes,
        "max_rows_per_page": writing.page_rows,
        "dictionary_pagesize_limit": writing.dictionary_bytes,
        "store_schema": False,
        "store_decimal_as_integer": True,
        "write_page_index": True,
        "write_page_checksum": True,
    }


class Encodings:
    """What a few of the inputs tell about the columns; nothing here can make the output wrong, only larger."""

    def __init__(self, task: Task, storage: Storage, layouts: Layouts) -> None:
        self._widths: dict[int, float] = {}
        self._dictionary_names: set[str] = set()
        self._codec: str | None = None
        self._page_rows = task.writing.page_rows
        self._keeps_all = not task.may_lose and task.order is None
        for item in _spread(task.inputs):
            opened = OpenFile(item, storage, layouts.schemas)
            self._look(opened, layouts.of(opened, frozenset(item.constants)))
        self.base = write_options(task.writing, self._codec)

    def options(self, field: pa.Field, column: pa.ChunkedArray) -> dict[str, Any]:
        paths = dictionary_leaves(field, column, self._page_rows)
        return {**self.base, "use_dictionary": paths or False}

    @property
    def dictionary_names(self) -> list[str]:
        """The files' columns of text and bytes, by their paths, that are read as dictionaries."""
        return sorted(self._dictionary_names)

    def bytes_per_row(self, field: pa.Field) -> float:
        return self._widths.get(field_id(field) or 0, DEFAULT_BYTES_PER_ROW)

    def _look(self, opened: OpenFile, layout: Layout) -> None:
        first = 0
        footer = Reader(opened.footer).struct()
        groups = footer[ROW_GROUPS][1][1] if ROW_GROUPS in footer else []
        if self._codec is None and groups:
            self._codec = codec_name(groups[0][COLUMNS][1][1][0][CHUNK_META][1]).lower()
        for field in layout.fields:
            size = leaves(field.type)
            self._learn(opened, groups, field, range(first, first + size))
            first += size

    def _learn(self, opened: OpenFile, groups: Sequence[Struct], field: pa.Field, numbers: range) -> None:
        number = field_id(field)
        if number is None or not groups:
            return
        chunks = {leaf: [group[COLUMNS][1][1][leaf][CHUNK_META][1] for group in groups] for leaf in numbers}
        # Where rows go, entries go with them: inside other types that would take longer than it saves.
        if self._keeps_all or not is_nested(field.type):
            for leaf, kind, is_safe in zip(numbers, leaf_types(field.type), has_own_nulls(field), strict=True):
                if is_text(kind) and is_safe and all(map(is_in_dictionary, chunks[leaf])):
                    self._dictionary_names.add(opened.schema.paths[leaf])
        unpacked = sum(chunk[UNCOMPRESSED][1] for found in chunks.values() for chunk in found)
        stored = unpacked / max(opened.metadata.num_rows, 1)
        self._widths[number] = max(self._widths.get(number, 0.0), stored, float(_width(field.type)))


def dictionary_leaves(field: pa.Field, column: pa.ChunkedArray, page_rows: int) -> list[str]:
    """The Parquet columns of a field that get a dictionary: those whose first page is smaller with one.

    Spark's writer asks the same after each column's first page.
    """
    page = column.slice(0, page_rows)
    first = page.combine_chunks() if page.num_chunks != 1 else page.chunk(0)
    paths = leaf_paths(field.name, field.type)
    return [path for path, values in zip(paths, _leaf_values(first), strict=True) if _pays(values)]


def _leaf_values(array: pa.Array) -> Iterator[pa.Array]:
    kind = array.type
    if pa.types.is_struct(kind):
        parts = array.flatten()
    elif pa.types.is_map(kind):
        parts = [array.keys, array.items]
    elif is_list(kind):
        parts = [array.flatten()]
    else:
        yield array
        return
    for part in parts:
        yield from _leaf_values(part)


def _pays(page: pa.Array) -> bool:
    if pa.types.is_boolean(page.type):
        # No writer has dictionaries of them.
        return False
    values = _plain(page.drop_null())
    distinct = values.unique()
    index_bits = max(len(distinct) - 1, 1).bit_length()
    return _stored_bytes(distinct) + len(values) * index_bits // 8 < _stored_bytes(values)


def _plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    return column.cast(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else column


def _stored_bytes(values: Any) -> int:
    """As plain Parquet values: numbers at their width, text and bytes with their length before them."""
    kind = values.type
    if is_text(kind):
        return 4 * len(values) + (pc.sum(pc.binary_length(values)).as_py() or 0)
    if pa.types.is_decimal(kind):
        return len(values) * _decimal_width(kind.precision)
    return len(values) * max(int(kind.bit_width) // 8, 1)


def _decimal_width(precision: int) -> int:
    return 4 if precision <= 9 else 8 if precision <= 18 else 16


def is_in_dictionary(chunk: Struct) -> bool:
    """Whether every data page refers to a dictionary; without a word about it, no."""
    if _ENCODINGS_USED not in chunk:
        return False
    used = chunk[_ENCODINGS_USED][1][1]
    return all(stat[_ENCODING][1] in _DICTIONARY_ENCODINGS for stat in used if stat[_PAGE_TYPE][1] in _DATA_PAGES)


def _width(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_width(kind.field(position).type) for position in range(kind.num_fields))
    try:
        return max(int(kind.bit_width) // 8, 1)
    except (ValueError, AttributeError):
        return 4


def _spread(inputs: Sequence[Any]) -> list[Any]:
    """The first, the last and one between."""
    chosen = {0, len(inputs) // 2, len(inputs) - 1} if inputs else set()
    return [inputs[position] for position in sorted(chosen)]
