from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import NOW
from icepack.domain.units import (
    FOREVER,
    GIB,
    KIB,
    MIB,
    format_count,
    format_duration,
    format_size,
    from_milliseconds,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("32MB", 32 * MIB),
        ("1GB", GIB),
        ("1 gib", GIB),
        (" 1.5 kb ", 1536),
        ("2TiB", 2048 * GIB),
        ("7", 7),
        (7, 7),
        ("0", 0),
        ("12B", 12),
    ],
)
def test_sizes_are_read_in_powers_of_1024(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1 parsec", "1MB2", "1e3", "abc", True, "9" * 400 + "GB"])
def test_a_bad_size_is_a_value_error_that_names_it(text):
    with pytest.raises(ValueError) as refused:
        parse_size(text)
    assert f"'{text}' is" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("7d", timedelta(days=7)),
        ("12h", timedelta(hours=12)),
        ("30m", timedelta(minutes=30)),
        ("45s", timedelta(seconds=45)),
        ("250ms", timedelta(milliseconds=250)),
        ("1.5 D", timedelta(hours=36)),
        ("2w", timedelta(days=14)),
        ("0s", timedelta()),
        ("365000d", FOREVER),
        (timedelta(days=3), timedelta(days=3)),
    ],
)
def test_durations_are_read_with_their_unit(text, span):
    assert parse_duration(text) == span


@pytest.mark.parametrize("text", ["7", 7, "", "d", "-7d", "7 fortnights", "999999999d", "9" * 400 + "d"])
def test_a_bad_or_endless_duration_is_a_value_error(text):
    with pytest.raises(ValueError) as refused:
        parse_duration(text)
    assert f"'{text}' is" in str(refused.value)


@given(st.text(max_size=12))
def test_reading_any_text_as_a_quantity_raises_nothing_but_value_errors(text):
    for read in (parse_size, parse_duration):
        try:
            assert read(text) >= type(read(text))()
        except ValueError as refused:
            assert text in str(refused)


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63)])
def test_an_endless_iceberg_duration_can_be_subtracted_from_a_date(milliseconds):
    assert abs(from_milliseconds(milliseconds)) == FOREVER
    assert NOW - from_milliseconds(2**63 - 1) < NOW


def test_milliseconds_become_a_duration():
    assert from_milliseconds(604_800_000) == timedelta(days=7)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1023.7, "1.0 KB"),
        (KIB, "1.0 KB"),
        (4.2 * MIB, "4.2 MB"),
        (MIB - 1, "1.0 MB"),
        (3 * GIB, "3.0 GB"),
        (5000 * GIB, "4.9 TB"),
        (-2 * MIB, "-2.0 MB"),
    ],
)
def test_sizes_are_shown_in_the_largest_unit_that_fits(size, text):
    assert format_size(size) == text


@given(st.floats(0, 1e15))
def test_a_shown_size_below_a_terabyte_is_below_1024_units(size):
    number, unit = format_size(size).split()
    assert float(number) < 1024 or unit == "TB"


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (0.42, "0.4s"),
        (timedelta(seconds=45), "45s"),
        (timedelta(minutes=2, seconds=5), "2m 5s"),
        (timedelta(days=3, hours=4, minutes=5), "3d 4h"),
        (timedelta(days=7), "7d"),
        (3600.9, "1h"),
    ],
)
def test_durations_are_shown_in_their_two_largest_units(span, text):
    assert format_duration(span) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 entries"), (1, "1 entry"), (2, "2 entries"), (1200, "1,200 entries")]
)
def test_counts_are_shown_with_singular_or_plural(count, text):
    assert format_count(count, "entry", "entries") == text


def test_the_plural_adds_an_s_by_default():
    assert (format_count(1, "file"), format_count(2, "file")) == ("1 file", "2 files")
