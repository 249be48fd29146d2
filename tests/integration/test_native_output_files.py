"""The files that the native rewrite writes: encoding, sizes, metrics, names and commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import Compact
from icepack.domain.run import RunState
from icepack.kernel.parquet.metadata import get_column_chunks, get_row_groups, read_file_metadata
from icepack.kernel.parquet.page_index import count_pages, read_page_index

from .lake import Lake, read_rows
from .native_runs import REWRITE_ALL, list_data_files, read_field_ids, rewrite_natively


class TestOutputFiles:
    @pytest.mark.parametrize(
        ("codec", "level", "expected"),
        [
            ("gzip", "9", "GZIP"),
            ("snappy", "5", "SNAPPY"),
            ("uncompressed", "1", "UNCOMPRESSED"),
            ("zstd", "12", "ZSTD"),
        ],
    )
    def test_codec_and_level_are_those_of_the_table(self, lake: Lake, codec: str, level: str, expected: str) -> None:
        table = lake.create()
        lake.append_numbers(table, files=2)
        properties = f"'write.parquet.compression-codec' = '{codec}', 'write.parquet.compression-level' = '{level}'"
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({properties})")
        rewrite_natively(lake, table)
        (path,) = list_data_files(lake, table)
        group = pq.ParquetFile(path).metadata.row_group(0)
        assert {group.column(index).compression for index in range(2)} == {expected}

    def test_sizes_of_row_groups_and_pages_are_those_of_the_table(self, lake: Lake) -> None:
        table = lake.create(
            properties={
                "write.parquet.row-group-size-bytes": "16384",
                "write.parquet.page-row-limit": "100",
                "write.parquet.compression-codec": "uncompressed",
            }
        )
        for first in (0, 1000):
            lake.append(table, f"SELECT id, md5(CAST(id AS STRING)) FROM range({first}, {first + 1000})")
        rewrite_natively(lake, table)
        (path,) = list_data_files(lake, table)
        metadata = pq.ParquetFile(path).metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        assert len(groups) >= 4
        assert max(group.total_byte_size for group in groups) < 2 * 16384
        assert max(count_chunk_pages(path)) <= 100 // 8 + 3
        assert min(count_chunk_pages(path)) >= min(group.num_rows for group in groups) // 100
        (file,) = lake.metadata(table, "files")
        offsets = [group.column(0).dictionary_page_offset or group.column(0).data_page_offset for group in groups]
        assert file["split_offsets"] == offsets

    def test_columns_have_field_ids_and_the_footer_has_the_schema(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, s STRUCT<x: INT, l: ARRAY<STRUCT<y: INT>>>, m MAP<STRING, INT>")
        for _ in range(2):
            lake.append(table, "SELECT 1, named_struct('x', 1, 'l', array(named_struct('y', 2))), map('k', 3)")
        (written, _) = list_data_files(lake, table)
        rewrite_natively(lake, table)
        (path,) = list_data_files(lake, table)
        assert read_field_ids(path) == read_field_ids(written)
        assert b"iceberg.schema" in pq.ParquetFile(path).metadata.metadata
        assert describe_columns(path) == describe_columns(written)

    def test_merged_pages_of_files_by_spark_are_found_by_their_indexes(self, lake: Lake) -> None:
        """Spark's Parquet reader skips pages by their indexes, and has to find the same rows."""
        table = lake.create("id BIGINT, at TIMESTAMP, price DOUBLE, amount DECIMAL(12,2), word STRING, l ARRAY<BIGINT>")
        # Spark writes expressions that cannot be null as required columns, even if the table column is optional.
        values = ", ".join(
            f"IF(id < 0, NULL, {value})"
            for value in (
                "id",
                "timestamp_micros(id * 1000003)",
                "nullif(id, 7) * 1.1",
                "id * 7919 % 999983",
                "'word ' || id % 9",
                "array(id * 31, nullif(id * 37, -1))",
            )
        )
        for first in (0, 45_000, 75_000):
            lake.append(table, f"SELECT {values} FROM range({first}, {first + 30_000 + first % 2000})")
        before = read_rows(lake.sql(f"SELECT id, at, price, amount, word, l FROM {table} WHERE id % 997 < 3"))
        bounds = lake.metadata(table, "files")
        record = lake.run(table, REWRITE_ALL)
        assert record.state is RunState.SUCCEEDED, record.message
        assert all(proof.holds for proof in record.proofs)
        (path,) = list_data_files(lake, table)
        assert (record.details or {})["copied_bytes"] > path.stat().st_size / 2
        plain = lake.spark.read.parquet(str(path))
        assert read_rows(plain.where("id % 997 < 3")) == before
        for where in (
            "id BETWEEN 50010 AND 50020",
            "amount = 7919",
            "price > 115000",
            "at < timestamp_micros(9000000)",
        ):
            # No index covers this sum, so that all pages are read.
            expected = read_rows(plain.where(f"id + hash(word) * 0 IS NOT NULL AND ({where} OR rand() < -1)"))
            assert expected
            assert read_rows(plain.where(where)) == expected, where
        (file,) = lake.metadata(table, "files")
        for kind, pick in (("lower_bounds", min), ("upper_bounds", max)):
            ends = [int.from_bytes(item[kind][1], "little") for item in bounds]
            assert int.from_bytes(file[kind][1], "little") == pick(ends)

    def test_metrics_follow_the_table_properties(self, lake: Lake) -> None:
        columns = ["none", "counts", "short", "all"]
        modes = {"none": "none", "counts": "counts", "short": "truncate(2)", "all": "full"}
        table = lake.create(
            ", ".join(f"{name} STRING" for name in columns),
            properties={f"write.metadata.metrics.column.{name}": mode for name, mode in modes.items()},
        )
        for letter in "ab":
            lake.append(table, "SELECT " + ", ".join([f"repeat('{letter}', 30)"] * 4))
        rewrite_natively(lake, table)
        (file,) = lake.metadata(table, "files")
        assert file["value_counts"] == {2: 2, 3: 2, 4: 2}
        assert {number: bytes(raw) for number, raw in file["lower_bounds"].items()} == {3: b"aa", 4: b"a" * 30}
        assert {number: bytes(raw) for number, raw in file["upper_bounds"].items()} == {3: b"bc", 4: b"b" * 30}

    def test_partition_spec_and_sort_order_are_set(self, lake: Lake) -> None:
        table = lake.create("id BIGINT, v STRING, d DATE")
        lake.append(table, "VALUES (0, 'old', DATE'2020-01-01')")
        lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD v")
        lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD months(d)")
        lake.sql(f"ALTER TABLE {table} WRITE ORDERED BY id")
        for id in (1, 2):
            lake.append(table, f"SELECT {id}, x, DATE'2024-02-01' FROM VALUES ('a/b'), (NULL), ('') AS t(x)")
        spec = lake.java_table(table).spec().specId()
        rewrite_natively(lake, table, Compact(min_input_files=2))
        added = [row for row in lake.metadata(table, "files") if row["spec_id"] == spec]
        assert sorted(str(row["partition"]["v"]) for row in added) == ["", "None", "a/b"]
        assert {row["partition"]["d_month"] for row in added} == {649}
        assert {row["sort_order_id"] for row in added} == {0}, "the rows were combined, not sorted"
        assert {row["record_count"] for row in added} == {2}
        a_b = next(row["file_path"] for row in added if row["partition"]["v"] == "a/b")
        assert "/v=a%2Fb/d_month=2024-02/icepack-" in a_b

    def test_file_names_have_the_job_id_and_the_attempt(self, lake: Lake) -> None:
        table = lake.create()
        lake.append_numbers(table, files=2)
        record = rewrite_natively(lake, table)
        (path,) = list_data_files(lake, table)
        assert path.name == f"icepack-{record.job_id}-1-1-00000-00000-0.parquet"

    def test_partial_progress_commits_in_batches(self, lake: Lake) -> None:
        table = lake.create(partitioned_by="id")
        for _ in range(2):
            lake.append(table, "SELECT id, 'v' FROM range(5)")
        options = {"partial-progress.max-commits": "3"}
        record = rewrite_natively(lake, table, Compact(rewrite_all=True, partial_progress=True, options=options))
        parts = [summary.get("icepack.part", "all") for summary in lake.summaries(record)]
        assert parts == ["2 of 5 groups", "4 of 5 groups", "all"]
        assert [proof.method for proof in record.proofs] == ["records"] * 3
        assert {summary["icepack.job-id"] for summary in lake.summaries(record)} == {str(record.job_id)}


def count_chunk_pages(path: Path) -> list[int]:
    """Counts the pages of each column chunk."""
    data = path.read_bytes()
    row_groups = get_row_groups(read_file_metadata(pa.py_buffer(data)))
    chunks = [chunk for row_group in row_groups for chunk in get_column_chunks(row_group)]
    return [count_pages(read_page_index(data, chunk).offset_index) for chunk in chunks]


def describe_columns(path: Path) -> list[tuple[Any, ...]]:
    """Returns path, types and maximum repetition level of each column."""
    schema = pq.ParquetFile(path).schema
    leaves = [schema.column(index) for index in range(len(schema))]
    return [(leaf.path, leaf.physical_type, str(leaf.logical_type), leaf.max_repetition_level) for leaf in leaves]
