"""Parquet files as other writers make them: the same few rows in many encodings, page layouts and annotations."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import duckdb
import fastparquet
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import children, is_list
from icepack.kernel.parquet.thrift import I32, Reader, write_struct

from .random_tables import FIXED_BYTES, Column, Kind

ROWS = 40
Write = Callable[[pa.Table, Path], None]
Change = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Entry:
    """One way to write a family's rows."""

    name: str
    write: Write
    change: Change = lambda rows: rows
    """What is done to the rows before: other Arrow types for the same values."""


@dataclass(frozen=True)
class Family:
    """Columns of a table, and the ways in which its files are written."""

    name: str
    columns: tuple[Column, ...]
    entries: tuple[Entry, ...]
    is_spark_readable: bool = True


def rows_of(family: Family, part: str, first: int, seed: int, rows: int = ROWS) -> pa.Table:
    """`id` counts on from `first`; `part` is the partition."""
    random = Random(seed)
    body: dict[str, pa.Array] = {
        "id": pa.array(range(first, first + rows), pa.int64()),
        "part": pa.array([part] * rows, pa.string()),
    }
    for column in family.columns:
        few = [column.kind.value(random) for _ in range(4)]
        alike = random.choice((0.2, 0.9))
        values = [random.choice(few) if random.random() < alike else column.kind.value(random) for _ in range(rows)]
        body[column.name] = _array(values, column.kind)
    return pa.table(body)


def _array(values: list[Any], kind: Kind) -> pa.Array:
    """In the type that a file has; Spark is given uuids as text and fixed bytes as binary."""
    if kind.name == "uuid":
        return pa.array([None if value is None else UUID(value).bytes for value in values], pa.uuid())
    return pa.array(values, pa.binary(FIXED_BYTES) if kind.name == "fixed" else kind.arrow)


def by_arrow(rows: pa.Table, path: Path, **settings: Any) -> None:
    pq.write_table(rows, path, **settings)


def encoded(rows: pa.Table, path: Path, *, encodings: Mapping[Callable[[pa.DataType], bool], str], **more: Any) -> None:
    """By PyArrow without dictionaries, with an encoding for each type that is named."""
    kinds = dict(leaf_columns(rows.schema))
    chosen = {
        path: next((encoding for fits, encoding in encodings.items() if fits(kind)), "PLAIN")
        for path, kind in kinds.items()
    }
    pq.write_table(rows, path, use_dictionary=False, column_encoding=chosen, **more)


