"""Plans that are estimated from the status of a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from icepack.domain.actions import Compact, PartitionSelection, Strategy
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.table import TableId
from icepack.domain.units import MIB

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)


def status(*partitions: PartitionStatus) -> TableStatus:
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
    values = (PartitionValue("c", "identity", value),)
    return PartitionStatus(key=PartitionKey(0, f"c={value}"), values=values, **{**sizes, **facts})


def plan(action: Compact, *partitions: PartitionStatus) -> list[tuple[str, int]]:
    found = estimate_compaction(status(*partitions), action, CostModel(), NOON, open_grace=timedelta(hours=1))
    assert found.cost.dollars > 0 or not found.groups
    return [(group.partition.path, group.files) for group in found.groups]


def test_unhealthy_partitions_are_planned_worst_first() -> None:
    assert plan(Compact(), small("a", 10), small("b", 80), small("c", 2)) == [("c=b", 80), ("c=a", 10)]


def test_a_filter_and_a_selection_narrow_the_plan() -> None:
    both = (small("a"), small("b"))
    assert plan(Compact(partition_filter="c = 'a'"), *both) == [("c=a", 40)]
    assert plan(Compact(partitions=(PartitionSelection(both[1].key, both[1].values),)), *both) == [("c=b", 40)]


def test_everything_is_rewritten_when_asked_to() -> None:
    assert plan(Compact(rewrite_all=True), small("a", 1)) == [("c=a", 1)]


def test_the_delete_files_strategy_plans_files_with_deletes() -> None:
    heavy = small("a", 40, files_with_deletes=7, bytes_with_deletes=MIB, position_delete_files=3)
    assert plan(Compact(strategy=Strategy.DELETE_FILES), heavy, small("b")) == [("c=a", 7)]


def test_open_partitions_are_skipped() -> None:
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
