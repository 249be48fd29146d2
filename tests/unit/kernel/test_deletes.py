"""Deleted rows: by equality beside a reference that compares row by row, and by position."""

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

from icepack.kernel.deletes.deleted_rows import EqualityDeletes, PositionDeletes, is_kept
from icepack.kernel.storage import Storage
from icepack.kernel.task import DeleteFile, Input, Task

from .kernels import Bench, column, schema_of
from .test_vectors import blob

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
def test_equality_is_that_of_comparing_row_by_row(case: Any, encoded: bool) -> None:
    """Null equals null, and a key deletes only what is older than itself."""
    kinds, keys, rows, sequence_number = case
    numbers = np.array([number for _, number in keys], np.int64)
    deletes = EqualityDeletes(range(len(kinds)), columns_of(kinds, [key for key, _ in keys]), numbers)
    expected = [not any(key == row and number > sequence_number for key, number in keys) for row in rows]
    assert deletes.keeps(columns_of(kinds, rows, encoded), sequence_number).tolist() == expected
    assert deletes.newest == max(numbers)


@given(st.sets(st.integers(0, 60)), st.integers(0, 40), st.integers(0, 30))
def test_positions_count_from_the_beginning_of_the_file(deleted: set[int], start: int, length: int) -> None:
    mask = is_kept(np.array(sorted(deleted), np.int64), start, start + length)
    expected = [position not in deleted for position in range(start, start + length)]
    assert (expected if mask is None else mask.tolist()) == expected
    assert mask is None or not all(expected)


SCHEMA = schema_of(column(1, "id", "long"))


def position_file(bench: Bench, rows: list[tuple[str, int]]) -> DeleteFile:
    table = pa.table({"file_path": [path for path, _ in rows], "pos": pa.array([at for _, at in rows], pa.int64())})
    made = bench.add(table, row_group_size=2)
    return DeleteFile(path=made.path, bytes=made.bytes)


def test_a_delete_file_is_heeded_only_by_the_inputs_it_applies_to(bench: Bench) -> None:
    """It may name rows of files that were written after it, under the same name as before."""
    one = bench.write(SCHEMA, {"id": [0, 1, 2, 3, 4]})
    two = bench.write(SCHEMA, {"id": [10, 11, 12]})
    deletes = (
        position_file(bench, [(one.path, 0), (one.path, 4), ("file:///elsewhere", 1), (two.path, 2)]),
        position_file(bench, [(one.path, 0), (two.path, 0)]),
    )
    inputs = [replace(one, position_deletes=(0, 1)), replace(two, position_deletes=(1,))]
    written, table = bench.run(SCHEMA, inputs, position_deletes=deletes)
    assert table is not None
    assert table["id"].to_pylist() == [1, 2, 3, 11, 12]
    assert (written.rows_in, written.rows_dropped, written.rows_out) == (8, 3, 5)


def test_when_all_rows_are_deleted_there_is_no_file(bench: Bench) -> None:
    one = bench.write(SCHEMA, {"id": [0, 1]})
    deletes = (position_file(bench, [(one.path, 0), (one.path, 1)]),)
    written, table = bench.run(SCHEMA, [replace(one, position_deletes=(0,))], position_deletes=deletes)
    assert (written.files, written.rows_dropped, table) == ((), 2, None)
    assert not (bench.folder / "out.parquet").exists()


def test_vectors_are_found_by_their_place_in_the_puffin_file(bench: Bench) -> None:
    first, second = blob({0, 2}, optimized=False), blob({1}, optimized=True)
    puffin = bench.folder / "deletes.puffin"
    puffin.write_bytes(b"PFA1" + first + second + b"footer")
    one = bench.write(SCHEMA, {"id": [0, 1, 2]}, first_row_id=0)
    two = bench.write(SCHEMA, {"id": [10, 11]}, first_row_id=3)
    inputs = [
        replace(one, vector=(puffin.as_uri(), 4, len(first))),
        replace(two, vector=(puffin.as_uri(), 4 + len(first), len(second))),
    ]
    written, table = bench.run(SCHEMA, inputs, lineage=True)
    assert table is not None
    assert table.select([0, 1]).to_pydict() == {"id": [1, 10], "_row_id": [1, 3]}
    assert written.rows_dropped == 3


def test_threads_that_ask_for_vectors_at_once_each_get_their_own(bench: Bench) -> None:
    puffin = bench.folder / "deletes.puffin"
    blobs = [blob({number}, optimized=False) for number in range(8)]
    puffin.write_bytes(b"".join(blobs))
    inputs = tuple(
        Input(
            path=f"f{at}",
            bytes=1,
            records=9,
            sequence_number=1,
            vector=(puffin.as_uri(), at * len(blobs[0]), len(data)),
        )
        for at, data in enumerate(blobs)
    )
    deletes = PositionDeletes(Task(outputs=(), schema=SCHEMA, inputs=inputs), Storage({}))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda item: deletes.of(item).tolist(), inputs * 100))
    assert found == [[number] for number in range(8)] * 100


def test_equality_deletes_of_another_schema_and_age(bench: Bench) -> None:
    """Written as int before the column became long, under its old name; older rows only."""
    key = pa.schema([pa.field("old_name", pa.int32(), metadata={"PARQUET:field_id": "1"})])
    made = bench.add(pa.table({"old_name": pa.array([1, None], pa.int32())}, schema=key))
    delete = DeleteFile(path=made.path, bytes=made.bytes, sequence_number=5, equality_ids=(1,))
    inputs = [
        bench.write(SCHEMA, {"id": [1, 2, None]}, sequence_number=4),
        bench.write(SCHEMA, {"id": [1, None]}, sequence_number=5),
        bench.write(SCHEMA, {"id": [1, None, 3]}, sequence_number=3),
    ]
    written, table = bench.run(SCHEMA, inputs, equality_deletes=(delete,))
    assert table is not None
    assert table["id"].to_pylist() == [2, 1, None, 3]
    assert written.rows_dropped == 4


@pytest.mark.parametrize("kept", [[True, False, True, True], [False, False, False, True]])
def test_dictionaries_lose_what_no_row_refers_to(kept: list[bool]) -> None:
    from icepack.kernel.parquet.dictionaries import without_leftovers

    column = pa.chunked_array([pa.array(["a", "b", None, "c"]).dictionary_encode()]).filter(pa.array(kept))
    made = without_leftovers(column)
    assert made.to_pylist() == column.to_pylist()
    assert sorted(made.chunk(0).dictionary.to_pylist()) == sorted({value for value in column.to_pylist() if value})
