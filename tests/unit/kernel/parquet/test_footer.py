"""Footers: long ones, encrypted files, and schemas that some writers add."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.parquet.file_schema import parse_schema
from icepack.kernel.parquet.footer import read_pyarrow_metadata
from icepack.kernel.parquet.metadata import (
    get_row_groups,
    read_file_metadata,
)
from kernel.harness import KernelHarness, column, schema_of
from kernel.parquet_files import field_with_id, file_of, list_of


def test_a_column_named_like_the_arrow_schema_key(harness: KernelHarness) -> None:
    field = pa.field("ARROW:schema", pa.list_(pa.int64(), 1))
    file = file_of(harness, (field, [[1], [2]]))
    names = [{"field-id": 1, "names": ["ARROW:schema"], "fields": [{"field-id": 2, "names": ["element"]}]}]
    _, table = harness.run(schema_of(column(1, "c", list_of(2, "long"))), [file], name_mapping=names)
    assert table is not None
    assert table["c"].to_pylist() == [[1], [2]]


def test_encrypted_files_are_unsupported(harness: KernelHarness) -> None:
    file = file_of(harness, (field_with_id(1, pa.int64()), [1]))
    path = Path(file.path.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:-4] + b"PARE")
    with pytest.raises(UnsupportedByKernel, match="encrypted"):
        harness.run(schema_of(column(1, "c", "long")), [file])


def test_files_with_encrypted_columns_and_a_plain_footer_are_unsupported(harness: KernelHarness) -> None:
    """PyArrow would end the whole process when it reads such a column."""
    file = file_of(harness, (field_with_id(1, pa.int64()), [1]))
    path = Path(file.path.removeprefix("file://"))
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    signed = data[:-8] + b"s" * 28 + (length + 28).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(signed)
    with pytest.raises(UnsupportedByKernel, match="encrypted"):
        harness.run(schema_of(column(1, "c", "long")), [replace(file, bytes=len(signed))])


def test_a_footer_that_is_longer_than_the_first_read(harness: KernelHarness) -> None:
    fields = [field_with_id(number, pa.int64(), f"column number {number}") for number in range(1, 1500)]
    file = file_of(harness, *((field, [number]) for number, field in enumerate(fields, 1)))
    _, table = harness.run(schema_of(column(700, "c", "long")), [file])
    assert table is not None
    assert table["c"].to_pylist() == [700]


def test_schemas_with_the_same_beginning_are_distinguished(harness: KernelHarness) -> None:
    short = schema_of(column(1, "a", "long"))
    long = schema_of(column(1, "a", "long"), column(2, "b", "long"))
    files = [
        harness.write(short, {"a": [1]}),
        harness.write(long, {"a": [2], "b": [3]}),
        harness.write(short, {"a": [4]}),
    ]
    _, table = harness.run(long, files)
    assert table is not None
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": 3}, {"a": 4, "b": None}]


def test_metadata_without_the_arrow_schema_keeps_row_groups(harness: KernelHarness) -> None:
    file = file_of(harness, (field_with_id(1, pa.large_string()), ["a", "b"]), row_group_size=1)
    data = Path(file.path.removeprefix("file://")).read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    raw = data[-8 - length : -8]
    metadata = read_pyarrow_metadata(raw, parse_schema(raw))
    assert metadata.num_row_groups == len(get_row_groups(read_file_metadata(pa.py_buffer(data)))) == 2
    assert metadata.schema.to_arrow_schema().field(0).type == pa.string()
