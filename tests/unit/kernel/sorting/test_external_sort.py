"""Sorting on disk: buckets are even, whatever the order of the inputs."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.arrow_schema import UnsupportedByKernel, to_arrow_schema, to_arrow_type
from icepack.kernel.sorting.sort_order import SortKey, SortKind, SortOrder
from icepack.kernel.task import WriteProperties
from kernel.harness import KernelHarness, column, schema_of

ROWS = 4_000
SCHEMA = schema_of(column(1, "id", "long"), column(2, "word", "string"))


@pytest.mark.parametrize("files", [1, 3])
def test_sorted_files_do_not_skew_the_buckets(harness: KernelHarness, files: int) -> None:
    """A sample of only their first row groups would put all later rows into the last bucket."""
    each = ROWS // files
    inputs = [
        harness.write(
            SCHEMA,
            {"id": list(range(number, each * files, files)), "word": [f"w{at}" for at in range(each)]},
            row_group_size=100,
        )
        for number in range(files)
    ]
    key = SortKey(field_id=1, descending=True, nulls_first=True)
    order = SortOrder(kind="sort", keys=(key,)).to_dict()
    stored = sum(file.bytes for file in inputs)
    written, table = harness.run(
        SCHEMA, inputs, sort_order=order, write_properties=WriteProperties(codec="zstd", row_group_bytes=stored // 20)
    )
    assert table is not None
    assert table["id"].to_pylist() == sorted(range(each * files), reverse=True)
    (output,) = written.files
    metadata = pq.ParquetFile(output.path.removeprefix("file://")).metadata
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert len(sizes) >= 15
    assert max(sizes) < 2 * ROWS / 15


WIDE = schema_of(
    column(1, "id", "long"),
    column(2, "word", "string"),
    column(3, "flag", "boolean"),
    column(4, "tags", {"type": "list", "element-id": 5, "element": "string", "element-required": False}),
    column(6, "place", {"type": "struct", "fields": [column(7, "x", "double"), column(8, "name", "string")]}),
)

OLDER = schema_of(*(field for field in WIDE["fields"] if field["name"] != "word"))


def _row(number: int, dice: random.Random) -> dict[str, Any]:
    return {
        "id": number,
        "word": dice.choice([None, *(f"word {at}" for at in range(40))]),
        "flag": dice.choice([None, True, False]),
        "tags": dice.choice([None, [], ["a", None], [f"tag {number}"]]),
        "place": dice.choice([None, {"x": None, "name": "here"}, {"x": number / 3, "name": None}]),
    }


@pytest.mark.parametrize("threads", [1, 2])
def test_more_rows_than_fit_into_memory_are_sorted(harness: KernelHarness, threads: int) -> None:
    """The string is a dictionary in some files and missing in others. Equal keys stay in order."""
    dice = random.Random(7)
    each = ROWS // 8
    rows: list[dict[str, Any]] = []
    inputs = []
    for number in range(8):
        schema = OLDER if (number + threads) % 3 == 1 else WIDE
        mine = [_row(len(rows) + at, dice) for at in range(each)]
        inputs.append(harness.write(schema, {name: [row[name] for row in mine] for name in mine[0]}, row_group_size=99))
        rows += [row | {"word": None} if schema is OLDER else row for row in mine]
    keys = (
        SortKey(field_id=2, descending=True, nulls_first=False),
        SortKey(field_id=3, descending=False, nulls_first=True),
    )
    stored = sum(file.bytes for file in inputs)
    written, table = harness.run(
        WIDE,
        inputs,
        sort_order=SortOrder(kind="sort", keys=keys).to_dict(),
        write_properties=WriteProperties(codec="zstd", row_group_bytes=stored // 10),
        threads=threads,
        memory_bytes=100_000,
    )
    assert table is not None
    by_flag = sorted(rows, key=lambda row: (row["flag"] is not None, row["flag"] or False))
    named = sorted((row for row in by_flag if row["word"] is not None), key=lambda row: row["word"], reverse=True)
    assert table.to_pylist() == [*named, *(row for row in by_flag if row["word"] is None)]
    assert written.rows_in == ROWS


@pytest.mark.parametrize("kind", ["sort", "zorder"])
@pytest.mark.parametrize("words", [["a"], ["b", "a", "b", "b", None, "b"], [None, None, "z"]])
def test_a_frequent_key_takes_several_row_groups(harness: KernelHarness, words: list[str | None], kind: str) -> None:
    """Each of them with the rows of some of the files, so that equal keys keep the order of the files."""
    each = ROWS // 8
    rows = [{"id": number, "word": words[number * 7919 % len(words)]} for number in range(ROWS)]
    inputs = [
        harness.write(
            SCHEMA, {name: [row[name] for row in rows[start : start + each]] for name in rows[0]}, row_group_size=99
        )
        for start in range(0, ROWS, each)
    ]
    key = SortKey(field_id=2, descending=False, nulls_first=True)
    stored = sum(file.bytes for file in inputs)
    written, table = harness.run(
        SCHEMA,
        inputs,
        sort_order=SortOrder(kind=cast("SortKind", kind), keys=(key,)).to_dict(),
        write_properties=WriteProperties(codec="zstd", row_group_bytes=stored // 20),
        memory_bytes=20_000,
    )
    assert table is not None
    assert table.to_pylist() == sorted(rows, key=lambda row: (row["word"] is not None, row["word"] or ""))
    (output,) = written.files
    metadata = pq.ParquetFile(output.path.removeprefix("file://")).metadata
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert len(sizes) >= 15
    assert max(sizes) < 2 * ROWS / 15


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamp_ns", 1_700_000_000_000_000_001),
        ("uuid", UUID(int=7).bytes),
        ("fixed[3]", b"abc"),
        ("decimal(20,2)", Decimal("1.25")),
        ("double", float("nan")),
        ("boolean", True),
    ],
)
def test_a_frequent_key_may_have_any_type(harness: KernelHarness, kind: str, value: Any) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "key", kind))
    each = ROWS // 4
    stored = to_arrow_type(kind)
    values = pa.array([value] * each, getattr(stored, "storage_type", stored))
    fields = to_arrow_schema(schema)
    inputs = [
        harness.add(
            pa.table([pa.array(range(start, start + each)), values.cast(stored)], schema=fields), row_group_size=99
        )
        for start in range(0, ROWS, each)
    ]
    key = SortKey(field_id=2, descending=False, nulls_first=True)
    write_properties = WriteProperties(codec="zstd", row_group_bytes=sum(file.bytes for file in inputs) // 20)
    order = SortOrder(kind="sort", keys=(key,)).to_dict()
    _, table = harness.run(schema, inputs, sort_order=order, write_properties=write_properties, memory_bytes=20_000)
    assert table is not None
    assert table["id"].to_pylist() == list(range(ROWS))
    assert table["key"].null_count == 0


def test_a_frequent_key_in_a_single_file_is_unsupported(harness: KernelHarness) -> None:
    """It has enough rows for several buckets, but they cannot be split by the order of the files."""
    inputs = [
        harness.write(
            SCHEMA,
            {"id": list(range(ROWS)), "word": ["w" if number == 3 else f"{number * ROWS + at}" for at in range(ROWS)]},
        )
        for number in range(10)
    ]
    key = SortKey(field_id=2, descending=False, nulls_first=True)
    stored = sum(file.bytes for file in inputs)
    with pytest.raises(UnsupportedByKernel, match="many rows of one file"):
        harness.run(
            SCHEMA,
            inputs,
            sort_order=SortOrder(kind="sort", keys=(key,)).to_dict(),
            write_properties=WriteProperties(codec="zstd", row_group_bytes=stored // 100),
            memory_bytes=20_000,
        )
