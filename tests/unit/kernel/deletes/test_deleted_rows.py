"""Deleted rows: equality deletes against a reference that compares row by row, and position deletes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.kernel.deletes.deleted_rows import EqualityDeletes, PositionDeletes, build_position_mask
from icepack.kernel.storage import Storage
from icepack.kernel.task import DeleteFile, InputFile, Task
from kernel.harness import KernelHarness, column, schema_of

from .test_deletion_vectors import blob

TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(0, 3)),
    (pa.string(), st.sampled_from(["", "a", "b", "\0"])),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates(date(2024, 1, 1), date(2024, 1, 3))),
    (pa.decimal128(5, 2), st.sampled_from([0, 1]).map(lambda number: number)),
    (pa.binary(), st.sampled_from([b"", b"\0", b"\xff"])),
]


@st.composite
def cases(draw: st.DrawFn) -> Any:
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | values for _, values in kinds))
    keys = draw(st.lists(st.tuples(row, st.integers(1, 5)), min_size=1, max_size=12))
    rows = draw(st.lists(row, max_size=20))
    return [kind for kind, _ in kinds], keys, rows, draw(st.integers(0, 6))


def columns_of(kinds: list[pa.DataType], rows: list[tuple[Any, ...]], encoded: bool = False) -> list[pa.ChunkedArray]:
    arrays = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    if encoded:
        arrays = [array.dictionary_encode() if pa.types.is_string(array.type) else array for array in arrays]
    return [pa.chunked_array([array.slice(0, 3), array.slice(3)], array.type) for array in arrays]


@given(cases(), st.booleans())
def test_equality_deletes_equal_a_comparison_row_by_row(case: Any, encoded: bool) -> None:
    """Null equals null, and a key deletes only rows that are older."""
    kinds, keys, rows, sequence_number = case
    numbers = np.array([number for _, number in keys], np.int64)
    deletes = EqualityDeletes(range(len(kinds)), columns_of(kinds, [key for key, _ in keys]), numbers)
    expected = [not any(key == row and number > sequence_number for key, number in keys) for row in rows]
    assert deletes.build_mask(columns_of(kinds, rows, encoded), sequence_number).tolist() == expected
    assert deletes.max_sequence_number == max(numbers)


@given(st.sets(st.integers(0, 60)), st.integers(0, 40), st.integers(0, 30))
def test_positions_count_from_the_start_of_the_file(deleted: set[int], start: int, length: int) -> None:
    mask = build_position_mask(np.array(sorted(deleted), np.int64), start, start + length)
    expected = [position not in deleted for position in range(start, start + length)]
    assert (expected if mask is None else mask.tolist()) == expected
    assert mask is None or not all(expected)


SCHEMA = schema_of(column(1, "id", "long"))


def position_file(harness: KernelHarness, rows: list[tuple[str, int]]) -> DeleteFile:
    table = pa.table({"file_path": [path for path, _ in rows], "pos": pa.array([at for _, at in rows], pa.int64())})
    made = harness.add(table, row_group_size=2)
    return DeleteFile(path=made.path, bytes=made.bytes)


def test_a_delete_file_applies_only_to_its_inputs(harness: KernelHarness) -> None:
    """It may name rows of files that were written later under the same name."""
    one = harness.write(SCHEMA, {"id": [0, 1, 2, 3, 4]})
    two = harness.write(SCHEMA, {"id": [10, 11, 12]})
    deletes = (
        position_file(harness, [(one.path, 0), (one.path, 4), ("file:///elsewhere", 1), (two.path, 2)]),
        position_file(harness, [(one.path, 0), (two.path, 0)]),
    )
    inputs = [replace(one, position_deletes=(0, 1)), replace(two, position_deletes=(1,))]
    written, table = harness.run(SCHEMA, inputs, position_deletes=deletes)
    assert table is not None
    assert table["id"].to_pylist() == [1, 2, 3, 11, 12]
    assert (written.rows_in, written.rows_dropped, written.rows_out) == (8, 3, 5)


def test_no_file_is_written_if_all_rows_are_deleted(harness: KernelHarness) -> None:
    one = harness.write(SCHEMA, {"id": [0, 1]})
    deletes = (position_file(harness, [(one.path, 0), (one.path, 1)]),)
    written, table = harness.run(SCHEMA, [replace(one, position_deletes=(0,))], position_deletes=deletes)
    assert (written.files, written.rows_dropped, table) == ((), 2, None)
    assert not (harness.folder / "out.parquet").exists()


def test_deletion_vectors_are_found_by_their_offset_in_the_puffin_file(harness: KernelHarness) -> None:
    first, second = blob({0, 2}, optimized=False), blob({1}, optimized=True)
    puffin = harness.folder / "deletes.puffin"
    puffin.write_bytes(b"PFA1" + first + second + b"footer")
    one = harness.write(SCHEMA, {"id": [0, 1, 2]}, first_row_id=0)
    two = harness.write(SCHEMA, {"id": [10, 11]}, first_row_id=3)
    inputs = [
        replace(one, deletion_vector=(puffin.as_uri(), 4, len(first))),
        replace(two, deletion_vector=(puffin.as_uri(), 4 + len(first), len(second))),
    ]
    written, table = harness.run(SCHEMA, inputs, lineage=True)
    assert table is not None
    assert table.select([0, 1]).to_pydict() == {"id": [1, 10], "_row_id": [1, 3]}
    assert written.rows_dropped == 3


def test_concurrent_threads_get_the_right_deletion_vectors(harness: KernelHarness) -> None:
    puffin = harness.folder / "deletes.puffin"
    blobs = [blob({number}, optimized=False) for number in range(8)]
    puffin.write_bytes(b"".join(blobs))
    inputs = tuple(
        InputFile(
            path=f"f{at}",
            bytes=1,
            records=9,
            sequence_number=1,
            deletion_vector=(puffin.as_uri(), at * len(blobs[0]), len(data)),
        )
        for at, data in enumerate(blobs)
    )
    deletes = PositionDeletes(Task(outputs=(), schema=SCHEMA, inputs=inputs), Storage({}))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda file: deletes.get_positions(file).tolist(), inputs * 100))
    assert found == [[number] for number in range(8)] * 100


def test_equality_deletes_with_an_older_schema(harness: KernelHarness) -> None:
    """The delete file was written before the column was promoted and renamed; it deletes only older rows."""
    key = pa.schema([pa.field("old_name", pa.int32(), metadata={"PARQUET:field_id": "1"})])
    made = harness.add(pa.table({"old_name": pa.array([1, None], pa.int32())}, schema=key))
    delete = DeleteFile(path=made.path, bytes=made.bytes, sequence_number=5, equality_ids=(1,))
    inputs = [
        harness.write(SCHEMA, {"id": [1, 2, None]}, sequence_number=4),
        harness.write(SCHEMA, {"id": [1, None]}, sequence_number=5),
        harness.write(SCHEMA, {"id": [1, None, 3]}, sequence_number=3),
    ]
    written, table = harness.run(SCHEMA, inputs, equality_deletes=(delete,))
    assert table is not None
    assert table["id"].to_pylist() == [2, 1, None, 3]
    assert written.rows_dropped == 4


@pytest.mark.parametrize("kept", [[True, False, True, True], [False, False, False, True]])
def test_unused_dictionary_entries_are_dropped(kept: list[bool]) -> None:
    from icepack.kernel.dictionaries import drop_unused_entries

    column = pa.chunked_array([pa.array(["a", "b", None, "c"]).dictionary_encode()]).filter(pa.array(kept))
    made = drop_unused_entries(column)
    assert made.to_pylist() == column.to_pylist()
    assert sorted(made.chunk(0).dictionary.to_pylist()) == sorted({value for value in column.to_pylist() if value})
