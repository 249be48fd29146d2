"""Corrupt pages are found, whether they are decoded, copied or merged; and outputs have checksums."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.executor import TaskAssignment, run_task
from icepack.kernel.parquet.checksums import ChecksumStatus, CorruptPage, verify_checksum
from icepack.kernel.parquet.metadata import (
    ColumnMetaData,
    find_chunk_end,
    find_chunk_start,
    get_column_chunks,
    get_column_metadata,
    get_row_groups,
    read_file_metadata,
)
from icepack.kernel.parquet.thrift import CompactReader
from icepack.kernel.task import InputFile, Task, WriteProperties
from kernel.harness import KernelHarness, column, schema_of

SCHEMA = schema_of(column(1, "id", "long"), column(2, "word", "string"), column(3, "key", "string"))
ROWS = 40_000
OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "write_page_index": True,
    "use_dictionary": ["word"],
    "max_rows_per_page": 20_000,
}


def file_of(harness: KernelHarness, first: int = 0, *, has_checksums: bool = True, **options: Any) -> InputFile:
    rows = {
        "id": list(range(first, first + ROWS)),
        "word": [f"word {at % 5}" for at in range(ROWS)],
        "key": [f"{at * 7919 % 65537:x}-{at}" for at in range(ROWS)],
    }
    return harness.write(SCHEMA, rows, write_page_checksum=has_checksums, **{**OPTIONS, **options})


def path_of(file: InputFile) -> Path:
    return Path(file.path.removeprefix("file://"))


def column_metadata(data: bytes, leaf: int) -> ColumnMetaData:
    row_group = get_row_groups(read_file_metadata(pa.py_buffer(data)))[0]
    return get_column_metadata(get_column_chunks(row_group)[leaf])


def page_starts(path: Path, leaf: int) -> list[tuple[int, int]]:
    """Where the pages of a column start, and where their bodies start."""
    data = path.read_bytes()
    meta = column_metadata(data, leaf)
    at, end, found = find_chunk_start(meta), find_chunk_end(meta), []
    while at < end:
        reader = CompactReader(data, at)
        header = reader.read_struct()
        found.append((at, reader.position))
        at = reader.position + header[3][1]
    return found


def corrupt(file: InputFile, leaf: int, page: int) -> None:
    """Flips one bit of the page's body."""
    path = path_of(file)
    data = bytearray(path.read_bytes())
    data[page_starts(path, leaf)[page][1] + 30] ^= 1
    path.write_bytes(data)


COPYING = WriteProperties(codec="zstd", may_copy_chunks=True, row_group_bytes=500_000)
MERGING = WriteProperties(codec="zstd", may_copy_chunks=True)
ENCODING = WriteProperties(codec="zstd")


@pytest.mark.parametrize(("leaf", "name", "page"), [(0, "id", 0), (0, "id", 1), (1, "word", 0), (2, "key", 1)])
@pytest.mark.parametrize("write_properties", [COPYING, MERGING, ENCODING], ids=["copied", "merged", "encoded"])
def test_a_corrupt_page_is_found_and_named(
    harness: KernelHarness, write_properties: WriteProperties, leaf: int, name: str, page: int
) -> None:
    files = [file_of(harness), file_of(harness, ROWS)]
    written, _ = harness.run(SCHEMA, files, write_properties=write_properties)
    assert (written.copied_bytes > 0) is write_properties.may_copy_chunks
    corrupt(files[1], leaf, page)
    with pytest.raises(CorruptPage, match=rf"{path_of(files[1]).name}: column {name}, .*page"):
        harness.run(SCHEMA, files, write_properties=write_properties)
    assert not (harness.folder / "out.parquet").exists()


def test_a_corrupt_page_is_reported_and_not_left_to_spark(harness: KernelHarness) -> None:
    file = file_of(harness)
    corrupt(file, 0, 1)
    output = (harness.folder / "out.parquet").as_uri()
    result = run_task(TaskAssignment(1, Task(outputs=(output,), schema=SCHEMA, inputs=(file,))), {}, 0)
    assert (result.written, result.unsupported, result.error) == (None, "", "")
    assert "column id" in result.corrupt_page
    assert path_of(file).name in result.corrupt_page


@pytest.mark.parametrize("write_properties", [COPYING, MERGING, ENCODING], ids=["copied", "merged", "encoded"])
def test_pages_without_a_checksum_are_accepted(harness: KernelHarness, write_properties: WriteProperties) -> None:
    files = [file_of(harness, has_checksums=False), file_of(harness, ROWS, has_checksums=False)]
    _, table = harness.run(SCHEMA, files, write_properties=write_properties)
    assert table is not None
    assert table["id"].to_pylist() == list(range(2 * ROWS))


@pytest.mark.parametrize("write_properties", [COPYING, MERGING, ENCODING], ids=["copied", "merged", "encoded"])
@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
def test_every_page_of_an_output_has_a_checksum(
    harness: KernelHarness, write_properties: WriteProperties, page_version: str
) -> None:
    files = [file_of(harness, data_page_version=page_version), file_of(harness, ROWS, data_page_version=page_version)]
    written, _ = harness.run(SCHEMA, files, write_properties=write_properties)
    path = Path(written.files[0].path.removeprefix("file://"))
    data = path.read_bytes()
    for leaf in range(3):
        starts = [start for start, _ in page_starts(path, leaf)]
        ends = [*starts[1:], find_chunk_end(column_metadata(data, leaf))]
        states = {verify_checksum(memoryview(data)[start:end]) for start, end in zip(starts, ends, strict=True)}
        assert states == {ChecksumStatus.VALID}
    assert pq.ParquetFile(path, page_checksum_verification=True).read().num_rows == 2 * ROWS


def test_bytes_that_are_not_a_page() -> None:
    assert verify_checksum(memoryview(b"\x15\x00\x15\x02\x15\x08\x00xyz")) is ChecksumStatus.NOT_A_PAGE
    assert verify_checksum(memoryview(b"\x15\x00\x15\x02\x15\x06\x00xyz")) is ChecksumStatus.MISSING


def test_a_corrupt_file_does_not_affect_other_tasks(harness: KernelHarness) -> None:
    file = file_of(harness)
    corrupt(file, 0, 0)
    whole = file_of(harness, ROWS)
    with pytest.raises(CorruptPage):
        harness.run(SCHEMA, [file, whole])
    written, _ = harness.run(SCHEMA, [replace(whole, sequence_number=2)])
    assert written.rows_out == ROWS
