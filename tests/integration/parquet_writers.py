"""Writes Parquet files with PyArrow, DuckDB, Polars and fastparquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import fastparquet
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import is_list


def write_with_arrow(rows: pa.Table, path: Path, **settings: Any) -> None:
    pq.write_table(rows, path, **settings)


def write_with_encodings(
    rows: pa.Table, path: Path, *, encodings: Mapping[Callable[[pa.DataType], bool], str], **more: Any
) -> None:
    """Writes with PyArrow without dictionaries, using the given encodings for the types that match."""
    column_encoding = {
        column: next((encoding for matches, encoding in encodings.items() if matches(kind)), "PLAIN")
        for column, kind in leaf_columns(rows.schema)
    }
    pq.write_table(rows, path, use_dictionary=False, column_encoding=column_encoding, **more)


def leaf_columns(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """The paths of a file's columns as PyArrow writes them, with their Arrow types."""
    for field in schema:
        yield from _leaf_columns(field.name, field.type)


def _leaf_columns(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_map(kind):
        yield from _leaf_columns(f"{path}.key_value.key", kind.key_type)
        yield from _leaf_columns(f"{path}.key_value.value", kind.item_type)
    elif is_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaf_columns(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaf_columns(f"{path}.{field.name}", field.type)
    else:
        yield path, kind


def write_with_duckdb(rows: pa.Table, path: Path, *, options: str) -> None:
    with duckdb.connect() as connection:
        connection.register("source", rows)
        connection.execute("SET preserve_insertion_order = true")
        connection.execute(f"COPY (SELECT * FROM source) TO '{path}' (FORMAT parquet, {options})")


def write_with_polars(rows: pa.Table, path: Path, **settings: Any) -> None:
    pl.from_arrow(rows).write_parquet(path, **settings)


def write_with_fastparquet(rows: pa.Table, path: Path, **settings: Any) -> None:
    """Leaves out dates, for which pandas has no type."""
    supported = rows.drop_columns([field.name for field in rows.schema if pa.types.is_date(field.type)])
    fastparquet.write(str(path), supported.to_pandas(types_mapper=PANDAS_TYPES.get), write_index=False, **settings)


# Nullable integer types; with the default types, pandas converts integers with nulls to floating point numbers.
PANDAS_TYPES = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
}


def write_with_empty_row_groups(rows: pa.Table, path: Path) -> None:
    with pq.ParquetWriter(path, rows.schema) as writer:
        for part in (rows.slice(0, 0), rows.slice(0, 7), rows.slice(0, 0), rows.slice(7), rows.slice(0, 0)):
            writer.write_table(part)


def write_without_rows(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows.slice(0, 0), path)


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def supports_byte_stream_split(kind: pa.DataType) -> bool:
    predicates = (pa.types.is_floating, pa.types.is_integer, pa.types.is_fixed_size_binary, pa.types.is_decimal)
    return any(matches(kind) for matches in predicates)
