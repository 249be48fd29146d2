"""What each reader shows of a table, in one exact form, so that readers and snapshots can be compared."""

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

from .lakes import Lake

Rows = list[str]
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def spark_rows(frame: DataFrame) -> Rows:
    return exact_rows(frame.toArrow())


def pyiceberg_rows(lake: Lake, table: TableId) -> Rows:
    return exact_rows(lake.catalogs.load(table).scan().to_arrow())


def generic_rows(lake: Lake, table: TableId, columns: Sequence[str], part: str = "") -> Rows:
    """As Iceberg's own Java reader shows them. Not for bytes: Java prints their address."""
    context = lake.spark.sparkContext
    names = context._gateway.new_array(context._jvm.java.lang.String, len(columns))
    for position, name in enumerate(columns):
        names[position] = name
    scan = lake.iceberg.data.IcebergGenerics.read(lake.java(table)).select(names)
    scan = scan.where(lake.iceberg.expressions.Expressions.equal("part", part)) if part else scan
    records = scan.build().iterator()
    found = []
    while records.hasNext():
        found.append(records.next().toString())
    return sorted(found)


def exact_rows(table: pa.Table, *, is_empty_null: bool = False) -> Rows:
    """Every row as text, sorted: times in nanoseconds, zeros with their sign, one NaN for all.

    `is_empty_null` is for comparisons with PyIceberg, which shows a list or map of structs that is null as empty.
    """
    empty = None if is_empty_null else []
    columns = [[exact(value, empty) for chunk in column.chunks for value in chunk] for column in table.columns]
    return sorted(repr(row) for row in zip(*columns, strict=True)) if columns else []


def exact(value: pa.Scalar, empty: list[Any] | None) -> Any:
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
        return tuple((name, exact(part, empty)) for name, part in value.items())
    if pa.types.is_map(kind):
        return [(exact(entry["key"], empty), exact(entry["value"], empty)) for entry in value.values] or empty
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [exact(part, empty) for part in value.values] or empty
    return value.as_py()


def predicates(lake: Lake, table: TableId, shown: pa.Table, random: Random, most: int) -> list[str]:
    """Filters with values that occur: a row that bounds or counts hide is missing from their answers."""
    unasked = uuid_columns(lake, table)
    names = [name for name in shown.column_names if not name.startswith("_")]
    leaves = [leaf for name in names for leaf in _leaves(name, shown[name]) if leaf[0].replace("`", "") not in unasked]
    found = []
    for name, column in random.sample(leaves, min(len(leaves), most)):
        found.append(f"{name} IS NULL")
        values = column.drop_null()
        if len(values):
            literal = _literal(_drawn(values, random))
            found += [f"{name} = {literal}", f"{name} < {literal}", _at_least(name, literal, column.type)]
    return found


def _drawn(values: pa.ChunkedArray, random: Random) -> pa.Scalar:
    """The same value in every run: Spark returns rows in any order."""
    return sorted(values, key=lambda value: repr(exact(value, None)))[random.randrange(len(values))]


def _at_least(name: str, literal: str, kind: pa.DataType) -> str:
    """Without NaN: Spark sorts it above all numbers, Iceberg's bounds leave it out, so files are skipped by chance."""
    condition = f"{name} >= {literal}"
    return f"{condition} AND NOT isnan({name})" if pa.types.is_floating(kind) else condition


def uuid_columns(lake: Lake, table: TableId) -> set[str]:
    """Iceberg 1.12 compares uuids with bounds as signed numbers, and so finds too little, whoever wrote the file."""
    schema = lake.catalogs.load(table).schema()
    fields = schema._lazy_id_to_field.items()
    return {str(schema.find_column_name(number)) for number, field in fields if str(field.field_type) == "uuid"}


def _leaves(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Columns that a filter can name: not what lies in lists and maps."""
    if pa.types.is_struct(column.type):
        flat = column.combine_chunks()
        for position, part in enumerate(column.type):
            inside = pa.chunked_array([flat.flatten()[position]])
            yield from _leaves(f"{name}.{sql.identifier(part.name)}", inside)
    elif not pa.types.is_nested(column.type):
        yield name, column


def _literal(value: pa.Scalar) -> str:
    """In Spark's SQL, of exactly the column's type."""
    kind = value.type
    if pa.types.is_string(kind):
        return f"CAST(X'{value.as_py().encode().hex()}' AS STRING)"
    if pa.types.is_binary(kind):
        return f"X'{value.as_py().hex()}'"
    if pa.types.is_timestamp(kind):
        moment = datetime(1970, 1, 1) + timedelta(microseconds=value.value)
        return f"TIMESTAMP_NTZ '{moment}'" if kind.tz is None else f"TIMESTAMP '{moment} UTC'"
    return f"CAST('{value.as_py()}' AS {_SQL[str(kind)] if str(kind) in _SQL else _decimal(kind)})"


_SQL = {
    "bool": "BOOLEAN",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date32[day]": "DATE",
}


def _decimal(kind: pa.DataType) -> str:
    return f"DECIMAL({kind.precision}, {kind.scale})"


def answers(lake: Lake, table: TableId, filters: Sequence[str]) -> dict[str, Rows]:
    """The ids that each filter finds; one query for all."""
    return _answers(lake, sql.table_name(table), filters)


def expected_answers(lake: Lake, shown: pa.Table, filters: Sequence[str]) -> dict[str, Rows]:
    """The same from rows in memory, which have no bounds: those of imported files may be wrong themselves."""
    lake.spark.createDataFrame(shown).createOrReplaceTempView("shown")
    return _answers(lake, "shown", filters)


def _answers(lake: Lake, name: str, filters: Sequence[str]) -> dict[str, Rows]:
    parts = [f"SELECT {number} AS number, id FROM {name} WHERE {text}" for number, text in enumerate(filters)]
    found: dict[str, Rows] = {text: [] for text in filters}
    for number, id in lake.sql(" UNION ALL ".join(parts)).collect() if parts else ():
        found[filters[number]].append(str(id))
    return {text: sorted(ids) for text, ids in found.items()}
