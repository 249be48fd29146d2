"""How a group becomes tasks, and which tables and groups are left to Spark."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.actions import Compact
from icepack.domain.plan.files import PartitionKey
from icepack.engine.native.compaction import check_rows, in_order
from icepack.engine.native.coverage import TableFacts, group_obstacle, table_obstacle
from icepack.engine.native.jvm import LiveDelete, LiveFile
from icepack.engine.native.ordering import SORT_LEAST_BYTES, SORT_LIMIT_BYTES, Ordering
from icepack.engine.native.tasks import STRETCH, Group, outputs_for, split
from icepack.errors import RowsChanged
from icepack.kernel.executor import Answer
from icepack.kernel.sorting.sort_order import Order, SortKey
from icepack.kernel.task import OutputFile, Written


def live(path: str = "f", size: int = 100, records: int = 10, **more: Any) -> LiveFile:
    facts = {"format": "PARQUET", "spec_id": 0, "sequence_number": 1, **more}
    return LiveFile(path=path, bytes=size, records=records, **facts)


files = st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 5000)), min_size=1, max_size=40).map(
    lambda pairs: [live(f"f{at}", size, records) for at, (size, records) in enumerate(pairs)]
)


@given(st.integers(1, 10**12), st.integers(1, 10**9))
def test_outputs_are_near_the_target_and_none_is_a_leftover(total: int, target: int) -> None:
    count = outputs_for(total, target)
    assert count >= 1
    assert total / count <= target * STRETCH or count == 1
    if count > 1:
        assert total / count > target * 0.5, "never half empty"
        assert total / (count - 1) > target, "one fewer would be too large"


@given(files, st.integers(1, 12))
def test_every_row_goes_into_one_run_and_keeps_its_place(found: list[LiveFile], parts: int) -> None:
    runs = split(found, parts)
    assert 1 <= len(runs) <= parts
    assert all(runs)
    pieces = [(item.path, item.start, item.records if item.stop is None else item.stop) for run in runs for item in run]
    assert [path for path, *_ in pieces] == sorted((path for path, *_ in pieces), key=lambda path: int(path[1:]))
    for file in found:
        mine = [(start, stop) for path, start, stop in pieces if path == file.path]
        assert (mine[0][0], mine[-1][1]) == (0, file.records)
        assert all(before[1] == after[0] for before, after in pairwise(mine))
    assert sum(item.rows for run in runs for item in run) == sum(file.records for file in found)


@given(st.integers(2, 60), st.integers(2, 8))
def test_even_files_make_even_runs(count: int, parts: int) -> None:
    runs = split([live(f"f{at}", 1000, 100) for at in range(count)], parts)
    sizes = [sum(item.rows for item in run) for run in runs]
    assert max(sizes) - min(sizes) <= 2 * 100


def test_files_are_taken_in_the_order_in_which_they_were_written() -> None:
    given = [live("b", sequence_number=2), live("c", sequence_number=1), live("a", sequence_number=2)]
    assert [file.path for file in in_order(given)] == ["c", "a", "b"]
    ids = [live("a", first_row_id=50), live("b", first_row_id=0)]
    assert [file.path for file in in_order(ids)] == ["b", "a"]


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


def writing(**properties: str) -> TableFacts:
    named = {f"write.parquet.{name.replace('_', '-')}": value for name, value in properties.items()}
    return replace(FACTS, properties=named)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (replace(FACTS, properties={"write.format.default": "ORC"}), "new files in ORC"),
        (replace(FACTS, properties={"write.parquet.compression-codec": "brotli"}), "compression with brotli"),
        (replace(FACTS, properties={"encryption.key-id": "k"}), "encryption"),
        (replace(FACTS, properties={"write.parquet.bloom-filter-max-bytes": "1"}), "property write.parquet.bloom"),
        (replace(FACTS, properties={"write.parquet.page-row-limit": "many"}), "is not a number"),
        (replace(FACTS, properties={"write.parquet.compression-level": "-5"}), "is not a number"),
        (with_field(type="variant"), "column x of a type"),
        (with_field(type="unknown"), "column x of a type"),
        (writing(page_row_limit="0"), "write.parquet.page-row-limit with the value 0"),
        (writing(page_row_limit="-1"), "is not a number"),
        (writing(page_row_limit="²"), "is not a number"),
        (writing(page_size_bytes="0"), "write.parquet.page-size-bytes with the value 0"),
        (writing(row_group_size_bytes="0"), "write.parquet.row-group-size-bytes with the value 0"),
        (writing(row_group_size_bytes=str(2**31)), "write.parquet.row-group-size-bytes with the value"),
        (writing(dict_size_bytes="0"), "write.parquet.dict-size-bytes with the value 0"),
        (writing(compression_codec="gzip", compression_level="12"), "compression-level with the value 12"),
        (writing(compression_codec="gzip", compression_level="0"), "compression-level with the value 0"),
        (writing(compression_codec="zstd", compression_level="23"), "compression-level with the value 23"),
        (writing(compression_level="12"), "compression-level with the value 12"),
        (with_field(type=struct_with(type=list_of("int"), **{"initial-default": []})), "default of the nested"),
        (with_field(type=list_of(struct_with(type=struct_with(type="int"), **{"initial-default": {}}))), "x.element.y"),
        (replace(FACTS, location="hdfs://name/t"), "hdfs storage"),
        (replace(FACTS, file_io="org.apache.iceberg.hadoop.HadoopFileIO"), "S3 through HadoopFileIO"),
        (replace(FACTS, file_io_properties={"s3.sse.type": "kms"}), "storage setting s3.sse.type"),
        (replace(FACTS, file_io_properties={"s3.remote-signing-enabled": "true"}), "storage setting s3.remote"),
    ],
)
def test_tables_that_are_left_to_spark(facts: TableFacts, why: str) -> None:
    found = table_obstacle(facts, Compact())
    assert found is not None
    assert why in found


@pytest.mark.parametrize(
    "facts",
    [
        FACTS,
        writing(compression_codec="GZIP", page_size_bytes="4096"),
        writing(compression_codec="gzip", compression_level="9", page_row_limit="1"),
        writing(compression_codec="zstd", compression_level="22"),
        writing(compression_codec="snappy", compression_level="99"),
        with_field(type=struct_with(type="int", **{"initial-default": 1})),
        with_field(type=list_of(struct_with(type="int", **{"initial-default": 1}))),
        replace(FACTS, file_io_properties={"s3.sse.type": "none", "s3.remote-signing-enabled": "false"}),
        replace(FACTS, location="/tmp/t", file_io="org.apache.iceberg.hadoop.HadoopFileIO"),
        with_field(type="timestamptz_ns"),
    ],
)
def test_tables_that_are_not(facts: TableFacts) -> None:
    assert table_obstacle(facts, Compact(options={"min-input-files": "3"})) is None


def test_an_option_that_only_spark_knows() -> None:
    assert (
        table_obstacle(FACTS, Compact(options={"max-file-group-size-bytes": "1"})) == "option max-file-group-size-bytes"
    )


def delete(kind: str = "position", **more: Any) -> LiveDelete:
    facts = {"path": "d", "format": "PARQUET", "bytes": 100, "records": 10, "sequence_number": 2, **more}
    return LiveDelete(kind=kind, **facts)


@pytest.mark.parametrize(
    ("file", "deletes", "why"),
    [
        (live(format="AVRO"), [], "AVRO files"),
        (live(spec_id=1), [], "older partition spec"),
        (live(encrypted=True), [], "encryption"),
        (live(constants={3: "x", 12: "y"}), [], "identity of a nested column"),
        (live(), [delete("something new")], "deletes of the kind something new"),
        (live(), [delete(encrypted=True)], "encryption"),
        (live(), [delete(format="ORC")], "deletes in ORC files"),
        (live(), [delete("equality", equality_ids=(2,))], "column of type double"),
        (live(), [delete("equality", equality_ids=(3,))], "equality deletes on a column of type"),
        (live(), [delete("equality", equality_ids=(77,))], "nested or gone"),
        (live(), [delete(records=10**9)], "do not fit"),
        (live(), [delete("vector", records=10**9, format="PUFFIN")], "do not fit"),
    ],
)
def test_groups_that_are_left_to_spark(file: LiveFile, deletes: list[LiveDelete], why: str) -> None:
    found = group_obstacle(FACTS, [live(), file], deletes, 2**27)
    assert found is not None
    assert why in found


def test_groups_that_are_not() -> None:
    deletes = [delete(), delete("vector", format="PUFFIN"), delete("equality", equality_ids=(1,))]
    assert group_obstacle(FACTS, [live()], deletes, 2**27) is None
    assert group_obstacle(FACTS, [live(constants={1: 7})], deletes, 2**27) is None


def test_inputs_carry_the_constants_of_their_partition() -> None:
    ((whole,),) = split([live(constants={1: None, 2: 0.5})], 1)
    assert whole.constants == {1: None, 2: 0.5}


@pytest.mark.parametrize(
    ("modes", "longest"),
    [
        ({}, 16),
        ({"default": "counts"}, 16),
        ({"default": "truncate(3)", "column.a": "truncate(64)"}, 64),
        ({"column.a": "Full"}, None),
    ],
)
def test_no_more_of_a_value_travels_than_any_column_keeps(modes: dict[str, str], longest: int | None) -> None:
    properties = {f"write.metadata.metrics.{name}": mode for name, mode in modes.items()}
    assert replace(FACTS, properties=properties).writing.longest_bound == longest


def answer(rows_in: int, rows_out: int, dropped: int) -> Answer:
    made = (OutputFile(path="o", bytes=1, rows=rows_out, nan_counts={}),)
    return Answer(0, 0, written=Written(files=made, rows_in=rows_in, rows_dropped=dropped, requests=0))


@pytest.mark.parametrize("counts", [[(10, 10, 0), (10, 9, 0)], [(10, 10, 0)], [(10, 10, 0), (10, 10, 1)]])
def test_rows_that_do_not_add_up_raise(counts: list[tuple[int, int, int]]) -> None:
    group = Group(number=0, partition=PartitionKey(0, ""), files=(live("a"), live("b")), deletes={})
    with pytest.raises(RowsChanged, match="Nothing was committed"):
        check_rows(group, [answer(*count) for count in counts])
    check_rows(group, [answer(10, 8, 2), answer(10, 10, 0)])


@pytest.mark.parametrize(
    ("task_bytes", "group_bytes", "reason"),
    [
        (SORT_LEAST_BYTES, SORT_LIMIT_BYTES, None),
        (SORT_LEAST_BYTES - 1, 1, "a sort in executors that leave a Python task little memory"),
        (SORT_LEAST_BYTES, SORT_LIMIT_BYTES + 1, "a sort too large for one task"),
    ],
)
def test_one_task_sorts_what_it_has_the_memory_and_the_disk_for(
    task_bytes: int, group_bytes: int, reason: str | None
) -> None:
    group = Group(number=0, partition=PartitionKey(0, ""), files=(live(size=group_bytes),), deletes={})
    key = SortKey(field_id=1, descending=False, nulls_first=True)
    assert Ordering(order=Order(kind="sort", keys=(key,))).too_large(group, task_bytes) == reason
    assert Ordering().too_large(group, task_bytes) is None, "rows that keep their order need no more than others"