def leaf_columns(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """The paths of a file's columns as PyArrow writes them, with their Arrow types."""
    for top in schema:
        yield from _leaf_columns(top.name, top.type)


def _leaf_columns(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_map(kind):
        yield from _leaf_columns(f"{path}.key_value.key", kind.key_type)
        yield from _leaf_columns(f"{path}.key_value.value", kind.item_type)
    elif is_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaf_columns(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for part in kind:
            yield from _leaf_columns(f"{path}.{part.name}", part.type)
    else:
        yield path, kind


def by_duckdb(rows: pa.Table, path: Path, *, options: str) -> None:
    with duckdb.connect() as connection:
        connection.register("many", rows)
        connection.execute("SET preserve_insertion_order = true")
        connection.execute(f"COPY (SELECT * FROM many) TO '{path}' (FORMAT parquet, {options})")


def by_polars(rows: pa.Table, path: Path, **settings: Any) -> None:
    pl.from_arrow(rows).write_parquet(path, **settings)


def by_fastparquet(rows: pa.Table, path: Path, **settings: Any) -> None:
    """Without dates, for which pandas has no type."""
    known = rows.drop_columns([part.name for part in rows.schema if pa.types.is_date(part.type)])
    fastparquet.write(str(path), known.to_pandas(types_mapper=PANDAS.get), write_index=False, **settings)


PANDAS = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
}
"""Types in which an integer may be null; the others become floating point numbers."""


def with_empty_groups(rows: pa.Table, path: Path) -> None:
    with pq.ParquetWriter(path, rows.schema) as writer:
        for part in (rows.slice(0, 0), rows.slice(0, 7), rows.slice(0, 0), rows.slice(7), rows.slice(0, 0)):
            writer.write_table(part)


def without_rows(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows.slice(0, 0), path)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _is_byte_split(kind: pa.DataType) -> bool:
    fits = (pa.types.is_floating, pa.types.is_integer, pa.types.is_fixed_size_binary, pa.types.is_decimal)
    return any(fit(kind) for fit in fits)


DELTA = {
    _is_number: "DELTA_BINARY_PACKED",
    pa.types.is_string: "DELTA_BYTE_ARRAY",
    pa.types.is_binary: "DELTA_LENGTH_BYTE_ARRAY",
}
LENGTHS = {_is_number: "DELTA_BINARY_PACKED", pa.types.is_string: "DELTA_LENGTH_BYTE_ARRAY"}


def _by_arrow(name: str, change: Change = lambda rows: rows, **settings: Any) -> Entry:
    return Entry(f"pyarrow, {name}", partial(by_arrow, **settings), change)


def _encoded(name: str, encodings: Mapping[Any, str], **settings: Any) -> Entry:
    return Entry(f"pyarrow, {name}", partial(encoded, encodings=encodings, **settings))


LAYOUTS = (
    _by_arrow("as it is"),
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
    _by_arrow("zstd at its highest", compression="zstd", compression_level=22),
    _by_arrow("lz4", compression="lz4"),
    _by_arrow("version 1.0", version="1.0", store_schema=False),
    _by_arrow("version 2.4 without Arrow's schema", version="2.4", store_schema=False),
    _by_arrow("chunks by content", use_content_defined_chunking=True),
    _encoded("split bytes", {_is_byte_split: "BYTE_STREAM_SPLIT"}),
    _encoded("split bytes, pages v2", {_is_byte_split: "BYTE_STREAM_SPLIT"}, data_page_version="2.0"),
    _encoded("deltas", DELTA),
    _encoded("deltas, pages v2", DELTA, data_page_version="2.0", compression="none"),
    _encoded("lengths as deltas", LENGTHS, max_rows_per_page=9),
    _encoded("booleans in runs", {pa.types.is_boolean: "RLE"}, data_page_version="2.0"),
    Entry("pyarrow, row groups without rows", with_empty_groups),
    Entry("pyarrow, a file without rows", without_rows),
)
DUCKDB = tuple(
    Entry(f"duckdb, {options.lower()}", partial(by_duckdb, options=options))
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
    Entry("polars, as it is", by_polars),
    Entry("polars, tiny pages", partial(by_polars, data_page_size=1, compression="uncompressed")),
    Entry("polars, row groups of three", partial(by_polars, row_group_size=3, compression="snappy")),
    Entry("polars, no statistics", partial(by_polars, statistics=False, compression="gzip")),
    Entry("polars, full statistics", partial(by_polars, statistics="full", compression="lz4")),
)
FASTPARQUET = (
    Entry("fastparquet, as it is", by_fastparquet),
    Entry("fastparquet, INT96", partial(by_fastparquet, times="int96", compression="SNAPPY")),
    Entry("fastparquet, row groups", partial(by_fastparquet, row_group_offsets=7, compression="GZIP")),
    Entry("fastparquet, zstd without statistics", partial(by_fastparquet, compression="ZSTD", stats=False)),
)
OTHERS = (*DUCKDB, *POLARS, *FASTPARQUET)


def retyped(change: Callable[[pa.DataType], pa.DataType | None]) -> Change:
    """The same values in other Arrow types, however deep inside."""

    def changed(kind: pa.DataType) -> pa.DataType:
        if (found := change(kind)) is not None:
            return found
        inside = [part.with_type(changed(part.type)) for part in children(kind)]
        if pa.types.is_map(kind):
            return pa.map_(*inside)
        if is_list(kind):
            return pa.list_(*inside)
        return pa.struct(inside) if pa.types.is_struct(kind) else kind

    return lambda rows: rows.cast(pa.schema([part.with_type(changed(part.type)) for part in rows.schema]))


def _large(kind: pa.DataType) -> pa.DataType | None:
    found = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind)
    if found is None and pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
        return pa.large_list(kind.value_field)
    return found


def _views(kind: pa.DataType) -> pa.DataType | None:
    return {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}.get(kind)


def _dictionaries(rows: pa.Table) -> pa.Table:
    texts = [part.name for part in rows.schema if pa.types.is_string(part.type) or pa.types.is_binary(part.type)]
    for name in texts:
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].dictionary_encode())
    return rows


