"""Damaged pages are found, whether they are decoded, copied or joined; and what is written can be checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.executor import Assignment, work
from icepack.kernel.parquet.checksums import Checksum, checksum_state
from icepack.kernel.parquet.chunk_writer import CHUNK_META, COLUMNS, ROW_GROUPS, chunk_start, footer
from icepack.kernel.parquet.errors import DamagedPage
from icepack.kernel.parquet.thrift import Reader
from icepack.kernel.task import Input, Task, Writing

from .kernels import Bench, column, schema_of

SCHEMA = schema_of(column(1, "id", "long"), column(2, "word", "string"), column(3, "key", "string"))
ROWS = 40_000
OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "write_page_index": True,
    "use_dictionary": ["word"],
    "max_rows_per_page": 20_000,
}


def file_of(bench: Bench, first: int = 0, *, has_checksums: bool = True, **options: Any) -> Input:
    rows = {
        "id": list(range(first, first + ROWS)),
        "word": [f"word {at % 5}" for at in range(ROWS)],
        "key": [f"{at * 7919 % 65537:x}-{at}" for at in range(ROWS)],
    }
    return bench.write(SCHEMA, rows, write_page_checksum=has_checksums, **{**OPTIONS, **options})


def path_of(file: Input) -> Path:
    return Path(file.path.removeprefix("file://"))


def page_starts(path: Path, leaf: int) -> list[tuple[int, int]]:
    """Where the pages of a column begin, and where their bodies do."""
    data = path.read_bytes()
    meta = footer(pa.py_buffer(data))[ROW_GROUPS][1][1][0][COLUMNS][1][1][leaf][CHUNK_META][1]
    at, found = chunk_start(meta), []
    end = at + meta[7][1]
    while at < end:
        reader = Reader(data, at)
        header = reader.struct()
        found.append((at, reader.position))
        at = reader.position + header[3][1]
    return found


def damage(file: Input, leaf: int, page: int) -> None:
    """One bit of the page's body; a later page of the file follows in any case."""
    path = path_of(file)
    data = bytearray(path.read_bytes())
    data[page_starts(path, leaf)[page][1] + 30] ^= 1
    path.write_bytes(data)


COPYING = Writing(codec="zstd", as_found=True, row_group_bytes=500_000)
JOINING = Writing(codec="zstd", as_found=True)
ENCODING = Writing(codec="zstd")


@pytest.mark.parametrize(("leaf", "name", "page"), [(0, "id", 0), (0, "id", 1), (1, "word", 0), (2, "key", 1)])
@pytest.mark.parametrize("writing", [COPYING, JOINING, ENCODING], ids=["copied", "joined", "encoded"])
def test_damage_is_found_and_named(bench: Bench, writing: Writing, leaf: int, name: str, page: int) -> None:
    files = [file_of(bench), file_of(bench, ROWS)]
    written, _ = bench.run(SCHEMA, files, writing=writing)
    assert (written.copied_bytes > 0) is writing.as_found
    damage(files[1], leaf, page)
    with pytest.raises(DamagedPage, match=rf"{path_of(files[1]).name}: column {name}, .*page"):
        bench.run(SCHEMA, files, writing=writing)
    assert not (bench.folder / "out.parquet").exists()


def test_damage_is_answered_and_not_left_to_spark(bench: Bench) -> None:
    file = file_of(bench)
    damage(file, 0, 1)
    output = (bench.folder / "out.parquet").as_uri()
    answer = work(Assignment(1, Task(outputs=(output,), schema=SCHEMA, inputs=(file,))), {}, 0)
    assert (answer.written, answer.uncovered, answer.failed) == (None, "", "")
    assert "column id" in answer.damaged
    assert path_of(file).name in answer.damaged


@pytest.mark.parametrize("writing", [COPYING, JOINING, ENCODING], ids=["copied", "joined", "encoded"])
def test_pages_without_a_checksum_are_taken_as_they_are(bench: Bench, writing: Writing) -> None:
    files = [file_of(bench, has_checksums=False), file_of(bench, ROWS, has_checksums=False)]
    _, table = bench.run(SCHEMA, files, writing=writing)
    assert table is not None
    assert table["id"].to_pylist() == list(range(2 * ROWS))


@pytest.mark.parametrize("writing", [COPYING, JOINING, ENCODING], ids=["copied", "joined", "encoded"])
@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
def test_every_page_of_an_output_has_a_checksum(bench: Bench, writing: Writing, page_version: str) -> None:
    files = [file_of(bench, data_page_version=page_version), file_of(bench, ROWS, data_page_version=page_version)]
    written, _ = bench.run(SCHEMA, files, writing=writing)
    path = Path(written.files[0].path.removeprefix("file://"))
    data = path.read_bytes()
    for leaf in range(3):
        starts = [start for start, _ in page_starts(path, leaf)]
        meta = footer(pa.py_buffer(data))[ROW_GROUPS][1][1][0][COLUMNS][1][1][leaf][CHUNK_META][1]
        ends = [*starts[1:], chunk_start(meta) + meta[7][1]]
        states = {checksum_state(memoryview(data)[start:end]) for start, end in zip(starts, ends, strict=True)}
        assert states == {Checksum.RIGHT}
    assert pq.ParquetFile(path, page_checksum_verification=True).read().num_rows == 2 * ROWS


def test_bytes_that_are_not_a_page() -> None:
    assert checksum_state(memoryview(b"\x15\x00\x15\x02\x15\x08\x00xyz")) is Checksum.MISPLACED
    assert checksum_state(memoryview(b"\x15\x00\x15\x02\x15\x06\x00xyz")) is Checksum.MISSING


def test_a_damaged_file_does_not_stop_what_is_whole(bench: Bench) -> None:
    file = file_of(bench)
    damage(file, 0, 0)
    whole = file_of(bench, ROWS)
    with pytest.raises(DamagedPage):
        bench.run(SCHEMA, [file, whole])
    written, _ = bench.run(SCHEMA, [replace(whole, sequence_number=2)])
    assert written.rows_out == ROWS
