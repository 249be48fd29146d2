from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from icepack.domain.plan.binpack import first_fit_decreasing

files = st.lists(st.integers(0, 120), max_size=40).map(
    lambda sizes: [(size, f"{n:02}") for n, size in enumerate(sizes)]
)
limits = st.integers(0, 100)


def pack(items, limit):
    return first_fit_decreasing(items, limit, size=lambda file: file[0], tie=lambda file: file[1])


def first_fit_reference(items, limit):
    """The textbook algorithm, which loops over all bins."""
    bins = []
    for item in sorted(items, key=lambda file: (-file[0], file[1])):
        fitting = [members for members in bins if sum(size for size, _ in members) + item[0] <= limit]
        if fitting:
            fitting[0].append(item)
        else:
            bins.append([item])
    return [tuple(members) for members in bins]


@given(files, limits)
def test_every_file_is_in_exactly_one_group(items, limit):
    assert Counter(file for group in pack(items, limit) for file in group) == Counter(items)


@given(files, limits)
@example([(120, "large"), (0, "empty")], 100)
def test_no_group_is_over_its_limit_unless_it_is_one_file_that_is(items, limit):
    for group in pack(items, limit):
        assert sum(size for size, _ in group) <= limit or len(group) == 1


@given(files, limits, st.randoms())
def test_the_groups_do_not_depend_on_the_order_of_the_files(items, limit, random):
    shuffled = list(items)
    random.shuffle(shuffled)
    assert pack(shuffled, limit) == pack(items, limit)


@given(files, limits)
def test_the_tree_finds_the_same_bins_as_the_textbook_loop(items, limit):
    assert pack(items, limit) == first_fit_reference(items, limit)


@given(files, st.integers(1, 100))
def test_no_two_groups_could_have_been_one(items, limit):
    sizes = [sum(size for size, _ in group) for group in pack(items, limit)]
    assert all(left + right > limit for place, left in enumerate(sizes) for right in sizes[place + 1 :])


def test_the_largest_files_come_first():
    assert pack([(3, "a"), (9, "b"), (7, "c"), (1, "d")], 10) == [((9, "b"), (1, "d")), ((7, "c"), (3, "a"))]


def test_no_files_make_no_groups():
    assert pack([], 10) == []


def test_ten_thousand_files_are_packed():
    assert sum(map(len, pack([(number % 97, str(number)) for number in range(10_000)], 500))) == 10_000
