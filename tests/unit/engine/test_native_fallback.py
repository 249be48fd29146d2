from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from icepack.domain.actions import Compact
from icepack.engine.native.fallback import group_fallback_reason, table_fallback_reason
from icepack.engine.native.java_rewrite import LiveDelete, LiveFile
from icepack.engine.native.table_facts import TableFacts


def live_file(path: str = "f", size: int = 100, records: int = 10, **more: Any) -> LiveFile:
    facts = {"format": "PARQUET", "spec_id": 0, "sequence_number": 1, **more}
    return LiveFile(path=path, bytes=size, records=records, **facts)


SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": False},
        {"id": 2, "name": "d", "type": "double", "required": False},
        {"id": 3, "name": "s", "type": {"type": "struct", "fields": []}, "required": False},
    ],
}
FACTS = TableFacts(
    schema=SCHEMA,
    spec_id=0,
    format_version=2,
    properties={},
    location="s3://bucket/table",
    file_io="org.apache.iceberg.aws.s3.S3FileIO",
    file_io_properties={},
)


def with_field(**field: Any) -> TableFacts:
    added = {"id": 9, "name": "x", "required": False, **field}
    return replace(FACTS, schema={**SCHEMA, "fields": [*SCHEMA["fields"], added]})


def struct_with(**field: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"id": 10, "name": "y", "required": False, **field}]}


def list_of(kind: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": 11, "element": kind, "element-required": False}


def with_parquet_settings(**properties: str) -> TableFacts:
    settings = {f"write.parquet.{name.replace('_', '-')}": value for name, value in properties.items()}
    return replace(FACTS, properties=settings)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FACTS, properties={"write.format.default": "ORC"}), "new files in ORC"),
        (replace(FACTS, properties={"write.parquet.compression-codec": "brotli"}), "compression with brotli"),
        (replace(FACTS, properties={"encryption.key-id": "k"}), "encryption"),
        (replace(FACTS, properties={"write.parquet.bloom-filter-max-bytes": "1"}), "property write.parquet.bloom"),
        (replace(FACTS, properties={"write.parquet.page-row-limit": "many"}), "is not a number"),
        (replace(FACTS, properties={"write.parquet.compression-level": "-5"}), "is not a number"),
        (with_field(type="variant"), "column x of an unsupported type"),
        (with_field(type="unknown"), "column x of an unsupported type"),
        (with_parquet_settings(page_row_limit="0"), "write.parquet.page-row-limit with the value 0"),
        (with_parquet_settings(page_row_limit="-1"), "is not a number"),
        (with_parquet_settings(page_row_limit="²"), "is not a number"),
        (with_parquet_settings(page_size_bytes="0"), "write.parquet.page-size-bytes with the value 0"),
        (with_parquet_settings(row_group_size_bytes="0"), "write.parquet.row-group-size-bytes with the value 0"),
        (with_parquet_settings(row_group_size_bytes=str(2**31)), "write.parquet.row-group-size-bytes with the value"),
        (with_parquet_settings(dict_size_bytes="0"), "write.parquet.dict-size-bytes with the value 0"),
        (
            with_parquet_settings(compression_codec="gzip", compression_level="12"),
            "compression-level with the value 12",
        ),
        (with_parquet_settings(compression_codec="gzip", compression_level="0"), "compression-level with the value 0"),
        (
            with_parquet_settings(compression_codec="zstd", compression_level="23"),
            "compression-level with the value 23",
        ),
        (with_parquet_settings(compression_level="12"), "compression-level with the value 12"),
        (with_field(type=struct_with(type=list_of("int"), **{"initial-default": []})), "default of the nested"),
        (with_field(type=list_of(struct_with(type=struct_with(type="int"), **{"initial-default": {}}))), "x.element.y"),
        (replace(FACTS, location="hdfs://name/t"), "hdfs storage"),
        (replace(FACTS, file_io="org.apache.iceberg.hadoop.HadoopFileIO"), "S3 through HadoopFileIO"),
        (replace(FACTS, file_io_properties={"s3.sse.type": "kms"}), "storage setting s3.sse.type"),
        (replace(FACTS, file_io_properties={"s3.remote-signing-enabled": "true"}), "storage setting s3.remote"),
    ],
)
def test_unsupported_tables_fall_back_to_spark(facts: TableFacts, reason: str) -> None:
    found = table_fallback_reason(facts, Compact())
    assert found is not None
    assert reason in found


@pytest.mark.parametrize(
    "facts",
    [
        FACTS,
        with_parquet_settings(compression_codec="GZIP", page_size_bytes="4096"),
        with_parquet_settings(compression_codec="gzip", compression_level="9", page_row_limit="1"),
        with_parquet_settings(compression_codec="zstd", compression_level="22"),
        with_parquet_settings(compression_codec="snappy", compression_level="99"),
        with_field(type=struct_with(type="int", **{"initial-default": 1})),
        with_field(type=list_of(struct_with(type="int", **{"initial-default": 1}))),
        replace(FACTS, file_io_properties={"s3.sse.type": "none", "s3.remote-signing-enabled": "false"}),
        replace(FACTS, location="/tmp/t", file_io="org.apache.iceberg.hadoop.HadoopFileIO"),
        with_field(type="timestamptz_ns"),
    ],
)
def test_supported_tables_do_not_fall_back(facts: TableFacts) -> None:
    assert table_fallback_reason(facts, Compact(options={"min-input-files": "3"})) is None


def test_an_option_that_only_spark_supports() -> None:
    assert (
        table_fallback_reason(FACTS, Compact(options={"max-file-group-size-bytes": "1"}))
        == "option max-file-group-size-bytes"
    )


def live_delete(kind: str = "position", **more: Any) -> LiveDelete:
    facts = {"path": "d", "format": "PARQUET", "bytes": 100, "records": 10, "sequence_number": 2, **more}
    return LiveDelete(kind=kind, **facts)


@pytest.mark.parametrize(
    ("file", "deletes", "reason"),
    [
        (live_file(format="AVRO"), [], "AVRO files"),
        (live_file(spec_id=1), [], "older partition spec"),
        (live_file(encrypted=True), [], "encryption"),
        (live_file(constants={3: "x", 12: "y"}), [], "identity partition on a nested column"),
        (live_file(), [live_delete("something new")], "deletes of the kind something new"),
        (live_file(), [live_delete(encrypted=True)], "encryption"),
        (live_file(), [live_delete(format="ORC")], "deletes in ORC files"),
        (live_file(), [live_delete("equality", equality_ids=(2,))], "column of type double"),
        (live_file(), [live_delete("equality", equality_ids=(3,))], "equality deletes on a column of type"),
        (live_file(), [live_delete("equality", equality_ids=(77,))], "nested or dropped column"),
        (live_file(), [live_delete(records=10**9)], "do not fit"),
        (live_file(), [live_delete("vector", records=10**9, format="PUFFIN")], "do not fit"),
    ],
)
def test_unsupported_groups_fall_back_to_spark(file: LiveFile, deletes: list[LiveDelete], reason: str) -> None:
    found = group_fallback_reason(FACTS, [live_file(), file], deletes, 2**27)
    assert found is not None
    assert reason in found


def test_supported_groups_do_not_fall_back() -> None:
    deletes = [live_delete(), live_delete("vector", format="PUFFIN"), live_delete("equality", equality_ids=(1,))]
    assert group_fallback_reason(FACTS, [live_file()], deletes, 2**27) is None
    assert group_fallback_reason(FACTS, [live_file(constants={1: 7})], deletes, 2**27) is None
