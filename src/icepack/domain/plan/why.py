"""Why a compaction takes this partition and not that one, in one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from icepack.domain.actions import Compact, Strategy
from icepack.domain.plan.compaction import CompactionPlan, PlannedGroup
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.files import PartitionKey
from icepack.domain.plan.select import files_needed
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.units import format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """Whether the plan takes a partition, and why; an estimate, like the plan itself."""

    planned: bool
    reason: str


def partition_verdicts(
    status: TableStatus, action: Compact, model: CostModel, now: datetime, *, open_grace: timedelta
) -> Mapping[PartitionKey, PartitionVerdict]:
    plan = estimate_compaction(status, action, model, now, open_grace=open_grace)
    groups = {group.partition: group for group in plan.groups}
    return {
        partition.key: _taken(partition, groups[partition.key])
        if partition.key in groups
        else PartitionVerdict(planned=False, reason=_left(partition, action, plan))
        for partition in status.partitions
    }


def _taken(partition: PartitionStatus, group: PlannedGroup) -> PartitionVerdict:
    said = f"{group.files:,} of its {partition.data_files:,} files become {group.files_out:,}"
    deletes = f", and {group.delete_files:,} delete files are applied for good" if group.delete_files else ""
    return PartitionVerdict(planned=True, reason=f"{said}{deletes}.")


def _left(partition: PartitionStatus, action: Compact, plan: CompactionPlan) -> str:
    if not partition.data_files:
        return "It has no data files."
    if partition.key in plan.skipped_open and partition.ends_at is not None:
        return f"It is still being written: the time it covers ends at {partition.ends_at:%Y-%m-%d %H:%M} UTC."
    if partition.small_files < action.min_input_files and action.strategy is not Strategy.DELETE_FILES:
        found = "one small file" if partition.small_files == 1 else f"{partition.small_files:,} small files"
        return f"It has {found}; fewer than {action.min_input_files:,} are left to grow."
    if action.strategy is Strategy.DELETE_FILES and not partition.files_with_deletes:
        return "None of its files has deletes."
    if files_needed(partition.small_bytes, plan.target_file_bytes) >= partition.small_files:
        return f"Its small files could not be fewer at {format_size(plan.target_file_bytes)} each."
    return "Its turn comes later: the filter, or what a run may cost, leaves it out for now."
