"""Fingerprints of sets of rows, which are equal for the same rows in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import MapType

from icepack.domain.table import TableId
from icepack.engine import sql

LINEAGE = ("_row_id", "_last_updated_sequence_number")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The number of rows, and the sum and the exclusive or of a hash over all their columns."""

    rows: int
    total: int
    mixed: int


def fingerprint_table(spark: SparkSession, table: TableId, *, has_lineage: bool) -> Fingerprint:
    """For v3 tables, the fingerprint includes the row lineage, whose columns have to be selected explicitly."""
    frame = spark.table(sql.table_name(table))
    return _compute(frame, [*frame.columns, *(LINEAGE if has_lineage else ())], frame)


def fingerprint_files(spark: SparkSession, paths: list[str], *, like: TableId, has_lineage: bool) -> Fingerprint:
    table = spark.table(sql.table_name(like))
    frame = spark.read.parquet(*paths)
    return _compute(frame, [*table.columns, *(LINEAGE if has_lineage else ())], table)


def _compute(frame: DataFrame, columns: list[str], like: DataFrame) -> Fingerprint:
    maps = {field.name for field in like.schema.fields if isinstance(field.dataType, MapType)}
    hashed = f.xxhash64(*(_hashable(name, name in maps) for name in columns))
    found: Any = (
        frame.select(hashed.alias("h"))
        .agg(f.count("h"), f.sum(f.col("h").cast("decimal(38,0)")), f.bit_xor("h"))
        .first()
    )
    return Fingerprint(int(found[0]), int(found[1] or 0), int(found[2] or 0))


def _hashable(name: str, is_map: bool) -> Column:
    """Hashes maps by their entries, because Spark cannot hash maps; a rewrite must not change the order of entries."""
    return f.map_entries(f.col(name)) if is_map else f.col(name)
