from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import DAY, HOUR, NOW, data_file, key
from icepack.domain.actions import Compact, Strategy
from icepack.domain.plan.compaction import CompactionPlan, is_open, plan_action, plan_compaction
from icepack.domain.plan.cost import CostEstimate, CostModel
from icepack.domain.plan.files import FileListing
from icepack.domain.plan.select import SelectionRules
from icepack.domain.serialization import from_json, from_json_text, to_json, to_json_text
from icepack.domain.units import MIB

RULES = SelectionRules(target_file_bytes=512 * MIB)


def listing(*files, ends=None):
    return FileListing(snapshot_id=7, files=files, partition_ends=ends or {})


def plan(found, strategy=Strategy.SMALL_FILES, **facts):
    defaults = {"rules": RULES, "model": CostModel(), "now": NOW}
    return plan_compaction(found, strategy=strategy, **defaults | facts)


def small(count, partition="", size=MIB):
    return [data_file(f"{partition}/{number:05}", size, partition=partition) for number in range(count)]


ENDS = [NOW - 3 * DAY, NOW - DAY, NOW, NOW + DAY]
facts = st.tuples(st.integers(0, 100), st.sampled_from(["d=1", "d=2", "d=3", ""]), st.integers(1, 5), st.integers(0, 2))
listings = st.builds(
    lambda rows, ends: listing(*(any_file(number, *row) for number, row in enumerate(rows)), ends=ends),
    st.lists(facts, max_size=30),
    st.dictionaries(st.sampled_from([key(f"d={day}") for day in (1, 2, 3)]), st.sampled_from(ENDS)),
)


def any_file(number, size_mb, partition, sequence, deletes):
    return data_file(
        f"f{number:03}",
        size_mb * MIB,
        partition=partition,
        sequence_number=sequence,
        position_delete_files=deletes,
    )


@given(listings, st.sampled_from(Strategy))
def test_every_planned_file_is_in_exactly_one_group_of_its_own_partition(found, strategy):
    partition_of = {file.path: file.partition for file in found.files}
    made = plan(found, strategy)
    assert max(Counter(path for group in made.groups for path in group.paths).values(), default=1) == 1
    for group in made.groups:
        assert {partition_of[path] for path in group.paths} == {group.partition}
        assert group.files == len(group.paths)


@given(listings, st.sampled_from(Strategy), st.integers(1, 200))
def test_no_group_is_over_its_limit_unless_it_is_one_file_that_is(found, strategy, limit_mb):
    made = plan(found, strategy, max_group_bytes=limit_mb * MIB)
    assert all(group.bytes <= limit_mb * MIB or group.files == 1 for group in made.groups)


@given(listings, st.sampled_from(Strategy), st.randoms())
def test_the_plan_does_not_depend_on_the_order_of_the_files(found, strategy, random):
    shuffled = list(found.files)
    random.shuffle(shuffled)
    assert plan(listing(*shuffled, ends=found.partition_ends), strategy) == plan(found, strategy)


@given(listings)
def test_a_time_series_plan_goes_from_the_newest_closed_partition_back(found):
    made = plan(found, Strategy.TIME_SERIES)
    ends = [found.partition_ends[g.partition] for g in made.groups if g.partition in found.partition_ends]
    assert ends == sorted(ends, reverse=True)
    assert all(end + HOUR <= NOW for end in ends)
    assert not {group.partition for group in made.groups} & set(made.skipped_open)


def test_time_series_skips_open_partitions_and_lists_them():
    days = [key(f"d={day}") for day in (1, 2, 3)]
    ends = dict(zip(days, [NOW - 2 * DAY, NOW - DAY, NOW + HOUR], strict=True))
    files = [file for day in days for file in small(5, day.path)]
    made = plan(listing(*files, ends=ends), Strategy.TIME_SERIES)
    assert [group.partition.path for group in made.groups] == ["d=2", "d=1"]
    assert made.skipped_open == (key("d=3"),)


def test_partitions_without_a_period_come_last():
    files = small(5, "region=eu") + small(5, "d=1")
    made = plan(listing(*files, ends={key("d=1"): NOW - DAY}), Strategy.TIME_SERIES)
    assert [group.partition.path for group in made.groups] == ["d=1", "region=eu"]


