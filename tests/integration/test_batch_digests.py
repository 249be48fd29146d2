"""Digests of columnar batches equal those computed by SQL, for every type, with deletes and with wrong metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from icepack.domain.table import TableId
from icepack.engine.verification.bounds import FileMetrics
from icepack.engine.verification.spark_reader import MAX_COLUMNS_PER_QUERY, FileDigest, SparkReader

from .lake import Lake, commit_equality_delete

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


def create_table(lake: Lake, *, version: int) -> TableId:
    """Creates a table in which a third of the values of every column are null."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    table = lake.create(f"id BIGINT, {columns}", hint="batches", version=version)
    values = ", ".join(f"IF(id % 3 = {index % 3}, NULL, {value})" for index, (_, value) in enumerate(COLUMNS.values()))
    lake.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, {values} FROM range({ROWS})")
    return table


def create_reader(lake: Lake, table: TableId, *, by_sql: bool = False, lineage: tuple[str, ...] = ()) -> SparkReader:
    java = lake.java_table(table)
    schema = json.loads(lake.iceberg.SchemaParser.toJson(java.schema()))
    reader = SparkReader(lake.spark, java, schema, lineage)
    assert reader._batches is not None
    if by_sql:
        reader._batches = None
    return reader


def plan_tasks(lake: Lake, table: TableId) -> Any:
    planned = lake.java_table(table).newScan().includeColumnStats().planFiles()
    try:
        return list(planned.iterator())
    finally:
        planned.close()


def read_metrics(lake: Lake, task: Any) -> FileMetrics:
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


def digest_both_ways(lake: Lake, table: TableId, metrics: FileMetrics) -> FileDigest:
    tasks = plan_tasks(lake, table)
    (by_batches,) = create_reader(lake, table).digests(tasks, [metrics])
    (by_sql,) = create_reader(lake, table, by_sql=True).digests(tasks, [metrics])
    assert by_batches == by_sql
    return by_batches


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("deletes", ["none", "position", "equality"])
def test_digests_equal_those_of_sql(lake: Lake, version: int, deletes: str) -> None:
    table = create_table(lake, version=version)
    if deletes == "position":
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        lake.sql(f"DELETE FROM {table} WHERE id % 7 = 3")
    if deletes == "equality":
        commit_equality_delete(lake, table, ["id"], [(number,) for number in range(0, ROWS, 5)])
    lineage = ("_row_id", "_last_updated_sequence_number") if version >= 3 else ()
    tasks = plan_tasks(lake, table)
    found = create_reader(lake, table, lineage=lineage).digest(tasks)
    assert found == create_reader(lake, table, by_sql=True, lineage=lineage).digest(tasks)
    assert found.rows == lake.sql(f"SELECT count(*) FROM {table}").first()[0]
    assert set(found.columns) >= {*COLUMNS, *lineage}


def test_correct_metrics_are_accepted(lake: Lake) -> None:
    table = create_table(lake, version=2)
    (task,) = plan_tasks(lake, table)
    assert digest_both_ways(lake, table, read_metrics(lake, task)).wrong_metrics == ()


def test_every_bound_that_excludes_a_row_is_found(lake: Lake) -> None:
    """The lower and upper bounds of each column are swapped, so that rows are outside of them."""
    table = create_table(lake, version=2)
    (task,) = plan_tasks(lake, table)
    correct = read_metrics(lake, task)
    wrong = replace(correct, lower_bounds=correct.upper_bounds, upper_bounds=correct.lower_bounds)
    found = digest_both_ways(lake, table, wrong).wrong_metrics
    assert {difference.column for difference in found if difference.measure == "rows_outside_bounds"} == {
        "id",
        *COLUMNS,
    }


