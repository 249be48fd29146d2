"""Tables and groups for which the native rewrite falls back to Spark, with the reason."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.engine.native import executors

from .lake import Lake
from .native_runs import REWRITE_ALL, add_files, group_details, list_data_files


def with_orc_files(lake: Lake) -> TableId:
    table = lake.create(properties={"write.format.default": "orc"})
    lake.append_numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    return table


def with_avro_as_default(lake: Lake) -> TableId:
    table = lake.create()
    lake.append_numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = 'avro')")
    return table


def with_bloom_filters(lake: Lake) -> TableId:
    table = lake.create(properties={"write.parquet.bloom-filter-enabled.column.id": "true"})
    lake.append_numbers(table, files=2)
    return table


def with_old_spec(lake: Lake) -> TableId:
    table = lake.create()
    lake.append_numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    return table


def with_variant(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v VARIANT", version=3)
    for number in range(2):
        lake.append(table, f"SELECT {number}, parse_json('[1]')")
    return table


def with_deletes_in_avro(lake: Lake) -> TableId:
    table = lake.create(properties={"write.delete.format.default": "avro"})
    lake.append_numbers(table, files=2)
    lake.sql(f"DELETE FROM {table} WHERE id = 1")
    return table


def with_equality_delete_on_double(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, d DOUBLE")
    for _ in range(2):
        lake.append(table, "VALUES (1, 0.5D), (2, 1.5D)")
    commit_delete_of_double(lake, table, 1.5)
    return table


def without_ids_and_name_mapping(lake: Lake) -> TableId:
    """The fallback is decided only when the file is opened."""
    table = lake.create()
    lake.append_numbers(table, files=1, rows=2)
    add_files(lake, table, pa.table({"id": pa.array([7], pa.int64()), "v": ["x"]}))
    lake.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('schema.name-mapping.default')")
    return table


def with_name_mapping_of_dropped_fields(lake: Lake) -> TableId:
    """The name mapping is derived from the current schema, as tools that import files do."""
    table = lake.create("id BIGINT, s struct<k: INT, d: struct<a: INT>>")
    nested = pa.struct([("k", pa.int32()), ("d", pa.struct([("a", pa.int32())]))])
    rows = pa.table({"id": [1, 2, 3], "s": pa.array([{"k": 1, "d": {"a": 1}}, {"k": 1, "d": None}, None], nested)})
    add_files(lake, table, rows)
    lake.sql(f"ALTER TABLE {table} ADD COLUMN s.d.b INT")
    lake.sql(f"ALTER TABLE {table} DROP COLUMN s.d.a")
    java = lake.java_table(table)
    mapping = lake.iceberg.mapping.NameMappingParser.toJson(lake.iceberg.mapping.MappingUtil.create(java.schema()))
    java.updateProperties().set("schema.name-mapping.default", mapping).commit()
    return table


UNSUPPORTED: list[tuple[Callable[[Lake], TableId], str, str]] = [
    (with_orc_files, "ORC files", ""),
    (with_avro_as_default, "new files in avro", ""),
    (with_bloom_filters, "property write.parquet.bloom-filter-enabled.column.id", ""),
    (with_old_spec, "files of an older partition spec", ""),
    (with_variant, "column v of an unsupported type", ""),
    (with_deletes_in_avro, "deletes in AVRO files", ""),
    (with_equality_delete_on_double, "equality deletes on a column of type double", ""),
    (without_ids_and_name_mapping, "without field ids", ""),
    (with_name_mapping_of_dropped_fields, "has lost every field", ""),
    (with_old_spec, "option max-file-size-bytes", "max-file-size-bytes"),
]


class TestFallback:
    @pytest.mark.parametrize(
        ("build", "reason", "option"),
        UNSUPPORTED,
        ids=[f"{build.__name__}-{index}" for index, (build, *_) in enumerate(UNSUPPORTED)],
    )
    def test_the_record_has_the_reason(
        self, lake: Lake, build: Callable[[Lake], TableId], reason: str, option: str
    ) -> None:
        table = build(lake)
        before = lake.main_rows(table)
        record = lake.run(table, Compact(rewrite_all=True, options={option: "1000000000"} if option else {}))
        assert record.state is RunState.SUCCEEDED, record.message
        assert {group["engine"] for group in group_details(record)} == {"spark"}
        assert all(reason in group["why"] for group in group_details(record)), group_details(record)
        assert (record.details or {})["spark_groups"] == len(group_details(record))
        assert lake.main_rows(table) == before
        assert len(list_data_files(lake, table)) <= 2

    def test_spark_can_be_requested(self, lake: Lake) -> None:
        table = lake.create()
        lake.append_numbers(table, files=2)
        record = lake.run(table, Compact(rewrite_all=True, engine=RewriteEngine.SPARK))
        (summary,) = lake.summaries(record)
        assert "icepack.engine" not in summary
        assert "groups" not in (record.details or {})

    def test_deletes_that_do_not_fit_into_memory(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        table = lake.create()
        lake.append_numbers(table, files=2)
        lake.sql(f"DELETE FROM {table} WHERE id IN (1, 2, 15)")
        before = lake.main_rows(table)
        monkeypatch.setattr(executors, "MAX_TASK_BYTES", 100)
        record = lake.run(table, REWRITE_ALL)
        assert group_details(record)[0]["why"] == "deletes that do not fit into a task's memory"
        assert lake.main_rows(table) == before

    def test_only_the_unsupported_partition_falls_back(self, lake: Lake) -> None:
        table = lake.create(partitioned_by="v", properties={"write.format.default": "orc"})
        for id in range(2):
            lake.append(table, f"VALUES ({id}, 'orc')")
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = 'parquet')")
        for id in range(2):
            lake.append(table, f"VALUES ({id}, 'parquet')")
        before = lake.main_rows(table)
        record = lake.run(table, Compact(min_input_files=2))
        assert record.state is RunState.SUCCEEDED, record.message
        found = {group["partition"]: group["engine"] for group in group_details(record)}
        assert found == {"v=orc": "spark", "v=parquet": "native"}
        assert len(record.commits) == 2
        assert lake.main_rows(table) == before
        assert {row["file_format"] for row in lake.metadata(table, "files")} == {"PARQUET"}
        assert len(list_data_files(lake, table)) == 2


def commit_delete_of_double(lake: Lake, table: TableId, value: float) -> None:
    java = lake.java_table(table)
    field = java.schema().findField("d")
    schema = pa.schema([pa.field("d", pa.float64(), metadata={"PARQUET:field_id": str(field.fieldId())})])
    path = lake.table_folder(table) / "data" / "eq-double.parquet"
    pq.write_table(pa.table({"d": [value]}, schema), path)
    context = lake.spark.sparkContext
    ids = context._gateway.new_array(context._jvm.int, 1)
    ids[0] = field.fieldId()
    builder = lake.iceberg.FileMetadata.deleteFileBuilder(java.spec()).ofEqualityDeletes(ids).withFormat("parquet")
    builder.withPath(path.as_uri()).withFileSizeInBytes(path.stat().st_size).withRecordCount(1)
    java.newRowDelta().addDeletes(builder.build()).commit()
