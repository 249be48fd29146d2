"""A compaction plan worked out from a table's status alone: partition by partition, without a look at its files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from icepack.domain.actions import Compact, Strategy
from icepack.domain.plan.compaction import CompactionPlan, PlannedGroup
from icepack.domain.plan.cost import CostEstimate, CostModel, price_rewrite
from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.files import PartitionKey
from icepack.domain.plan.pruning import may_match
from icepack.domain.plan.score import score_partition
from icepack.domain.plan.select import files_needed, nearly_full
from icepack.domain.status import PartitionStatus, TableStatus


def estimate_compaction(
    status: TableStatus, action: Compact, model: CostModel, now: datetime, *, open_grace: timedelta
) -> CompactionPlan:
    """One group for each partition that would be rewritten, the most urgent first; no group names its files."""
    target = action.target_file_bytes or status.target_file_bytes
    chosen = _chosen(status, action, now)
    still_open = [
        partition.key
        for partition in chosen
        if action.strategy is Strategy.TIME_SERIES and _is_open(partition, now, open_grace)
    ]
    closed = [partition for partition in chosen if partition.key not in still_open]
    closed.sort(key=lambda partition: (-score_partition(partition, now).total, partition.key))
    groups = [group for partition in closed if (group := _group(partition, action, target, model)) is not None]
    return CompactionPlan(
        snapshot_id=status.snapshot_id,
        strategy=action.strategy,
        target_file_bytes=target,
        groups=tuple(groups),
        skipped_open=tuple(still_open),
        cost=_total(groups, model),
    )


def _chosen(status: TableStatus, action: Compact, now: datetime) -> list[PartitionStatus]:
    """The partitions that the action is about."""
    wanted: set[PartitionKey] = {partition.key for partition in status.partitions}
    if action.partition_filter:
        wanted &= may_match(status.partitions, parse_filter(action.partition_filter, now))
    if action.partitions:
        wanted &= {selection.key for selection in action.partitions}
    return [partition for partition in status.partitions if partition.key in wanted]


def _is_open(partition: PartitionStatus, now: datetime, grace: timedelta) -> bool:
    return partition.ends_at is not None and now - grace < partition.ends_at


def _group(partition: PartitionStatus, action: Compact, target: int, model: CostModel) -> PlannedGroup | None:
    files, size, deletes = _rewritten(partition, action, target)
    if not files:
        return None
    out = files_needed(size, target)
    return PlannedGroup(
        partition=partition.key,
        files=files,
        delete_files=deletes,
        bytes=size,
        records=partition.records * files // max(partition.data_files, 1),
        files_out=out,
        paths=(),
        cost=price_rewrite(model, files_in=files, delete_files_in=deletes, bytes_in=size, files_out=out),
    )


def _rewritten(partition: PartitionStatus, action: Compact, target: int) -> tuple[int, int, int]:
    """Files, bytes and delete files that go in."""
    if action.rewrite_all:
        return partition.data_files, partition.bytes, partition.delete_files
    files, size = _merged(partition, action, target)
    if not _applies_deletes(partition, action):
        return files, size, 0
    return (
        max(files, partition.files_with_deletes),
        max(size, partition.bytes_with_deletes),
        partition.delete_files,
    )


def _merged(partition: PartitionStatus, action: Compact, target: int) -> tuple[int, int]:
    if action.strategy is Strategy.DELETE_FILES:
        return 0, 0
    files, size = partition.small_files, partition.small_bytes
    if (action.small_file_bytes or 0) >= nearly_full(target):
        files, size = partition.data_files, partition.bytes
    enough = files >= action.min_input_files or (files > 1 and size >= target)
    return (files, size) if enough and files > files_needed(size, target) else (0, 0)


def _applies_deletes(partition: PartitionStatus, action: Compact) -> bool:
    if not partition.files_with_deletes:
        return False
    return action.strategy is Strategy.DELETE_FILES or action.delete_file_threshold is not None


def _total(groups: Sequence[PlannedGroup], model: CostModel) -> CostEstimate:
    if not groups:
        return CostEstimate()
    return price_rewrite(
        model,
        files_in=sum(group.files for group in groups),
        delete_files_in=sum(group.delete_files for group in groups),
        bytes_in=sum(group.bytes for group in groups),
        files_out=sum(group.files_out for group in groups),
    )
