"""Estimates a compaction plan from a table's status alone, partition by partition, without listing its files."""

from __future__ import annotations

from datetime import datetime, timedelta

from icepack.domain.actions import Compact, Strategy
from icepack.domain.plan.compaction import CompactionPlan, PlannedGroup, estimate_total_cost
from icepack.domain.plan.cost import CostModel, estimate_rewrite_cost
from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.files import PartitionKey
from icepack.domain.plan.pruning import find_matching_partitions
from icepack.domain.plan.score import score_partition
from icepack.domain.plan.select import compute_nearly_full_bytes, count_files_needed
from icepack.domain.status import PartitionStatus, TableStatus


def estimate_compaction(
    status: TableStatus, action: Compact, model: CostModel, now: datetime, *, open_grace: timedelta
) -> CompactionPlan:
    """Plans one group per partition, highest score first; the groups do not name their files."""
    target = action.target_file_bytes or status.target_file_bytes
    selected = _select_partitions(status, action, now)
    still_open = [
        partition.key
        for partition in selected
        if action.strategy is Strategy.TIME_SERIES and partition.is_open(now, open_grace)
    ]
    closed = [partition for partition in selected if partition.key not in still_open]
    closed.sort(key=lambda partition: (-score_partition(partition, now).total, partition.key))
    groups = [group for partition in closed if (group := _plan_group(partition, action, target, model)) is not None]
    return CompactionPlan(
        snapshot_id=status.snapshot_id,
        strategy=action.strategy,
        target_file_bytes=target,
        groups=tuple(groups),
        skipped_open=tuple(still_open),
        cost=estimate_total_cost(groups, model),
    )


def _select_partitions(status: TableStatus, action: Compact, now: datetime) -> list[PartitionStatus]:
    """Returns the partitions that match the action's filter and its list of partitions."""
    wanted: set[PartitionKey] = {partition.key for partition in status.partitions}
    if action.partition_filter:
        wanted &= find_matching_partitions(status.partitions, parse_filter(action.partition_filter, now))
    if action.partitions:
        wanted &= {selection.key for selection in action.partitions}
    return [partition for partition in status.partitions if partition.key in wanted]


def _plan_group(partition: PartitionStatus, action: Compact, target: int, model: CostModel) -> PlannedGroup | None:
    files, size, deletes = _count_inputs(partition, action, target)
    if not files:
        return None
    out = count_files_needed(size, target)
    return PlannedGroup(
        partition=partition.key,
        files=files,
        delete_files=deletes,
        bytes=size,
        records=partition.records * files // max(partition.data_files, 1),
        files_out=out,
        paths=(),
        cost=estimate_rewrite_cost(model, files_in=files, delete_files_in=deletes, bytes_in=size, files_out=out),
    )


def _count_inputs(partition: PartitionStatus, action: Compact, target: int) -> tuple[int, int, int]:
    """Returns the files, bytes and delete files that the rewrite reads."""
    if action.rewrite_all:
        return partition.data_files, partition.bytes, partition.delete_files
    files, size = _count_merged(partition, action, target)
    if not _applies_deletes(partition, action):
        return files, size, 0
    return (
        max(files, partition.files_with_deletes),
        max(size, partition.bytes_with_deletes),
        partition.delete_files,
    )


def _count_merged(partition: PartitionStatus, action: Compact, target: int) -> tuple[int, int]:
    if action.strategy is Strategy.DELETE_FILES:
        return 0, 0
    files, size = partition.small_files, partition.small_bytes
    if (action.small_file_bytes or 0) >= compute_nearly_full_bytes(target):
        files, size = partition.data_files, partition.bytes
    enough = files >= action.min_input_files or (files > 1 and size >= target)
    return (files, size) if enough and files > count_files_needed(size, target) else (0, 0)


def _applies_deletes(partition: PartitionStatus, action: Compact) -> bool:
    if not partition.files_with_deletes:
        return False
    return action.strategy is Strategy.DELETE_FILES or action.delete_file_threshold is not None
