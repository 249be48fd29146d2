"""Reads tables with different readers, and normalizes the rows so that readers and snapshots can be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import DataFrame

from icepack.domain.table import TableId
from icepack.engine import sql

from .lake import Lake

Rows = list[str]
# Nanoseconds per Arrow time unit.
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def read_with_spark(frame: DataFrame) -> Rows:
    return normalize_rows(frame.toArrow())


def read_with_pyiceberg(lake: Lake, table: TableId) -> Rows:
    return normalize_rows(lake.catalogs.load(table).scan().to_arrow())


def read_with_generic_reader(lake: Lake, table: TableId, columns: Sequence[str], part: str = "") -> Rows:
    """Reads rows with Iceberg's generic Java reader. Not for binary columns, of which Java prints the address."""
    context = lake.spark.sparkContext
    names = context._gateway.new_array(context._jvm.java.lang.String, len(columns))
    for position, name in enumerate(columns):
        names[position] = name
    scan = lake.iceberg.data.IcebergGenerics.read(lake.java_table(table)).select(names)
    scan = scan.where(lake.iceberg.expressions.Expressions.equal("part", part)) if part else scan
    records = scan.build().iterator()
    found = []
    while records.hasNext():
        found.append(records.next().toString())
    return sorted(found)


def normalize_rows(table: pa.Table, *, is_empty_null: bool = False) -> Rows:
    """Returns the sorted rows as text: times in nanoseconds, zeros with their sign, and all NaNs alike.

    `is_empty_null` is for comparisons with PyIceberg, which returns a null list or map of structs as empty.
    """
    empty = None if is_empty_null else []
    columns = [
        [normalize_value(value, empty) for chunk in column.chunks for value in chunk] for column in table.columns
    ]
    return sorted(repr(row) for row in zip(*columns, strict=True)) if columns else []


def normalize_value(value: pa.Scalar, empty: list[Any] | None) -> Any:
    kind = value.type
    if not value.is_valid:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return str(UUID(bytes=value.value.as_py()))
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return value.value * NANOSECONDS[kind.unit]
    if pa.types.is_floating(kind):
        return "nan" if math.isnan(value.as_py()) else value.as_py()
    if pa.types.is_struct(kind):
        return tuple((name, normalize_value(field, empty)) for name, field in value.items())
    if pa.types.is_map(kind):
        return [
            (normalize_value(entry["key"], empty), normalize_value(entry["value"], empty)) for entry in value.values
        ] or empty
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [normalize_value(element, empty) for element in value.values] or empty
    return value.as_py()


def build_filters(lake: Lake, table: TableId, rows: pa.Table, random: Random, limit: int) -> list[str]:
    """Builds filters with existing values: wrong bounds or counts make rows missing from their results."""
    excluded = find_uuid_columns(lake, table)
    names = [name for name in rows.column_names if not name.startswith("_")]
    leaves = [leaf for name in names for leaf in _leaf_columns(name, rows[name])]
    leaves = [leaf for leaf in leaves if leaf[0].replace("`", "") not in excluded]
    found = []
    for name, column in random.sample(leaves, min(len(leaves), limit)):
        found.append(f"{name} IS NULL")
        values = column.drop_null()
        if len(values):
            literal = _sql_literal(_pick(values, random))
            found += [f"{name} = {literal}", f"{name} < {literal}", _greater_or_equal(name, literal, column.type)]
    return found


def _pick(values: pa.ChunkedArray, random: Random) -> pa.Scalar:
    """Picks the same value in every run, although Spark returns rows in any order."""
    return sorted(values, key=lambda value: repr(normalize_value(value, None)))[random.randrange(len(values))]


def _greater_or_equal(name: str, literal: str, kind: pa.DataType) -> str:
    """Excludes NaN: Spark sorts it above all numbers, but Iceberg's bounds ignore it, so that it may be skipped."""
    condition = f"{name} >= {literal}"
    return f"{condition} AND NOT isnan({name})" if pa.types.is_floating(kind) else condition


def find_uuid_columns(lake: Lake, table: TableId) -> set[str]:
    """Iceberg 1.12 compares uuids with bounds as signed numbers, so that filters miss rows of any writer."""
    schema = lake.catalogs.load(table).schema()
    fields = schema._lazy_id_to_field.items()
    return {str(schema.find_column_name(field_id)) for field_id, field in fields if str(field.field_type) == "uuid"}


def _leaf_columns(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Returns the columns that a filter can reference: not those inside lists and maps."""
    if pa.types.is_struct(column.type):
        flat = column.combine_chunks()
        for position, field in enumerate(column.type):
            nested = pa.chunked_array([flat.flatten()[position]])
            yield from _leaf_columns(f"{name}.{sql.quote_identifier(field.name)}", nested)
    elif not pa.types.is_nested(column.type):
        yield name, column


def _sql_literal(value: pa.Scalar) -> str:
    """Formats a value as a Spark SQL literal of exactly the column's type."""
    kind = value.type
    if pa.types.is_string(kind):
        return f"CAST(X'{value.as_py().encode().hex()}' AS STRING)"
    if pa.types.is_binary(kind):
        return f"X'{value.as_py().hex()}'"
    if pa.types.is_timestamp(kind):
        moment = datetime(1970, 1, 1) + timedelta(microseconds=value.value)
        return f"TIMESTAMP_NTZ '{moment}'" if kind.tz is None else f"TIMESTAMP '{moment} UTC'"
    return f"CAST('{value.as_py()}' AS {_SQL_TYPES.get(str(kind)) or _decimal_type(kind)})"


_SQL_TYPES = {
    "bool": "BOOLEAN",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date32[day]": "DATE",
}


def _decimal_type(kind: pa.DataType) -> str:
    return f"DECIMAL({kind.precision}, {kind.scale})"


def run_filters(lake: Lake, table: TableId, filters: Sequence[str]) -> dict[str, Rows]:
    """Returns the ids that each filter finds, using one query for all."""
    return _run_filters(lake, sql.table_name(table), filters)


def run_filters_in_memory(lake: Lake, rows: pa.Table, filters: Sequence[str]) -> dict[str, Rows]:
    """Runs the filters on rows in memory, which have no bounds; those of imported files may be wrong."""
    lake.spark.createDataFrame(rows).createOrReplaceTempView("rows_in_memory")
    return _run_filters(lake, "rows_in_memory", filters)


def _run_filters(lake: Lake, name: str, filters: Sequence[str]) -> dict[str, Rows]:
    queries = [f"SELECT {number} AS number, id FROM {name} WHERE {text}" for number, text in enumerate(filters)]
    found: dict[str, Rows] = {text: [] for text in filters}
    for number, id in lake.sql(" UNION ALL ".join(queries)).collect() if queries else ():
        found[filters[number]].append(str(id))
    return {text: sorted(ids) for text, ids in found.items()}
