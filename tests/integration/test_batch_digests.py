"""Digests of columnar batches are those that SQL computes, for every type, with deletes and with wrong metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from icepack.domain.table import TableId
from icepack.engine.verification.bounds import FileMetrics
from icepack.engine.verification.spark_reader import COLUMNS_AT_ONCE, FileDigest, SparkReader

from .lakes import Lake, equality_delete

COLUMNS = {
    "b": ("BOOLEAN", "id % 2 = 0"),
    "i": ("INT", "CAST(id * 7919 % 1000 - 500 AS INT)"),
    "l": ("BIGINT", "id * 1234567890123 - 9"),
    "f": ("FLOAT", "CAST(element_at(array('NaN', '-0.0', '0', '1.5', '-7'), CAST(id % 5 + 1 AS INT)) AS FLOAT)"),
    "d": (
        "DOUBLE",
        "CAST(element_at(array('-0.0', 'NaN', '-Infinity', '3', '0'), CAST(id % 5 + 1 AS INT)) AS DOUBLE)",
    ),
    "small": ("DECIMAL(9, 2)", "CAST(id / 7 - 3 AS DECIMAL(9, 2))"),
    "middle": ("DECIMAL(18, 4)", "CAST(-id / 9 AS DECIMAL(18, 4))"),
    "large": ("DECIMAL(38, 10)", "CAST(concat('-123456789012345678', id) AS DECIMAL(38, 10))"),
    "day": ("DATE", "date_from_unix_date(CAST(id * 100 - 5000 AS INT))"),
    "moment": ("TIMESTAMP", "timestamp_micros(id * 1000003 - 5000000)"),
    "plain": ("TIMESTAMP_NTZ", "CAST(timestamp_micros(id * 1000003) AS TIMESTAMP_NTZ)"),
    "s": ("STRING", "CASE id % 4 WHEN 0 THEN '' WHEN 1 THEN 'ä€😀' ELSE repeat(concat('x', id), 9) END"),
    "raw": ("BINARY", "CASE id % 3 WHEN 0 THEN X'' ELSE unhex(md5(concat('', id))) END"),
}
ROWS = 500


def create(lake: Lake, *, version: int) -> TableId:
    """A third of the values of every column are null."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    table = lake.create(f"id BIGINT, {columns}", hint="batches", version=version)
    values = ", ".join(f"IF(id % 3 = {at % 3}, NULL, {value})" for at, (_, value) in enumerate(COLUMNS.values()))
    lake.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, {values} FROM range({ROWS})")
    return table


def reader(lake: Lake, table: TableId, *, by_sql: bool = False, lineage: tuple[str, ...] = ()) -> SparkReader:
    java = lake.java(table)
    schema = json.loads(lake.iceberg.SchemaParser.toJson(java.schema()))
    made = SparkReader(lake.spark, java, schema, lineage)
    assert made._batches is not None
    if by_sql:
        made._batches = None
    return made


def scan_tasks(lake: Lake, table: TableId) -> Any:
    planned = lake.java(table).newScan().includeColumnStats().planFiles()
    try:
        return list(planned.iterator())
    finally:
        planned.close()


def metrics_of(lake: Lake, task: Any) -> FileMetrics:
    file = task.file()

    def counts(found: Any) -> dict[int, int]:
        return {int(key): int(value) for key, value in found.items()}

    def bounds(found: Any) -> dict[int, bytes]:
        to_array = lake.iceberg.util.ByteBuffers.toByteArray
        return {int(key): bytes(to_array(value)) for key, value in found.items()}

    return FileMetrics(
        record_count=file.recordCount(),
        null_value_counts=counts(file.nullValueCounts()),
        nan_value_counts=counts(file.nanValueCounts()),
        lower_bounds=bounds(file.lowerBounds()),
        upper_bounds=bounds(file.upperBounds()),
    )


