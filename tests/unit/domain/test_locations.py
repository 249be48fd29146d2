from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.locations import is_inside, locations_overlap, normalize_location

locations = st.builds(
    lambda scheme, parts: f"{scheme}{'/'.join(parts)}",
    st.sampled_from(["s3://b/", "s3a://b/", "S3N://b/", "file:///", "file:/", "/", "gs://b/", "abfss://c@a/"]),
    st.lists(st.text("ab é.%", min_size=1, max_size=3), max_size=4),
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3a://b/x/", "s3://b/x"),
        ("s3n://b/x", "S3://b/x"),
        ("s3://b//x", "s3://b/x"),
        ("file:/w/x", "/w/x"),
        ("file:///w/x/", "file:/w//x"),
        ("/w/y/../x", "/w/x"),
        ("/w/./x", "file:///w/x"),
        ("abfss://c@a/x", "abfs://c@a/x"),
        ("hdfs://nn/x/", "hdfs://nn/x"),
    ],
)
def test_two_spellings_of_one_place_are_one_place(one, other):
    assert normalize_location(one) == normalize_location(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("s3://b/x", "s3://b/X"), ("s3://b/x", "gs://b/x"), ("s3://b/x", "s3://c/x"), ("/w/x", "s3://w/x")],
)
def test_different_places_stay_different(one, other):
    assert normalize_location(one) != normalize_location(other)
    assert not locations_overlap(one, other)


def test_a_place_is_inside_itself_and_its_parents_and_no_namesake():
    assert is_inside("s3a://b/w/t", "s3://b/w/t/")
    assert is_inside("/w/t/data", "file:/w/t")
    assert not is_inside("/w/t", "/w/t/data")
    assert not is_inside("/w/table2", "/w/table")
    assert is_inside("/w/t", "/")


def test_two_places_overlap_when_either_lies_in_the_other():
    assert locations_overlap("/w/t", "/w/t/nested")
    assert locations_overlap("/w/t/nested", "/w/t")
    assert not locations_overlap("/w/t", "/w/u")


@given(locations)
def test_the_one_spelling_of_a_place_is_its_own(location):
    assert normalize_location(normalize_location(location)) == normalize_location(location)


@given(locations, st.text("ab", min_size=1, max_size=3))
def test_what_lies_below_a_place_is_inside_it(location, name):
    assert is_inside(f"{location}/{name}", location)
    assert locations_overlap(location, f"{location}/{name}")
