"""The compaction plan: which files are rewritten, in which groups and order, and at what cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

from icepack.domain.actions import Compact, Strategy
from icepack.domain.plan.binpack import first_fit_decreasing
from icepack.domain.plan.cost import CostEstimate, CostModel, estimate_rewrite_cost
from icepack.domain.plan.files import DataFile, FileListing, PartitionKey, PartitionValue
from icepack.domain.plan.lambda_advice import LambdaAdvice, advise_lambda
from icepack.domain.plan.select import (
    FileGroup,
    SelectionRules,
    compute_nearly_full_bytes,
    count_files_needed,
    group_by_partition,
    select_files,
)
from icepack.domain.units import GIB

# The default of Iceberg's max-file-group-size-bytes.
MAX_GROUP_BYTES = 100 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """A group of files that is rewritten and can be committed on its own."""

    partition: PartitionKey
    files: int
    delete_files: int
    bytes: int
    records: int
    files_out: int
    paths: tuple[str, ...]
    cost: CostEstimate
    values: tuple[PartitionValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The groups in the order in which they run; Spark's procedure plans again, so for it they are an estimate."""

    snapshot_id: int | None
    strategy: Strategy
    target_file_bytes: int
    groups: tuple[PlannedGroup, ...]
    skipped_open: tuple[PartitionKey, ...]
    cost: CostEstimate
    estimated: bool = True

    @property
    def files_in(self) -> int:
        return sum(group.files for group in self.groups)

    @property
    def files_out(self) -> int:
        return sum(group.files_out for group in self.groups)

    @property
    def bytes_in(self) -> int:
        return sum(group.bytes for group in self.groups)

    def lambda_advice(self, runs_every: timedelta | None) -> LambdaAdvice | None:
        """Advises whether the compaction fits in AWS Lambda; None if there is nothing to compact."""
        if not self.groups:
            return None
        return advise_lambda(self.bytes_in, timedelta(seconds=self.cost.duration_seconds), runs_every)


def plan_compaction(
    listing: FileListing,
    *,
    strategy: Strategy,
    rules: SelectionRules,
    model: CostModel,
    now: datetime,
    open_grace: timedelta = timedelta(hours=1),
    max_group_bytes: int = MAX_GROUP_BYTES,
) -> CompactionPlan:
    """Plans a compaction; the same files give the same plan, in whatever order they are listed."""
    groups: list[PlannedGroup] = []
    skipped: list[PartitionKey] = []
    for candidate in _sort_groups(group_by_partition(listing.files), strategy, listing.partition_ends):
        if strategy is Strategy.TIME_SERIES and is_open(candidate.partition, listing.partition_ends, now, open_grace):
            skipped.append(candidate.partition)
            continue
        chosen = select_files(candidate, strategy, rules)
        packed = _pack(candidate.partition, chosen, rules, model, max_group_bytes)
        values = listing.partition_values.get(candidate.partition, ())
        groups.extend(replace(group, values=values) for group in packed)
    return CompactionPlan(
        snapshot_id=listing.snapshot_id,
        strategy=strategy,
        target_file_bytes=rules.target_file_bytes,
        groups=tuple(groups),
        skipped_open=tuple(skipped),
        cost=estimate_total_cost(groups, model),
    )


def plan_action(
    action: Compact,
    listing: FileListing,
    *,
    defaults: SelectionRules,
    now: datetime,
    model: CostModel | None = None,
    open_grace: timedelta = timedelta(0),
) -> CompactionPlan:
    """Plans what a compaction with these parameters rewrites; `defaults` apply where the action sets nothing."""
    keys = {selection.key for selection in action.partitions}
    if keys:
        listing = replace(listing, files=tuple(file for file in listing.files if file.partition in keys))
    return plan_compaction(
        listing,
        strategy=action.strategy,
        rules=_merge_rules(action, defaults),
        model=model or CostModel(),
        now=now,
        open_grace=open_grace,
    )


def _merge_rules(action: Compact, defaults: SelectionRules) -> SelectionRules:
    """Iceberg's options win over the action's parameters, and those win over the defaults."""
    options = action.options
    target = int(options.get("target-file-size-bytes", action.target_file_bytes or defaults.target_file_bytes))
    small = defaults.small_file_bytes if target == defaults.target_file_bytes else compute_nearly_full_bytes(target)
    threshold = options.get("delete-file-threshold", action.delete_file_threshold)
    return replace(
        defaults,
        target_file_bytes=target,
        small_file_bytes=int(options.get("min-file-size-bytes", action.small_file_bytes or small)),
        max_delete_ratio=inf if threshold is None else defaults.max_delete_ratio,
        min_input_files=int(options.get("min-input-files", action.min_input_files)),
        delete_file_threshold=int(threshold or 1),
        rewrite_all=action.rewrite_all or options.get("rewrite-all", "").lower() == "true",
    )


def is_open(partition: PartitionKey, ends: Mapping[PartitionKey, datetime], now: datetime, grace: timedelta) -> bool:
    """Whether writers may still add to this partition: the period that it covers, plus a grace time, is not over."""
    ends_at = ends.get(partition)
    return ends_at is not None and now - grace < ends_at


def _sort_groups(groups: list[FileGroup], strategy: Strategy, ends: Mapping[PartitionKey, datetime]) -> list[FileGroup]:
    if strategy is not Strategy.TIME_SERIES:
        return sorted(groups, key=lambda group: (-len(group.files), group.partition))
    dated = [group for group in groups if group.partition in ends]
    undated = [group for group in groups if group.partition not in ends]
    dated.sort(key=lambda group: (ends[group.partition], group.partition), reverse=True)
    return dated + undated


def _pack(
    partition: PartitionKey,
    files: tuple[DataFile, ...],
    rules: SelectionRules,
    model: CostModel,
    max_group_bytes: int,
) -> list[PlannedGroup]:
    bins = first_fit_decreasing(files, max_group_bytes, size=lambda file: file.bytes, tie=lambda file: file.path)
    return [_plan_group(FileGroup(partition, members), rules, model) for members in bins]


def _plan_group(group: FileGroup, rules: SelectionRules, model: CostModel) -> PlannedGroup:
    files_out = count_files_needed(group.bytes, rules.target_file_bytes)
    return PlannedGroup(
        partition=group.partition,
        files=len(group.files),
        delete_files=group.delete_files,
        bytes=group.bytes,
        records=group.records,
        files_out=files_out,
        paths=tuple(file.path for file in group.files),
        cost=estimate_rewrite_cost(
            model,
            files_in=len(group.files),
            delete_files_in=group.delete_files,
            bytes_in=group.bytes,
            files_out=files_out,
        ),
    )


def estimate_total_cost(groups: Sequence[PlannedGroup], model: CostModel) -> CostEstimate:
    """Estimates the cost of rewriting all groups in one run, which starts and commits once."""
    if not groups:
        return CostEstimate()
    return estimate_rewrite_cost(
        model,
        files_in=sum(group.files for group in groups),
        delete_files_in=sum(group.delete_files for group in groups),
        bytes_in=sum(group.bytes for group in groups),
        files_out=sum(group.files_out for group in groups),
    )