def test_the_other_strategies_include_open_partitions():
    made = plan(listing(*small(5, "d=1"), ends={key("d=1"): NOW + DAY}))
    assert (len(made.groups), made.skipped_open) == (1, ())


def test_the_fullest_partition_comes_first():
    made = plan(listing(*small(5, "a"), *small(9, "b"), *small(5, "c")))
    assert [group.partition.path for group in made.groups] == ["b", "a", "c"]


@pytest.mark.parametrize(("ended", "expected"), [(HOUR, False), (HOUR - timedelta(seconds=1), True), (-DAY, True)])
def test_a_partition_closes_when_its_period_and_the_grace_time_are_over(ended, expected):
    assert is_open(key("d=1"), {key("d=1"): NOW - ended}, NOW, HOUR) is expected


def test_a_partition_without_a_period_is_never_open():
    assert not is_open(key("d=1"), {}, NOW, HOUR)


def test_a_partition_at_the_end_of_time_is_open_and_does_not_overflow():
    assert is_open(key("d=1"), {key("d=1"): datetime(9999, 12, 31, 23, 59, tzinfo=UTC)}, NOW, DAY)


def test_a_plan_sums_up_its_groups():
    made = plan(listing(*small(6, "a"), *small(5, "b")))
    assert (made.snapshot_id, made.files_in, made.files_out, made.bytes_in) == (7, 11, 2, 11 * MIB)
    assert made.cost.get_requests == sum(group.cost.get_requests for group in made.groups)
    assert made.cost.compute_seconds == pytest.approx(sum(group.cost.compute_seconds for group in made.groups))
    assert made.cost.duration_seconds < sum(group.cost.duration_seconds for group in made.groups)


def test_a_plan_advises_on_lambda_if_there_is_anything_to_compact():
    advice = plan(listing(*small(6))).lambda_advice(None)
    assert advice is not None
    assert (advice.fits, advice.memory_mb) == (True, 512)
    assert plan(listing()).lambda_advice(None) is None


def test_a_plan_says_that_it_is_an_estimate():
    assert plan(listing()).estimated


def test_nothing_to_do_costs_nothing():
    made = plan(listing(*small(2)))
    assert made.groups == ()
    assert made.cost == CostEstimate()


def test_large_partitions_are_split_into_groups():
    made = plan(listing(*small(10, size=20 * MIB)), max_group_bytes=100 * MIB)
    assert [group.bytes for group in made.groups] == [100 * MIB, 100 * MIB]


@given(listings, st.sampled_from(Strategy))
def test_a_plan_survives_json(found, strategy):
    made = plan(found, strategy)
    assert from_json(CompactionPlan, to_json(made)) == made
    assert from_json_text(CompactionPlan, to_json_text(made)) == made


def test_ten_thousand_files_are_planned_in_well_under_a_second():
    files = [
        data_file(f"{number:05}", (number % 60) * MIB, partition=f"d={number % 100}", position_delete_files=number % 2)
        for number in range(10_000)
    ]
    started = process_time()
    assert plan(listing(*files)).files_in > 0
    assert process_time() - started < 1


@pytest.mark.parametrize(
    ("action", "taken"),
    [
        (Compact(), 8),
        (Compact(target_file_bytes=64 * MIB), 0),
        (Compact(options={"target-file-size-bytes": str(64 * MIB)}), 0),
        (Compact(small_file_bytes=32 * MIB), 0),
        (Compact(options={"min-file-size-bytes": str(10 * MIB)}), 0),
        (Compact(options={"min-input-files": "9"}), 0),
        (Compact(options={"min-input-files": "9", "rewrite-all": "true"}), 8),
    ],
)
def test_the_sizes_of_the_action_win_and_the_small_size_follows_the_target(action, taken):
    """Files that are full at the size asked for are not small, whatever the table's own target."""
    found = listing(*small(8, size=60 * MIB))
    made = plan_action(action, found, defaults=replace(RULES, small_file_bytes=384 * MIB), now=NOW)
    assert sum(group.files for group in made.groups) == taken
