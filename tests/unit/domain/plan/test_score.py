from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import DAY, HOUR, NOW, partition
from icepack.domain.plan.score import compute_fragment_ratio, score_partition

ages = st.one_of(st.none(), st.integers(-5, 100).map(lambda hours: NOW - hours * HOUR))


@st.composite
def partitions(draw, *, deletes):
    files = draw(st.integers(0, 250))
    return partition(
        data_files=files,
        small_files=draw(st.integers(0, files)),
        position_delete_files=draw(st.integers(0, 300)) if deletes else 0,
        last_compacted_at=draw(ages),
    )


def score(**facts):
    return score_partition(partition(**facts), NOW)


@given(partitions(deletes=True))
def test_the_score_lies_between_0_and_1_and_is_the_sum_of_its_parts(row):
    parts = score_partition(row, NOW)
    assert 0 <= parts.total <= 1 + 1e-9
    assert parts.total == pytest.approx(parts.file_count + parts.fragment + parts.age + parts.small_files)


@given(partitions(deletes=False), st.integers(1, 100))
def test_more_small_files_never_lower_the_score_of_a_partition_without_deletes(row, more):
    worse = replace(row, data_files=row.data_files + more, small_files=row.small_files + more)
    assert score_partition(worse, NOW).total >= score_partition(row, NOW).total - 1e-12


@given(partitions(deletes=True), st.integers(1, 100))
def test_more_deletes_never_lower_the_score(row, more):
    worse = replace(row, position_delete_files=row.position_delete_files + more)
    assert score_partition(worse, NOW).total >= score_partition(row, NOW).total


@given(partitions(deletes=True))
def test_waiting_longer_never_lowers_the_score(row):
    assert score_partition(row, NOW + DAY).total >= score_partition(row, NOW).total


def test_the_weights_are_03_03_02_and_02():
    worst = score(data_files=100, small_files=100, position_delete_files=100)
    assert (worst.file_count, worst.fragment, worst.age, worst.small_files) == (0.3, 0.3, 0.2, 0.2)
    assert worst.total == pytest.approx(1)


def test_each_part_is_its_share_of_the_weight():
    parts = score(
        data_files=50,
        small_files=10,
        position_delete_files=3,
        equality_delete_files=1,
        deletion_vectors=1,
        last_compacted_at=NOW - 6 * HOUR,
    )
    assert parts.file_count == pytest.approx(0.15)
    assert parts.fragment == pytest.approx(0.03)
    assert parts.age == pytest.approx(0.05)
    assert parts.small_files == pytest.approx(0.04)


def test_a_partition_never_compacted_is_overdue_and_an_empty_one_is_not():
    assert score(data_files=1).age == pytest.approx(0.2)
    assert score(data_files=0).total == 0


def test_a_clock_that_runs_behind_does_not_make_an_age_negative():
    assert score(last_compacted_at=NOW + HOUR).age == 0


def test_deletes_without_data_files_divide_by_nothing():
    assert compute_fragment_ratio(0, 3) == 3
    assert score(data_files=0, position_delete_files=3).fragment == pytest.approx(0.3)
