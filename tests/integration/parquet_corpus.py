"""The corpus of Parquet files by other writers: the same rows in many encodings, page layouts and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa

from icepack.kernel.arrow_schema import get_child_fields, is_list

from .parquet_writers import (
    is_number,
    supports_byte_stream_split,
    write_with_arrow,
    write_with_duckdb,
    write_with_empty_row_groups,
    write_with_encodings,
    write_with_fastparquet,
    write_with_polars,
    write_without_rows,
)
from .random_tables import Column
from .random_types import FIXED_BYTES, ColumnType

# The number of rows in a file.
ROWS = 40
Write = Callable[[pa.Table, Path], None]
Change = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Entry:
    """One way to write the rows of a family."""

    name: str
    write: Write
    # A conversion of the rows before they are written, for example to other Arrow types.
    change: Change = lambda rows: rows


@dataclass(frozen=True)
class Family:
    """The columns of a table, and the ways to write its files."""

    name: str
    columns: tuple[Column, ...]
    entries: tuple[Entry, ...]
    is_spark_readable: bool = True


def build_family_rows(family: Family, part: str, first: int, seed: int, rows: int = ROWS) -> pa.Table:
    """Builds random rows of one partition, with consecutive ids from `first`."""
    random = Random(seed)
    body: dict[str, pa.Array] = {
        "id": pa.array(range(first, first + rows), pa.int64()),
        "part": pa.array([part] * rows, pa.string()),
    }
    for column in family.columns:
        repeated = [column.type.random_value(random) for _ in range(4)]
        share = random.choice((0.2, 0.9))
        values = [
            random.choice(repeated) if random.random() < share else column.type.random_value(random)
            for _ in range(rows)
        ]
        body[column.name] = _build_array(values, column.type)
    return pa.table(body)


def _build_array(values: list[Any], column_type: ColumnType) -> pa.Array:
    """Uses the types of files; `ColumnType.arrow` has those of Spark, which are text for uuids and binary for fixed."""
    if column_type.name == "uuid":
        return pa.array([None if value is None else UUID(value).bytes for value in values], pa.uuid())
    return pa.array(values, pa.binary(FIXED_BYTES) if column_type.name == "fixed" else column_type.arrow)


DELTA = {
    is_number: "DELTA_BINARY_PACKED",
    pa.types.is_string: "DELTA_BYTE_ARRAY",
    pa.types.is_binary: "DELTA_LENGTH_BYTE_ARRAY",
}
DELTA_LENGTHS = {is_number: "DELTA_BINARY_PACKED", pa.types.is_string: "DELTA_LENGTH_BYTE_ARRAY"}


def _by_arrow(name: str, change: Change = lambda rows: rows, **settings: Any) -> Entry:
    return Entry(f"pyarrow, {name}", partial(write_with_arrow, **settings), change)


def _encoded(name: str, encodings: Mapping[Any, str], **settings: Any) -> Entry:
    return Entry(f"pyarrow, {name}", partial(write_with_encodings, encodings=encodings, **settings))


LAYOUTS = (
    _by_arrow("default settings"),
    _by_arrow("without dictionaries", use_dictionary=False),
    _by_arrow("pages v2", data_page_version="2.0", compression="zstd"),
    _by_arrow("pages v2 of one row", data_page_version="2.0", max_rows_per_page=1, compression="none"),
    _by_arrow("tiny dictionaries", dictionary_pagesize_limit=20, write_batch_size=3),
    _by_arrow("page indexes", write_page_index=True, max_rows_per_page=5),
    _by_arrow("checksums", write_page_checksum=True, max_rows_per_page=7),
    _by_arrow("checksums, pages v2", write_page_checksum=True, data_page_version="2.0", compression="gzip"),
    _by_arrow("no statistics", write_statistics=False),
    _by_arrow("tiny pages", data_page_size=1, write_batch_size=1),
    _by_arrow("huge pages", data_page_size=2**30, dictionary_pagesize_limit=2**30),
    _by_arrow("a row group for every row", row_group_size=1),
    _by_arrow("row groups of three", row_group_size=3, write_page_index=True),
    _by_arrow("uncompressed", compression="none"),
    _by_arrow("gzip", compression="gzip", compression_level=9),
    _by_arrow("zstd at the highest level", compression="zstd", compression_level=22),
    _by_arrow("lz4", compression="lz4"),
    _by_arrow("version 1.0", version="1.0", store_schema=False),
    _by_arrow("version 2.4 without Arrow's schema", version="2.4", store_schema=False),
    _by_arrow("content-defined chunking", use_content_defined_chunking=True),
    _encoded("byte stream split", {supports_byte_stream_split: "BYTE_STREAM_SPLIT"}),
    _encoded("byte stream split, pages v2", {supports_byte_stream_split: "BYTE_STREAM_SPLIT"}, data_page_version="2.0"),
    _encoded("delta encodings", DELTA),
    _encoded("delta encodings, pages v2", DELTA, data_page_version="2.0", compression="none"),
    _encoded("delta lengths", DELTA_LENGTHS, max_rows_per_page=9),
    _encoded("run-length encoded booleans", {pa.types.is_boolean: "RLE"}, data_page_version="2.0"),
    Entry("pyarrow, row groups without rows", write_with_empty_row_groups),
    Entry("pyarrow, a file without rows", write_without_rows),
)
DUCKDB = tuple(
    Entry(f"duckdb, {options.lower()}", partial(write_with_duckdb, options=options))
    for options in (
        "PARQUET_VERSION V1",
        "PARQUET_VERSION V2",
        "PARQUET_VERSION V2, COMPRESSION zstd, ROW_GROUP_SIZE 7",
        "PARQUET_VERSION V1, COMPRESSION uncompressed, DICTIONARY_SIZE_LIMIT 1",
        "PARQUET_VERSION V2, COMPRESSION gzip, DICTIONARY_SIZE_LIMIT 1",
        "PARQUET_VERSION V1, COMPRESSION lz4_raw",
    )
)
POLARS = (
    Entry("polars, default settings", write_with_polars),
    Entry("polars, tiny pages", partial(write_with_polars, data_page_size=1, compression="uncompressed")),
    Entry("polars, row groups of three", partial(write_with_polars, row_group_size=3, compression="snappy")),
    Entry("polars, no statistics", partial(write_with_polars, statistics=False, compression="gzip")),
    Entry("polars, full statistics", partial(write_with_polars, statistics="full", compression="lz4")),
)
FASTPARQUET = (
    Entry("fastparquet, default settings", write_with_fastparquet),
    Entry("fastparquet, INT96", partial(write_with_fastparquet, times="int96", compression="SNAPPY")),
    Entry("fastparquet, row groups", partial(write_with_fastparquet, row_group_offsets=7, compression="GZIP")),
    Entry("fastparquet, zstd without statistics", partial(write_with_fastparquet, compression="ZSTD", stats=False)),
)
OTHER_WRITERS = (*DUCKDB, *POLARS, *FASTPARQUET)


def cast_types(change: Callable[[pa.DataType], pa.DataType | None]) -> Change:
    """Converts values to other Arrow types, at any depth."""

    def convert(kind: pa.DataType) -> pa.DataType:
        if (found := change(kind)) is not None:
            return found
        nested = [field.with_type(convert(field.type)) for field in get_child_fields(kind)]
        if pa.types.is_map(kind):
            return pa.map_(*nested)
        if is_list(kind):
            return pa.list_(*nested)
        return pa.struct(nested) if pa.types.is_struct(kind) else kind

    return lambda rows: rows.cast(pa.schema([field.with_type(convert(field.type)) for field in rows.schema]))


def _to_large_types(kind: pa.DataType) -> pa.DataType | None:
    found = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind)
    if found is None and pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
        return pa.large_list(kind.value_field)
    return found


def _to_view_types(kind: pa.DataType) -> pa.DataType | None:
    return {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}.get(kind)


def _encode_dictionaries(rows: pa.Table) -> pa.Table:
    is_text = (pa.types.is_string, pa.types.is_binary)
    names = [field.name for field in rows.schema if any(matches(field.type) for matches in is_text)]
    for name in names:
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].dictionary_encode())
    return rows


def _to_unit(unit: str) -> Callable[[pa.DataType], pa.DataType | None]:
    return lambda kind: pa.timestamp(unit, kind.tz) if pa.types.is_timestamp(kind) else None


def convert_timestamps(unit: str) -> Change:
    """Converts timestamps to a unit, also where digits are lost, which PyArrow rejects in a safe cast."""
    cast_nested = cast_types(_to_unit(unit))

    def change(rows: pa.Table) -> pa.Table:
        for position, field in enumerate(rows.schema):
            if pa.types.is_timestamp(field.type):
                converted = rows[field.name].cast(pa.timestamp(unit, field.type.tz), safe=False)
                rows = rows.set_column(position, field.name, converted)
        return cast_nested(rows)

    return change


def _to_fixed_size_lists(rows: pa.Table) -> pa.Table:
    """Replaces lists by lists that all have the same length, as embeddings have."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_list(field.type):
            kind = field.type.value_type
            random = Random(position)
            values = rows[field.name].combine_chunks().flatten()
            elements = values.take(pa.array([random.randrange(len(values)) for _ in range(2 * len(rows))]))
            lists = pa.FixedSizeListArray.from_arrays(elements, type=pa.list_(pa.field("element", kind), 2))
            rows = rows.set_column(position, field.name, lists)
    return rows


