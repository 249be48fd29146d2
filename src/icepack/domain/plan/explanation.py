"""Explains in one sentence per partition why a compaction includes it or leaves it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from icepack.domain.actions import Compact, Strategy
from icepack.domain.plan.compaction import CompactionPlan, PlannedGroup
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.files import PartitionKey
from icepack.domain.plan.select import count_files_needed
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.units import format_count, format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExplanation:
    """Whether the plan includes a partition, and why; an estimate, like the plan itself."""

    planned: bool
    reason: str


def explain_partitions(
    status: TableStatus, action: Compact, model: CostModel, now: datetime, *, open_grace: timedelta
) -> Mapping[PartitionKey, PartitionExplanation]:
    plan = estimate_compaction(status, action, model, now, open_grace=open_grace)
    groups = {group.partition: group for group in plan.groups}
    return {
        partition.key: _explain_included(partition, groups[partition.key])
        if partition.key in groups
        else PartitionExplanation(planned=False, reason=_explain_excluded(partition, action, plan))
        for partition in status.partitions
    }


def _explain_included(partition: PartitionStatus, group: PlannedGroup) -> PartitionExplanation:
    verb = "becomes" if group.files == 1 else "become"
    merged = f"{group.files:,} of {format_count(partition.data_files, 'file')} {verb} {group.files_out:,}"
    deletes = f"; {format_count(group.delete_files, 'delete file')} can be applied" if group.delete_files else ""
    return PartitionExplanation(planned=True, reason=f"{merged}{deletes}.")


def _explain_excluded(partition: PartitionStatus, action: Compact, plan: CompactionPlan) -> str:
    if not partition.data_files:
        return "No data files."
    if partition.key in plan.skipped_open and partition.ends_at is not None:
        return f"Still being written: its period ends at {partition.ends_at:%Y-%m-%d %H:%M} UTC."
    if partition.small_files < action.min_input_files and action.strategy is not Strategy.DELETE_FILES:
        found = format_count(partition.small_files, "small file")
        return f"{found}, fewer than the minimum of {action.min_input_files:,} (min_input_files)."
    if action.strategy is Strategy.DELETE_FILES and not partition.files_with_deletes:
        return "No files with deletes."
    if count_files_needed(partition.small_bytes, plan.target_file_bytes) >= partition.small_files:
        return f"Merging small files into files of {format_size(plan.target_file_bytes)} would not leave fewer files."
    return "Excluded by the partition filter or the cost limit (max_cost)."