def _units(unit: str) -> Callable[[pa.DataType], pa.DataType | None]:
    return lambda kind: pa.timestamp(unit, kind.tz) if pa.types.is_timestamp(kind) else None


def in_unit(unit: str) -> Change:
    """Timestamps cut to a unit, unsafely; PyArrow refuses to lose digits in a cast."""
    finer = retyped(_units(unit))

    def change(rows: pa.Table) -> pa.Table:
        for position, part in enumerate(rows.schema):
            if pa.types.is_timestamp(part.type):
                cut = rows[part.name].cast(pa.timestamp(unit, part.type.tz), safe=False)
                rows = rows.set_column(position, part.name, cut)
        return finer(rows)

    return change


def _fixed_lists(rows: pa.Table) -> pa.Table:
    """Lists of which all have the same length, as embeddings have."""
    for position, part in enumerate(rows.schema):
        if pa.types.is_list(part.type):
            kind = part.type.value_type
            random = Random(position)
            values = rows[part.name].combine_chunks().flatten()
            taken = values.take(pa.array([random.randrange(len(values)) for _ in range(2 * len(rows))]))
            made = pa.FixedSizeListArray.from_arrays(taken, type=pa.list_(pa.field("element", kind), 2))
            rows = rows.set_column(position, part.name, made)
    return rows


def shuffled(rows: pa.Table) -> pa.Table:
    """The columns in another order."""
    return rows.select(sorted(rows.column_names, reverse=True))


def with_others(rows: pa.Table) -> pa.Table:
    """With columns that the table does not have, in front and behind."""
    number = pa.array(range(len(rows)), pa.int32())
    return rows.add_column(0, "stranger", number).append_column("zz", pa.array(["z"] * len(rows)))


def without_some(rows: pa.Table) -> pa.Table:
    """Without some of the table's columns."""
    return rows.select(["id", "part", *rows.column_names[2::2]])


def required(rows: pa.Table) -> pa.Table:
    """Without nulls, and the file says so."""
    full = rows.drop_null()
    return full.cast(pa.schema([part.with_nullable(False) for part in full.schema]))


ARROW_TYPES = (
    _by_arrow("large strings", retyped(_large)),
    _by_arrow("string views", retyped(_views)),
    _by_arrow("dictionary types", _dictionaries),
    _by_arrow("columns in another order", shuffled),
    _by_arrow("columns that the table does not have", with_others),
    _by_arrow("some of the columns", without_some),
    _by_arrow("required columns", required),
)
TIMES = (
    _by_arrow("INT96", use_deprecated_int96_timestamps=True),
    _by_arrow("INT96 without dictionaries", use_deprecated_int96_timestamps=True, use_dictionary=False),
    _by_arrow("milliseconds", in_unit("ms")),
    _by_arrow("milliseconds without dictionaries", in_unit("ms"), use_dictionary=False, data_page_version="2.0"),
    _by_arrow("seconds", in_unit("s")),
    _by_arrow("nanoseconds", in_unit("ns")),
)


def _columns(*kinds: str) -> tuple[Column, ...]:
    return tuple(Column(f"c{at}", Kind(kind)) for at, kind in enumerate(kinds))


def _list(inside: Kind) -> Kind:
    return Kind("list", (("element", inside),))


def _map(inside: Kind) -> Kind:
    return Kind("map", (("key", Kind("string")), ("value", inside)))


def _struct(*parts: Kind) -> Kind:
    return Kind("struct", tuple((f"f{at}", part) for at, part in enumerate(parts)))