def reorder_columns(rows: pa.Table) -> pa.Table:
    return rows.select(sorted(rows.column_names, reverse=True))


def add_columns(rows: pa.Table) -> pa.Table:
    """Adds columns that the table does not have, before and after the others."""
    number = pa.array(range(len(rows)), pa.int32())
    return rows.add_column(0, "extra", number).append_column("zz", pa.array(["z"] * len(rows)))


def drop_columns(rows: pa.Table) -> pa.Table:
    """Drops some of the table's columns."""
    return rows.select(["id", "part", *rows.column_names[2::2]])


def make_required(rows: pa.Table) -> pa.Table:
    """Drops rows with nulls, and makes all columns required."""
    full = rows.drop_null()
    return full.cast(pa.schema([field.with_nullable(False) for field in full.schema]))


ARROW_TYPES = (
    _by_arrow("large strings", cast_types(_to_large_types)),
    _by_arrow("string views", cast_types(_to_view_types)),
    _by_arrow("dictionary types", _encode_dictionaries),
    _by_arrow("columns in another order", reorder_columns),
    _by_arrow("columns that the table does not have", add_columns),
    _by_arrow("some of the columns", drop_columns),
    _by_arrow("required columns", make_required),
)
TIMES = (
    _by_arrow("INT96", use_deprecated_int96_timestamps=True),
    _by_arrow("INT96 without dictionaries", use_deprecated_int96_timestamps=True, use_dictionary=False),
    _by_arrow("milliseconds", convert_timestamps("ms")),
    _by_arrow(
        "milliseconds without dictionaries", convert_timestamps("ms"), use_dictionary=False, data_page_version="2.0"
    ),
    _by_arrow("seconds", convert_timestamps("s")),
    _by_arrow("nanoseconds", convert_timestamps("ns")),
)


