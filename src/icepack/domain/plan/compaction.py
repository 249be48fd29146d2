"""The compaction plan: which files, in which groups, in which order, at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

from icepack.domain.actions import Compact, Strategy
from icepack.domain.plan.binpack import first_fit_decreasing
from icepack.domain.plan.cost import CostEstimate, CostModel, price_rewrite
from icepack.domain.plan.files import DataFile, FileListing, PartitionKey, PartitionValue
from icepack.domain.plan.select import FileGroup, SelectionRules, by_partition, files_needed, nearly_full, select_files
from icepack.domain.units import GIB

MAX_GROUP_BYTES = 100 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """One group that is rewritten on its own."""

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
    """Groups in the order they run; on Spark's path they are estimates, as the procedure plans again."""

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
    """Pure: the same files give the same plan, in whatever order they come."""
    groups: list[PlannedGroup] = []
    skipped: list[PartitionKey] = []
    for candidate in _in_order(by_partition(listing.files), strategy, listing.partition_ends):
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
        cost=_total(groups, model),
    )


def plan_action(
    action: Compact,
    listing: FileListing,
    *,
    otherwise: SelectionRules,
    now: datetime,
    model: CostModel | None = None,
    open_grace: timedelta = timedelta(0),
) -> CompactionPlan:
    """What a compaction with these parameters rewrites; its options win, and `otherwise` is for what it leaves open."""
    keys = {selection.key for selection in action.partitions}
    if keys:
        listing = replace(listing, files=tuple(file for file in listing.files if file.partition in keys))
    return plan_compaction(
        listing,
        strategy=action.strategy,
        rules=_rules(action, otherwise),
        model=model or CostModel(),
        now=now,
        open_grace=open_grace,
    )


def _rules(action: Compact, otherwise: SelectionRules) -> SelectionRules:
    said = action.options
    target = int(said.get("target-file-size-bytes", action.target_file_bytes or otherwise.target_file_bytes))
    usual = otherwise.small_file_bytes if target == otherwise.target_file_bytes else nearly_full(target)
    threshold = said.get("delete-file-threshold", action.delete_file_threshold)
    return replace(
        otherwise,
        target_file_bytes=target,
        small_file_bytes=int(said.get("min-file-size-bytes", action.small_file_bytes or usual)),
        max_delete_ratio=inf if threshold is None else otherwise.max_delete_ratio,
        min_input_files=int(said.get("min-input-files", action.min_input_files)),
        delete_file_threshold=int(threshold or 1),
        rewrite_all=action.rewrite_all or said.get("rewrite-all", "").lower() == "true",
    )


def is_open(partition: PartitionKey, ends: Mapping[PartitionKey, datetime], now: datetime, grace: timedelta) -> bool:
    """Whether writers may still be adding to this span of time."""
    ends_at = ends.get(partition)
    return ends_at is not None and now - grace < ends_at


def _in_order(groups: list[FileGroup], strategy: Strategy, ends: Mapping[PartitionKey, datetime]) -> list[FileGroup]:
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
    return [_planned(FileGroup(partition, members), rules, model) for members in bins]


def _planned(group: FileGroup, rules: SelectionRules, model: CostModel) -> PlannedGroup:
    files_out = files_needed(group.bytes, rules.target_file_bytes)
    return PlannedGroup(
        partition=group.partition,
        files=len(group.files),
        delete_files=group.delete_files,
        bytes=group.bytes,
        records=group.records,
        files_out=files_out,
        paths=tuple(file.path for file in group.files),
        cost=price_rewrite(
            model,
            files_in=len(group.files),
            delete_files_in=group.delete_files,
            bytes_in=group.bytes,
            files_out=files_out,
        ),
    )


def _total(groups: list[PlannedGroup], model: CostModel) -> CostEstimate:
    if not groups:
        return CostEstimate()
    return price_rewrite(
        model,
        files_in=sum(group.files for group in groups),
        delete_files_in=sum(group.delete_files for group in groups),
        bytes_in=sum(group.bytes for group in groups),
        files_out=sum(group.files_out for group in groups),
    )
