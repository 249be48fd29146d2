from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from icepack.engine.native.java_rewrite import LiveFile
from icepack.engine.native.tasks import MAX_OVERSIZE, count_outputs, sort_by_age, split_files


def live_file(path: str = "f", size: int = 100, records: int = 10, **more: Any) -> LiveFile:
    facts = {"format": "PARQUET", "spec_id": 0, "sequence_number": 1, **more}
    return LiveFile(path=path, bytes=size, records=records, **facts)


live_files = st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 5000)), min_size=1, max_size=40).map(
    lambda pairs: [live_file(f"f{index}", size, records) for index, (size, records) in enumerate(pairs)]
)


@given(st.integers(1, 10**12), st.integers(1, 10**9))
def test_outputs_are_close_to_the_target_size_without_a_small_last_one(total: int, target: int) -> None:
    count = count_outputs(total, target)
    assert count >= 1
    assert total / count <= target * MAX_OVERSIZE or count == 1
    if count > 1:
        assert total / count > target * 0.5, "never half empty"
        assert total / (count - 1) > target, "one fewer would be too large"


@given(live_files, st.integers(1, 12))
def test_every_row_goes_into_one_part_and_rows_keep_their_order(files: list[LiveFile], count: int) -> None:
    parts = split_files(files, count)
    assert 1 <= len(parts) <= count
    assert all(parts)
    pieces = [
        (item.path, item.start, item.records if item.stop is None else item.stop) for part in parts for item in part
    ]
    assert [path for path, *_ in pieces] == sorted((path for path, *_ in pieces), key=lambda path: int(path[1:]))
    for file in files:
        ranges = [(start, stop) for path, start, stop in pieces if path == file.path]
        assert (ranges[0][0], ranges[-1][1]) == (0, file.records)
        assert all(before[1] == after[0] for before, after in pairwise(ranges))
    assert sum(item.rows for part in parts for item in part) == sum(file.records for file in files)


@given(st.integers(2, 60), st.integers(2, 8))
def test_files_of_equal_size_make_parts_of_equal_size(count: int, parts: int) -> None:
    found = split_files([live_file(f"f{index}", 1000, 100) for index in range(count)], parts)
    sizes = [sum(item.rows for item in part) for part in found]
    assert max(sizes) - min(sizes) <= 2 * 100


def test_files_are_sorted_in_the_order_in_which_they_were_committed() -> None:
    files = [live_file("b", sequence_number=2), live_file("c", sequence_number=1), live_file("a", sequence_number=2)]
    assert [file.path for file in sort_by_age(files)] == ["c", "a", "b"]
    with_row_ids = [live_file("a", first_row_id=50), live_file("b", first_row_id=0)]
    assert [file.path for file in sort_by_age(with_row_ids)] == ["b", "a"]


def test_inputs_have_the_constants_of_their_partition() -> None:
    ((whole,),) = split_files([live_file(constants={1: None, 2: 0.5})], 1)
    assert whole.constants == {1: None, 2: 0.5}