def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(f"c{index}", ColumnType(name)) for index, name in enumerate(names))


def _list(element: ColumnType) -> ColumnType:
    return ColumnType("list", (("element", element),))


def _map(value: ColumnType) -> ColumnType:
    return ColumnType("map", (("key", ColumnType("string")), ("value", value)))


def _struct(*fields: ColumnType) -> ColumnType:
    return ColumnType("struct", tuple((f"f{index}", field) for index, field in enumerate(fields)))


_PAIR = _struct(ColumnType("int"), ColumnType("string"))
NESTED = (
    _list(ColumnType("int")),
    _struct(ColumnType("long"), _list(ColumnType("string"))),
    _list(_PAIR),
    _map(ColumnType("double")),
    _map(_PAIR),
    _list(_list(ColumnType("int"))),
    _struct(_struct(ColumnType("string"), ColumnType("boolean")), ColumnType("date")),
    ColumnType("int"),
)
_LEGACY = _by_arrow("legacy lists", use_compliant_nested_type=False)
_FIXED_LISTS = tuple(
    replace(entry, name=f"{entry.name}, fixed-size lists", change=_to_fixed_size_lists)
    for entry in (LAYOUTS[0], LAYOUTS[1], LAYOUTS[2], POLARS[0], DUCKDB[0])
)


