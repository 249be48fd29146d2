"""Which lists and maps are rewritten: those with the standard structure and names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.parquet.file_schema import parse_schema
from icepack.kernel.parquet.metadata import (
    COLUMN_PATH,
    FILE_SCHEMA,
    get_column_chunks,
    get_column_metadata,
    get_row_groups,
    read_file_metadata,
)
from icepack.kernel.parquet.thrift import BINARY, I32, LIST, ThriftStruct, write_struct
from icepack.kernel.task import InputFile

from .harness import Json, KernelHarness, column, schema_of
from .parquet_files import field_with_id, file_of, list_of


def changed(file: InputFile, change: Any) -> InputFile:
    """The same file with another schema in its footer."""
    path = Path(file.path.removeprefix("file://"))
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    found = read_file_metadata(pa.py_buffer(data))
    change(found[FILE_SCHEMA][1][1])
    for row_group in get_row_groups(found):
        paths = parse_schema(write_struct(found)).paths
        for chunk, path_in_schema in zip(get_column_chunks(row_group), paths, strict=True):
            names = [name.encode() for name in path_in_schema.split(".")]
            get_column_metadata(chunk)[COLUMN_PATH] = (LIST, (BINARY, names))
    tail = write_struct(found)
    path.write_bytes(data[: -8 - length] + tail + len(tail).to_bytes(4, "little") + b"PAR1")
    return InputFile(path=file.path, bytes=path.stat().st_size, records=file.records, sequence_number=1)


def renamed(elements: list[ThriftStruct], before: str, after: str) -> None:
    for element in elements:
        if element[4][1] == before.encode():
            element[4] = (BINARY, after.encode())


def a_list(harness: KernelHarness) -> tuple[Json, InputFile]:
    stored = pa.list_(field_with_id(2, pa.int64(), "element"))
    return schema_of(column(1, "c", list_of(2, "long"))), file_of(harness, (field_with_id(1, stored), [[1], None]))


@pytest.mark.parametrize(("middle", "element"), [("list", "item"), ("bag", "array_element"), ("list", "element")])
def test_lists_with_the_names_of_known_writers(harness: KernelHarness, middle: str, element: str) -> None:
    schema, file = a_list(harness)
    file = changed(file, lambda found: (renamed(found, "list", middle), renamed(found, "element", element)))
    _, table = harness.run(schema, [file])
    assert table is not None
    assert table["c"].to_pylist() == [[1], None]


@pytest.mark.parametrize(("middle", "element"), [("array", "element"), ("c_tuple", "element"), ("list", "array")])
def test_lists_with_other_names_are_unsupported(harness: KernelHarness, middle: str, element: str) -> None:
    schema, file = a_list(harness)
    file = changed(file, lambda found: (renamed(found, "list", middle), renamed(found, "element", element)))
    with pytest.raises(UnsupportedByKernel, match="a list with the levels"):
        harness.run(schema, [file])


def without_annotation(elements: list[ThriftStruct]) -> None:
    for key in (6, 10):
        elements[1].pop(key, None)


def two_level(elements: list[ThriftStruct]) -> None:
    """`repeated int64 element` directly inside the group that is annotated as a list."""
    elements[3][3] = (I32, 2)
    del elements[2]


@pytest.mark.parametrize("change", [without_annotation, two_level])
def test_lists_with_another_structure_are_unsupported(harness: KernelHarness, change: Any) -> None:
    schema, file = a_list(harness)
    with pytest.raises(UnsupportedByKernel, match="column c"):
        harness.run(schema, [changed(file, change)])


def a_map(harness: KernelHarness) -> tuple[Json, InputFile]:
    stored = pa.map_(field_with_id(2, pa.string(), "key", nullable=False), field_with_id(3, pa.int64(), "value"))
    kind = {"type": "map", "key-id": 2, "key": "string", "value-id": 3, "value": "long", "value-required": False}
    return schema_of(column(1, "c", kind)), file_of(harness, (field_with_id(1, stored), [[("k", 1)], None]))


def optional_key(elements: list[ThriftStruct]) -> None:
    elements[3][3] = (I32, 1)


def annotated_as_key_value(elements: list[ThriftStruct]) -> None:
    without_annotation(elements)
    elements[1][6] = (I32, 2)


@pytest.mark.parametrize(
    "change",
    [
        optional_key,
        annotated_as_key_value,
        without_annotation,
        lambda found: renamed(found, "key_value", "map"),
        lambda found: renamed(found, "key", "k"),
    ],
    ids=["optional key", "MAP_KEY_VALUE", "no annotation", "map", "k"],
)
def test_maps_with_another_structure_are_unsupported(harness: KernelHarness, change: Any) -> None:
    schema, file = a_map(harness)
    _, table = harness.run(schema, [file])
    assert table is not None
    with pytest.raises(UnsupportedByKernel, match=r"column c|Map keys must be annotated as required"):
        harness.run(schema, [changed(file, change)])
