"""Creates tables from files that were not written by Spark, for tests of value checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.domain.table import TableId

from .lake import Lake


def import_hive_folder(lake: Lake, tmp_path: Path) -> TableId:
    """Imports Hive-style partition folders, whose files do not have the partition column."""
    folder = tmp_path / f"import-{uuid4()}"
    for value in ("x", "y"):
        for number in range(2):
            path = folder / f"p={value}" / f"{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": pa.array(range(number * 5, number * 5 + 5), pa.int64())}), path)
    table = lake.create("id BIGINT, p STRING", partitioned_by="p")
    lake.sql(f"CALL lake.system.add_files('{table.short}', '`parquet`.`file://{folder}`')")
    return table


def create_table_with_nested_default(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, l ARRAY<STRUCT<a: INT>>", version=3)
    for start in (0, 10):
        lake.append(table, f"SELECT id, array(named_struct('a', CAST(id AS INT))) FROM range({start}, {start + 5})")
    types, literals = lake.iceberg.types.Types, lake.iceberg.expressions.Expressions
    update = lake.java_table(table).updateSchema()
    update.addColumn("l", "b", types.IntegerType.get(), "", literals.lit(5)).commit()
    lake.sql(f"REFRESH TABLE {table}")
    return table


def create_table_with_fixed_size_lists(lake: Lake) -> TableId:
    """The table has no column for the lists of the files; miscounted columns get the values of their neighbours."""
    nested = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.int32())])
    schema = pa.schema([("l", pa.list_(nested, 2)), ("a", pa.int32()), ("b", pa.int32()), ("c", pa.int32())])
    table = lake.create("b INT, c INT")
    for _ in range(2):
        rows = [{"l": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "a": 1, "b": 10, "c": 7}] * 5
        append_file(lake, table, pa.Table.from_pylist(rows, schema=schema))
    return table


def create_table_with_column(lake: Lake, kind: str) -> TableId:
    arrow = {"time": pa.time64("us"), "timestamp_ns": pa.timestamp("ns"), "timestamptz_ns": pa.timestamp("ns", "UTC")}
    types = lake.iceberg.types.Types
    java = {
        "time": types.TimeType.get(),
        "timestamp_ns": types.TimestampNanoType.withoutZone(),
        "timestamptz_ns": types.TimestampNanoType.withZone(),
    }
    table = lake.create("id BIGINT", version=3)
    lake.java_table(table).updateSchema().addColumn("t", java[kind]).commit()
    for start in (0, 10):
        body = {
            "id": pa.array(range(start, start + 5), pa.int64()),
            "t": pa.array(range(start, start + 5), arrow[kind]),
        }
        append_file(lake, table, pa.table(body))
    return table


def append_file(lake: Lake, table: TableId, rows: pa.Table, partition: str = "", **options: Any) -> None:
    """Appends a file without field ids, which is read with the table's name mapping."""
    java = lake.java_table(table)
    mapping = lake.iceberg.mapping.MappingUtil.create(java.schema())
    mapping_json = lake.iceberg.mapping.NameMappingParser.toJson(mapping)
    java.updateProperties().set("schema.name-mapping.default", mapping_json).commit()
    path = lake.table_folder(table) / "data" / partition / f"{uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **options)
    file = java.io().newInputFile(f"file:{path}")
    metrics = lake.iceberg.parquet.ParquetUtil.fileMetrics(file, lake.iceberg.MetricsConfig.forTable(java), mapping)
    builder = lake.iceberg.DataFiles.builder(java.spec()).withInputFile(file).withMetrics(metrics).withFormat("parquet")
    if partition:
        builder.withPartitionPath(partition)
    java.newAppend().appendFile(builder.build()).commit()


def append_with_checksums(lake: Lake, table: TableId, rows: pa.Table, part: int) -> None:
    rows = rows.append_column("p", pa.array([part] * len(rows), pa.int32()))
    append_file(lake, table, rows, f"p={part}", write_page_checksum=True, use_dictionary=False, compression="none")


def flip_byte(path: Path) -> None:
    """Changes one byte in the middle of the values of a column."""
    raw = bytearray(path.read_bytes())
    position = raw.index(b"v1000")
    raw[position + 1] ^= 0xFF
    path.write_bytes(raw)