_PAIR = _struct(Kind("int"), Kind("string"))
NESTED = (
    _list(Kind("int")),
    _struct(Kind("long"), _list(Kind("string"))),
    _list(_PAIR),
    _map(Kind("double")),
    _map(_PAIR),
    _list(_list(Kind("int"))),
    _struct(_struct(Kind("string"), Kind("boolean")), Kind("date")),
    Kind("int"),
)
_LEGACY = _by_arrow("legacy lists", use_compliant_nested_type=False)
_FIXED_LISTS = tuple(
    replace(entry, name=f"{entry.name}, fixed-size lists", change=_fixed_lists)
    for entry in (LAYOUTS[0], LAYOUTS[1], LAYOUTS[2], POLARS[0], DUCKDB[0])
)


def _narrow(kind: pa.DataType) -> pa.DataType | None:
    return {
        "decimal128(5, 2)": pa.decimal32(5, 2),
        "decimal128(9, 2)": pa.decimal32(9, 2),
        "decimal128(18, 4)": pa.decimal64(18, 4),
    }.get(str(kind))


DECIMALS = (
    *LAYOUTS[:3],
    _by_arrow("decimals as integers", store_decimal_as_integer=True),
    _by_arrow("decimals as integers, plain", store_decimal_as_integer=True, use_dictionary=False),
    _by_arrow("narrow decimals", retyped(_narrow)),
    _encoded("split bytes", {_is_byte_split: "BYTE_STREAM_SPLIT"}),
    *DUCKDB,
    *POLARS,
)

FAMILIES = (
    Family(
        "scalars",
        _columns("boolean", "int", "long", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"),
        (*LAYOUTS, *OTHERS, *ARROW_TYPES),
    ),
    Family(
        "times",
        _columns("timestamp", "timestamp_ntz", "date"),
        (*TIMES, *LAYOUTS[:2], *OTHERS),
    ),
    Family(
        "nested",
        tuple(Column(f"c{at}", kind) for at, kind in enumerate(NESTED)),
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
        "clocks",
        _columns("time", "timestamp_ns", "timestamptz_ns", "int"),
        (*LAYOUTS[:8], LAYOUTS[20], LAYOUTS[22], *DUCKDB[:2], *POLARS[:2]),
        is_spark_readable=False,
    ),
)


UNREAD = (
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
            Entry("polars, brotli", partial(by_polars, compression="brotli")),
            Entry("duckdb, brotli", partial(by_duckdb, options="COMPRESSION brotli")),
        ),
    ),
)
"""What Iceberg 1.12 on Spark 4.1 was seen not to read, in whole or in part; soaked in case that changes."""


def add_field_ids(path: Path, schema: Mapping[str, Any]) -> None:
    """Puts the table's field ids into the footer of a file that was written without them."""
    data = path.read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    footer = Reader(data, len(data) - 8 - length).struct()
    kind, elements = footer[2][1]
    walk = iter(elements)
    root = next(walk)
    for _ in range(root[5][1]):
        _identify(walk, {"type": "struct", "fields": schema["fields"]})
    assert kind is not None
    made = write_struct(footer)
    path.write_bytes(data[: len(data) - 8 - length] + made + struct.pack("<I", len(made)) + b"PAR1")


def _identify(walk: Iterator[Any], parent: Mapping[str, Any]) -> None:
    """The next element, a field of the struct, and all inside it."""
    element = next(walk)
    name = element[4][1].decode()
    known = next((field for field in parent["fields"] if field["name"] == name), None)
    if known is None:
        return _skip(walk, element)
    element[9] = (I32, known["id"])
    return _inside(walk, element, known["type"])


def _inside(walk: Iterator[Any], element: Any, kind: Any) -> None:
    count = element.get(5, (I32, 0))[1]
    if not count:
        return
    if kind["type"] == "struct":
        for _ in range(count):
            _identify(walk, kind)
        return
    repeated = next(walk)
    ways = [("key", "key-id"), ("value", "value-id")] if kind["type"] == "map" else [("element", "element-id")]
    if 5 not in repeated:
        repeated[9] = (I32, kind[ways[0][1]])
        return
    for what, number in ways:
        part = next(walk)
        part[9] = (I32, kind[number])
        _inside(walk, part, kind[what])


def _skip(walk: Iterator[Any], element: Any) -> None:
    for _ in range(element.get(5, (I32, 0))[1]):
        _skip(walk, next(walk))
