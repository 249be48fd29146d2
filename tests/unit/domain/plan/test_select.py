from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import data_file, key
from icepack.domain.actions import Strategy
from icepack.domain.plan.select import (
    FileGroup,
    SelectionRules,
    compute_nearly_full_bytes,
    count_files_needed,
    fills_target_file,
    group_by_partition,
    select_files,
)
from icepack.domain.units import MIB

RULES = SelectionRules(target_file_bytes=512 * MIB)


def group(*files):
    return FileGroup(key(), files)


def files(count, size, **facts):
    return tuple(data_file(f"{size}-{number:05}", size, **facts) for number in range(count))


def chosen(group, strategy=Strategy.SMALL_FILES, rules=RULES):
    return select_files(group, strategy, rules)


def test_a_group_sums_up_its_files():
    both = group(data_file("a", 5, records=1, position_delete_files=2), data_file("b", 7, records=2))
    assert (both.bytes, both.records, both.delete_files) == (12, 3, 2)


class TestShouldCompact:
    """The rules of FileGroup.should_compact, which decide for every strategy but `delete_files`."""

    def test_too_many_files_are_compacted_unless_they_are_nearly_full(self):
        rules = SelectionRules(target_file_bytes=512 * MIB, max_files_per_partition=10)
        assert group(*files(11, 300 * MIB)).should_compact(rules)
        assert not group(*files(10, 300 * MIB)).should_compact(rules)
        assert not group(*files(11, 400 * MIB)).should_compact(rules)

    def test_small_files_below_the_threshold_are_compacted(self):
        assert group(*files(5, 32 * MIB - 1)).should_compact(RULES)
        assert not group(*files(5, 32 * MIB)).should_compact(RULES)

    def test_large_files_do_not_hide_small_ones(self):
        assert group(*files(5, MIB), *files(5, 500 * MIB)).should_compact(RULES)

    def test_too_many_deletes_per_file_are_compacted(self):
        clean = files(9, 400 * MIB)
        assert not group(*clean, data_file("x", 400 * MIB, equality_delete_files=1)).should_compact(RULES)
        assert group(*clean, data_file("x", 400 * MIB, equality_delete_files=2)).should_compact(RULES)

    def test_one_small_file_alone_is_not_compacted(self):
        assert not group(*files(1, 5)).should_compact(RULES)

    def test_an_empty_group_is_not_compacted(self):
        assert not group().should_compact(RULES)


def test_a_file_is_never_small_at_three_quarters_of_the_target():
    rules = SelectionRules(target_file_bytes=16 * MIB)
    assert rules.effective_small_bytes == compute_nearly_full_bytes(16 * MIB) == 12 * MIB
    assert RULES.effective_small_bytes == 32 * MIB


def test_enough_small_files_are_chosen_and_the_large_ones_left():
    large = data_file("large", 400 * MIB)
    assert chosen(group(large, *files(5, MIB))) == files(5, MIB)


def test_fewer_small_files_than_asked_for_are_left():
    assert chosen(group(*files(4, MIB))) == ()


def test_few_small_files_are_chosen_when_they_fill_a_whole_file():
    rules = SelectionRules(target_file_bytes=40 * MIB)
    assert len(chosen(group(*files(3, 20 * MIB)), rules=rules)) == 3
    assert not fills_target_file(files(1, 50 * MIB), rules)


def test_files_that_a_rewrite_would_not_make_fewer_are_left():
    rules = SelectionRules(target_file_bytes=40 * MIB, min_input_files=1)
    assert chosen(group(*files(2, 29 * MIB)), rules=rules) == ()
    assert chosen(group(*files(1, MIB)), rules=rules) == ()


def test_in_a_crowded_partition_every_file_that_is_not_nearly_full_is_chosen():
    rules = SelectionRules(target_file_bytes=512 * MIB, max_files_per_partition=10)
    full = files(5, 400 * MIB)
    assert chosen(group(*full, *files(6, 100 * MIB)), rules=rules) == files(6, 100 * MIB)
    assert chosen(group(*full, *files(5, 100 * MIB)), rules=rules) == ()


def test_delete_files_chooses_every_file_with_a_delete_and_no_other():
    heavy = data_file("heavy", 400 * MIB, deletion_vectors=1)
    crowd = group(heavy, *files(50, MIB))
    assert chosen(crowd, Strategy.DELETE_FILES) == (heavy,)


def test_delete_files_honours_its_threshold():
    rules = SelectionRules(target_file_bytes=512 * MIB, delete_file_threshold=2)
    one, two = (data_file(str(count), position_delete_files=count) for count in (1, 2))
    assert chosen(group(one, two), Strategy.DELETE_FILES, rules) == (two,)


@pytest.mark.parametrize("strategy", [Strategy.SMALL_FILES, Strategy.TIME_SERIES])
def test_the_other_strategies_include_files_with_deletes_only_if_there_are_too_many(strategy):
    heavy = data_file("heavy", 400 * MIB, position_delete_files=1)
    assert chosen(group(heavy, *files(5, 400 * MIB)), strategy) == (heavy,)
    assert chosen(group(heavy, *files(9, 400 * MIB)), strategy) == ()


def test_nothing_is_chosen_from_an_empty_group():
    assert chosen(group()) == ()


def test_partitions_come_in_order_and_their_oldest_files_first():
    young = data_file("a", partition="p=2", sequence_number=9)
    old = data_file("z", partition="p=2", sequence_number=1)
    other = data_file("m", partition="p=1")
    assert group_by_partition([young, other, old]) == [
        FileGroup(key("p=1"), (other,)),
        FileGroup(key("p=2"), (old, young)),
    ]


@pytest.mark.parametrize(("size", "needed"), [(0, 0), (1, 1), (100, 1), (101, 2), (1000, 10)])
def test_files_needed_is_rounded_up(size, needed):
    assert count_files_needed(size, 100) == needed


def test_a_target_of_nothing_divides_by_nothing():
    assert count_files_needed(5, 0) == 5


sizes = st.lists(st.integers(0, 120), max_size=40)


@given(sizes, st.integers(1, 10))
def test_what_a_rewrite_leaves_behind_is_not_chosen_again(found, least):
    """The outputs of a rewrite are as even as they can be; choosing them again would never end."""
    rules = SelectionRules(target_file_bytes=100, small_file_bytes=60, min_input_files=least)
    members = [data_file(f"{place:03}", size) for place, size in enumerate(found)]
    picked = chosen(group(*members), rules=rules)
    total = sum(file.bytes for file in picked)
    count = count_files_needed(total, rules.target_file_bytes)
    written = [data_file(f"new-{place}", (total + place) // count) for place in range(count)]
    left = [file for file in members if file not in picked]
    assert len(written) <= len(picked)
    assert chosen(group(*left, *written), rules=rules) == ()


@given(sizes)
def test_only_members_are_chosen_each_once_and_in_their_order(found):
    members = tuple(data_file(f"{place:03}", size * MIB) for place, size in enumerate(found))
    picked = chosen(group(*members))
    assert picked == tuple(file for file in members if file in picked)
