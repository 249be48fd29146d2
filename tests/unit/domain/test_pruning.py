"""Which partitions a filter may mean: never fewer than it does."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.actions import Compact, PartitionSelection, Strategy
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.plan.pruning import may_match
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.units import MIB

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
DAYS = (date(2026, 1, 14) - date(1970, 1, 1)).days


def partition(value: object, transform: str = "identity", source: str = "c", **facts: object) -> PartitionStatus:
    return PartitionStatus(
        key=PartitionKey(0, f"{source}={value}"), values=(PartitionValue(source, transform, value),), **facts
    )


def matches(text: str, value: object, transform: str = "identity", source: str = "c") -> bool:
    return bool(may_match([partition(value, transform, source)], parse_filter(text, NOON)))


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
def test_a_value_is_judged_by_itself(text: str, value: object, expected: bool) -> None:
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
def test_a_period_is_judged_by_its_ends(text: str, transform: str, value: object, expected: bool) -> None:
    assert matches(text, value, transform) is expected


@given(
    low=st.integers(-50, 50), span=st.integers(0, 20), value=st.integers(-60, 60), operator=st.sampled_from(["<", ">="])
)
def test_no_partition_that_is_meant_is_left_out(low: int, span: int, value: int, operator: str) -> None:
    text = f"c between {low} and {low + span} and not c {operator} {value}"
    for held in range(low - 2, low + span + 3):
        meant = low <= held <= low + span and not (held < value if operator == "<" else held >= value)
        assert matches(text, held) is meant


def status(*partitions: PartitionStatus) -> TableStatus:
    from icepack.domain.table import TableId

    return TableStatus(
        table=TableId("lake", ("sales",), "orders"),
        observed_at=NOON,
        metadata_location="m",
        table_uuid="u",
        format_version=2,
        location="l",
        snapshot_id=1,
        partitions=partitions,
    )


def small(value: str, files: int = 40, **facts: object) -> PartitionStatus:
    size = files * 2 * MIB
    sizes = {"data_files": files, "bytes": size, "records": 100, "small_files": files, "small_bytes": size}
    return partition(value, **{**sizes, **facts})


def plan(action: Compact, *partitions: PartitionStatus) -> list[tuple[str, int]]:
    found = estimate_compaction(status(*partitions), action, CostModel(), NOON, open_grace=timedelta(hours=1))
    assert found.cost.dollars > 0 or not found.groups
    return [(group.partition.path, group.files) for group in found.groups]


def test_sick_partitions_are_planned_the_worst_first() -> None:
    assert plan(Compact(), small("a", 10), small("b", 80), small("c", 2)) == [("c=b", 80), ("c=a", 10)]


def test_a_filter_and_a_selection_narrow_the_plan() -> None:
    both = (small("a"), small("b"))
    assert plan(Compact(partition_filter="c = 'a'"), *both) == [("c=a", 40)]
    assert plan(Compact(partitions=(PartitionSelection(both[1].key, both[1].values),)), *both) == [("c=b", 40)]


def test_everything_is_rewritten_when_asked_to() -> None:
    assert plan(Compact(rewrite_all=True), small("a", 1)) == [("c=a", 1)]


def test_deletes_are_what_delete_files_looks_for() -> None:
    sick = small("a", 40, files_with_deletes=7, bytes_with_deletes=MIB, position_delete_files=3)
    assert plan(Compact(strategy=Strategy.DELETE_FILES), sick, small("b")) == [("c=a", 7)]


def test_open_partitions_are_left_to_their_writers() -> None:
    still_open = small("a", ends_at=NOON)
    found = estimate_compaction(
        status(still_open, small("b")),
        Compact(strategy=Strategy.TIME_SERIES),
        CostModel(),
        NOON,
        open_grace=timedelta(hours=1),
    )
    assert [key.path for key in found.skipped_open] == ["c=a"]
    assert [group.partition.path for group in found.groups] == ["c=b"]