def test_wrong_counts_are_found(lake: Lake) -> None:
    table = create_table(lake, version=2)
    (task,) = plan_tasks(lake, table)
    correct = read_metrics(lake, task)
    wrong = replace(
        correct,
        record_count=correct.record_count + 1,
        null_value_counts={key: value + 1 for key, value in correct.null_value_counts.items()},
        nan_value_counts={key: value + 1 for key, value in correct.nan_value_counts.items()},
    )
    measures = [difference.measure for difference in digest_both_ways(lake, table, wrong).wrong_metrics]
    assert measures.count("record_count") == 1
    assert measures.count("null_value_count") == len(COLUMNS) + 1
    assert measures.count("nan_value_count") == 2


def test_columns_of_wide_tables_are_hashed_in_groups(lake: Lake) -> None:
    names = [f"c{number}" for number in range(2 * MAX_COLUMNS_PER_QUERY + 3)]
    table = lake.create(f"id BIGINT, {', '.join(f'{name} INT' for name in names)}", hint="wide", version=2)
    values = ", ".join(f"CAST(id * {factor} AS INT)" for factor in range(len(names)))
    lake.sql(f"INSERT INTO {table} SELECT id, {values} FROM range(9)")
    tasks = plan_tasks(lake, table)
    found = create_reader(lake, table).digest(tasks)
    assert found == create_reader(lake, table, by_sql=True).digest(tasks)
    assert sum(name.startswith("(whole rows)") for name in found.columns) == 3


def test_nested_columns_are_digested_by_sql(lake: Lake) -> None:
    table = lake.create("id BIGINT, s STRUCT<x: INT>", hint="nested", version=2)
    lake.sql(f"INSERT INTO {table} SELECT id, named_struct('x', CAST(id AS INT)) FROM range(9)")
    java = lake.java_table(table)
    reader = SparkReader(lake.spark, java, json.loads(lake.iceberg.SchemaParser.toJson(java.schema())))
    assert reader._batches is None
    assert reader.digest(plan_tasks(lake, table)).rows == 9


def assert_equals_sql(lake: Lake, table: TableId) -> None:
    tasks = plan_tasks(lake, table)
    found = create_reader(lake, table).digest(tasks)
    assert found == create_reader(lake, table, by_sql=True).digest(tasks)
    assert found.rows == lake.sql(f"SELECT count(*) FROM {table}").first()[0]


def test_dictionaries_of_different_files_and_row_groups_are_distinguished(lake: Lake) -> None:
    """Hashes are cached by dictionary id, and the same id has another value in the next dictionary."""
    columns = "id BIGINT, i INT, l BIGINT, d DOUBLE, small DECIMAL(9, 2), large DECIMAL(38, 10), s STRING"
    table = lake.create(columns, hint="dictionaries", version=2)
    lake.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('write.parquet.row-group-size-bytes' = '65536', "
        "'write.parquet.row-group-check-min-record-count' = '100', "
        "'write.parquet.row-group-check-max-record-count' = '500')"
    )
    for number in range(3):
        key = f"(id % 50 + id DIV 4000 * 50 + {number * 1000})"
        lake.sql(
            f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, CAST({key} - 40 AS INT), -{key}, {key} / 8, "
            f"CAST({key} / 100 AS DECIMAL(9, 2)), CAST(-{key} AS DECIMAL(38, 10)), "
            f"IF(id % 9 = 0, NULL, concat('value-', {key})) FROM range(30000)"
        )
    assert_equals_sql(lake, table)


def test_promoted_columns_are_hashed_as_the_type_of_the_table(lake: Lake) -> None:
    table = lake.create("id BIGINT, i INT, f FLOAT, small DECIMAL(9, 2)", hint="promoted", version=2)
    insert = f"INSERT INTO {table} SELECT id, CAST(id % 70 - 35 AS INT), CAST(id % 9 AS FLOAT), id / 4 FROM range(5000)"
    lake.sql(insert)
    lake.sql(f"ALTER TABLE {table} ALTER COLUMN i TYPE BIGINT")
    lake.sql(f"ALTER TABLE {table} ALTER COLUMN f TYPE DOUBLE")
    lake.sql(f"ALTER TABLE {table} ALTER COLUMN small TYPE DECIMAL(20, 2)")
    assert_equals_sql(lake, table)
    lake.sql(insert)
    assert_equals_sql(lake, table)