def both(lake: Lake, table: TableId, metrics: FileMetrics) -> FileDigest:
    tasks = scan_tasks(lake, table)
    (by_batches,) = reader(lake, table).digests(tasks, [metrics])
    (by_sql,) = reader(lake, table, by_sql=True).digests(tasks, [metrics])
    assert by_batches == by_sql
    return by_batches


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("deletes", ["none", "position", "equality"])
def test_digests_are_those_of_sql(lake: Lake, version: int, deletes: str) -> None:
    table = create(lake, version=version)
    if deletes == "position":
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        lake.sql(f"DELETE FROM {table} WHERE id % 7 = 3")
    if deletes == "equality":
        equality_delete(lake, table, ["id"], [(number,) for number in range(0, ROWS, 5)])
    lineage = ("_row_id", "_last_updated_sequence_number") if version >= 3 else ()
    tasks = scan_tasks(lake, table)
    found = reader(lake, table, lineage=lineage).digest(tasks)
    assert found == reader(lake, table, by_sql=True, lineage=lineage).digest(tasks)
    assert found.rows == lake.sql(f"SELECT count(*) FROM {table}").first()[0]
    assert set(found.columns) >= {*COLUMNS, *lineage}


def test_true_metrics_are_found_true(lake: Lake) -> None:
    table = create(lake, version=2)
    (task,) = scan_tasks(lake, table)
    assert both(lake, table, metrics_of(lake, task)).wrong_metrics == ()


def test_every_bound_that_hides_a_row_is_found(lake: Lake) -> None:
    """The bounds of each column are changed for one another, so that rows lie outside of all of them."""
    table = create(lake, version=2)
    (task,) = scan_tasks(lake, table)
    true = metrics_of(lake, task)
    wrong = replace(true, lower_bounds=true.upper_bounds, upper_bounds=true.lower_bounds)
    found = both(lake, table, wrong).wrong_metrics
    assert {each.column for each in found if each.measure == "rows_outside_bounds"} == {"id", *COLUMNS}


def test_wrong_counts_are_found(lake: Lake) -> None:
    table = create(lake, version=2)
    (task,) = scan_tasks(lake, table)
    true = metrics_of(lake, task)
    wrong = replace(
        true,
        record_count=true.record_count + 1,
        null_value_counts={key: value + 1 for key, value in true.null_value_counts.items()},
        nan_value_counts={key: value + 1 for key, value in true.nan_value_counts.items()},
    )
    measures = [each.measure for each in both(lake, table, wrong).wrong_metrics]
    assert measures.count("record_count") == 1
    assert measures.count("null_value_count") == len(COLUMNS) + 1
    assert measures.count("nan_value_count") == 2


def test_more_columns_than_are_hashed_together(lake: Lake) -> None:
    names = [f"c{number}" for number in range(2 * COLUMNS_AT_ONCE + 3)]
    table = lake.create(f"id BIGINT, {', '.join(f'{name} INT' for name in names)}", hint="wide", version=2)
    values = ", ".join(f"CAST(id * {at} AS INT)" for at in range(len(names)))
    lake.sql(f"INSERT INTO {table} SELECT id, {values} FROM range(9)")
    tasks = scan_tasks(lake, table)
    found = reader(lake, table).digest(tasks)
    assert found == reader(lake, table, by_sql=True).digest(tasks)
    assert sum(name.startswith("(whole rows)") for name in found.columns) == 3


def test_nested_columns_are_read_by_sql(lake: Lake) -> None:
    table = lake.create("id BIGINT, s STRUCT<x: INT>", hint="nested", version=2)
    lake.sql(f"INSERT INTO {table} SELECT id, named_struct('x', CAST(id AS INT)) FROM range(9)")
    java = lake.java(table)
    made = SparkReader(lake.spark, java, json.loads(lake.iceberg.SchemaParser.toJson(java.schema())))
    assert made._batches is None
    assert made.digest(scan_tasks(lake, table)).rows == 9