def _to_narrow_decimals(kind: pa.DataType) -> pa.DataType | None:
    return {
        "decimal128(5, 2)": pa.decimal32(5, 2),
        "decimal128(9, 2)": pa.decimal32(9, 2),
        "decimal128(18, 4)": pa.decimal64(18, 4),
    }.get(str(kind))


DECIMALS = (
    *LAYOUTS[:3],
    _by_arrow("decimals as integers", store_decimal_as_integer=True),
    _by_arrow("decimals as integers, plain", store_decimal_as_integer=True, use_dictionary=False),
    _by_arrow("narrow decimals", cast_types(_to_narrow_decimals)),
    _encoded("byte stream split", {supports_byte_stream_split: "BYTE_STREAM_SPLIT"}),
    *DUCKDB,
    *POLARS,
)

FAMILIES = (
    Family(
        "scalars",
        _columns("boolean", "int", "long", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"),
        (*LAYOUTS, *OTHER_WRITERS, *ARROW_TYPES),
    ),
    Family(
        "times",
        _columns("timestamp", "timestamp_ntz", "date"),
        (*TIMES, *LAYOUTS[:2], *OTHER_WRITERS),
    ),
    Family(
        "nested",
        tuple(Column(f"c{index}", column_type) for index, column_type in enumerate(NESTED)),
        (*LAYOUTS, *DUCKDB, *POLARS, _LEGACY, *ARROW_TYPES[:2], *_FIXED_LISTS),
    ),
    Family(
        "decimals",
        _columns("decimal(5,2)", "decimal(9,2)", "decimal(10,3)", "decimal(18,4)", "decimal(20,5)", "decimal(38,10)"),
        DECIMALS,
    ),
    Family("narrow", _columns("int8", "int16", "int"), (*LAYOUTS[:4], *DUCKDB[:3], *POLARS[:3], *FASTPARQUET[:1])),
    Family(
        "bytes",
        _columns("uuid", "fixed", "binary", "string"),
        (*LAYOUTS[:6], LAYOUTS[20], *DUCKDB[:2], *POLARS[:2]),
    ),
    Family(
        "times with nanoseconds",
        _columns("time", "timestamp_ns", "timestamptz_ns", "int"),
        (*LAYOUTS[:8], LAYOUTS[20], LAYOUTS[22], *DUCKDB[:2], *POLARS[:2]),
        is_spark_readable=False,
    ),
)


# Families that Iceberg 1.12 on Spark 4.1 cannot read completely; the soak test runs them in case that changes.
UNREADABLE_FAMILIES = (
    Family(
        "unsigned",
        _columns("uint8", "uint16", "uint32"),
        (_by_arrow("no statistics", write_statistics=False), LAYOUTS[0], POLARS[0], POLARS[3], DUCKDB[0]),
    ),
    Family(
        "large unsigned",
        _columns("uint32"),
        (
            _by_arrow("no statistics", write_statistics=False),
            _by_arrow("no statistics, plain", write_statistics=False, use_dictionary=False),
        ),
    ),
    Family(
        "brotli",
        _columns("int", "string"),
        (
            _by_arrow("brotli", compression="brotli"),
            Entry("polars, brotli", partial(write_with_polars, compression="brotli")),
            Entry("duckdb, brotli", partial(write_with_duckdb, options="COMPRESSION brotli")),
        ),
    ),
)
