"""Partition pruning never removes a partition that the filter matches."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.plan.pruning import find_matching_partitions
from icepack.domain.status import PartitionStatus

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
DAYS = (date(2026, 1, 14) - date(1970, 1, 1)).days


def partition(value: object, transform: str = "identity", source: str = "c", **facts: object) -> PartitionStatus:
    return PartitionStatus(
        key=PartitionKey(0, f"{source}={value}"), values=(PartitionValue(source, transform, value),), **facts
    )


def matches(text: str, value: object, transform: str = "identity", source: str = "c") -> bool:
    return bool(find_matching_partitions([partition(value, transform, source)], parse_filter(text, NOON)))


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("c = 'eu'", "eu", True),
        ("c = 'eu'", "us", False),
        ("c != 'eu'", "eu", False),
        ("c in ('eu', 'us')", "us", True),
        ("c in ('eu', 'us')", "jp", False),
        ("not c = 'eu'", "eu", False),
        ("c like 'e%'", "eu", True),
        ("c like 'e%'", "us", False),
        ("c > 3 and c <= 5", 5, True),
        ("c > 3 and c <= 5", 3, False),
        ("c < 3 or c >= 5", 4, False),
        ("c is null", None, True),
        ("c is null", "eu", False),
        ("c is not null", None, False),
        ("c = true", True, True),
        ("c = true", False, False),
        ("c >= '2026-01-10'", "2026-01-14", True),
        ("c >= current_date - 7", "2026-01-14", True),
        ("c >= current_date - 7", "2026-01-01", False),
        ("c between date '2026-01-01' and date '2026-01-31'", "2026-02-01", False),
        ("other = 1", "eu", True),
        ("c = 1", "eu", True),
        ("c = 1", True, True),
        ("c = date '2026-01-01'", 7, True),
        ("c = date '2026-01-01'", "no date", True),
        ("c = 'eu'", None, True),
    ],
)
def test_a_partition_value_decides(text: str, value: object, expected: bool) -> None:
    assert matches(text, value) is expected


@pytest.mark.parametrize(
    ("text", "transform", "value", "expected"),
    [
        ("c = '2026-01-14'", "day", DAYS, True),
        ("c = '2026-01-15'", "day", DAYS, False),
        ("c >= timestamp '2026-01-14T23:00:00'", "day", DAYS, True),
        ("c < timestamp '2026-01-14T00:00:00'", "day", DAYS, False),
        ("c != '2026-01-14'", "day", DAYS, True),
        ("c = '2026-01-14'", "day", "2026-01-14", True),
        ("c > '2026-02-01'", "month", 56 * 12, False),
        ("c > '2026-01-31'", "month", 56 * 12, True),
        ("c < '2026-01-01'", "year", 56, False),
        ("c >= timestamp '2026-01-14T05:30:00'", "hour", DAYS * 24 + 5, True),
        ("c >= timestamp '2026-01-14T06:00:00'", "hour", DAYS * 24 + 5, False),
        ("c = 7", "bucket[16]", 3, True),
        ("c = '2026'", "year", 10**6, True),
        ("c is null", "bucket[16]", None, True),
    ],
)
def test_the_bounds_of_a_period_decide(text: str, transform: str, value: object, expected: bool) -> None:
    assert matches(text, value, transform) is expected


@given(
    low=st.integers(-50, 50), span=st.integers(0, 20), value=st.integers(-60, 60), operator=st.sampled_from(["<", ">="])
)
def test_no_matching_partition_is_left_out(low: int, span: int, value: int, operator: str) -> None:
    text = f"c between {low} and {low + span} and not c {operator} {value}"
    for held in range(low - 2, low + span + 3):
        expected = low <= held <= low + span and not (held < value if operator == "<" else held >= value)
        assert matches(text, held) is expected
