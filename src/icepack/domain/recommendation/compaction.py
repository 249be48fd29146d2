"""Whether a table is compacted: which partitions, by which strategy, and whether it pays."""

from __future__ import annotations

from dataclasses import dataclass

from icepack.domain.actions import (
    ActionKind,
    Compact,
    PartitionSelection,
    Strategy,
)
from icepack.domain.health import (
    DELETE_RATIO_LIMIT,
    DELETE_ROW_SHARE_LIMIT,
    IssueCode,
    excess_files,
)
from icepack.domain.plan.cost import (
    CostEstimate,
    CostModel,
    price_rewrite,
    saved_dollars,
)
from icepack.domain.plan.score import fragment_ratio, score_partition
from icepack.domain.plan.select import files_needed, nearly_full
from icepack.domain.recommendation.types import (
    ExpectedEffect,
    Planned,
    RecommendedAction,
    Situation,
    SkippedAction,
    Verdict,
    conflict_probability,
    matching_partitions,
)
from icepack.domain.status import PartitionStatus
from icepack.domain.units import format_size


def choose_strategy(situation: Situation) -> Strategy:
    """The policy's; else by partitioning and by what hurts."""
    if situation.policy.strategy is not None:
        return situation.policy.strategy
    if any(partition.ends_at is not None for partition in situation.status.partitions):
        return Strategy.TIME_SERIES
    small = any(_wants_merge(partition, situation) for partition in situation.status.partitions)
    deletes = situation.health.has(IssueCode.DELETE_PRESSURE)
    return Strategy.DELETE_FILES if deletes and not small else Strategy.SMALL_FILES


def _wants_merge(partition: PartitionStatus, situation: Situation) -> bool:
    """Enough small files, and fewer afterwards; or far too many files that are not full."""
    target = situation.status.target_file_bytes
    enough = partition.small_files >= situation.policy.min_input_files
    fills_target = partition.small_files > 1 and partition.small_bytes >= target
    gains = excess_files(partition, target) > 0
    return _is_crowded(partition, situation) or (gains and (enough or fills_target))


def _is_crowded(partition: PartitionStatus, situation: Situation) -> bool:
    files = partition.data_files
    full = nearly_full(situation.status.target_file_bytes)
    return files > situation.policy.max_files_per_partition and partition.bytes < files * full


def _merges(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> bool:
    return strategy is not Strategy.DELETE_FILES and _wants_merge(partition, situation)


def _wants_deletes_applied(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> bool:
    """Weighed against the files that a merge leaves, or the next look would find the deletes too many."""
    if not partition.files_with_deletes:
        return False
    files = partition.data_files
    if _merges(partition, situation, strategy):
        files -= excess_files(partition, situation.status.target_file_bytes)
    ratio = fragment_ratio(files, partition.delete_files)
    row_share = partition.delete_records / max(partition.records, 1)
    limit = situation.policy.fragment_ratio_threshold
    return ratio > limit or row_share > limit * DELETE_ROW_SHARE_LIMIT / DELETE_RATIO_LIMIT


def _is_closed(partition: PartitionStatus, situation: Situation) -> bool:
    if partition.ends_at is None:
        return True
    return situation.now - situation.policy.open_partition_grace >= partition.ends_at


def decide_compaction(situation: Situation, planned: Planned) -> Verdict:
    strategy = choose_strategy(situation)
    chosen = [partition for partition in _eligible(situation, strategy) if _sick(partition, situation, strategy)]
    if not chosen:
        return SkippedAction(kind=ActionKind.COMPACT, reason=_nothing_to_compact(situation, strategy))
    chosen.sort(key=lambda partition: (-score_partition(partition, situation.now).total, partition.key))
    return _pays(situation, _affordable(situation, chosen, strategy) or chosen, strategy)


def _eligible(situation: Situation, strategy: Strategy) -> list[PartitionStatus]:
    return [
        p for p in matching_partitions(situation) if strategy is not Strategy.TIME_SERIES or _is_closed(p, situation)
    ]


def _sick(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> bool:
    return _merges(partition, situation, strategy) or _wants_deletes_applied(partition, situation, strategy)


def _nothing_to_compact(situation: Situation, strategy: Strategy) -> str:
    waiting = [
        partition.key.path
        for partition in matching_partitions(situation)
        if strategy is Strategy.TIME_SERIES
        and not _is_closed(partition, situation)
        and _wants_merge(partition, situation)
    ]
    if waiting:
        return f"Only open partitions have small files ({max(waiting)}); they are left to their writers."
    return (
        f"No partition has {situation.policy.min_input_files} files below "
        f"{format_size(situation.status.small_file_bytes)} or deletes worth applying."
    )


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """What a compaction will read and write."""

    files_in: int = 0
    bytes_in: int = 0
    files_out: int = 0
    delete_files: int = 0

    def plus(self, other: _Rewrite) -> _Rewrite:
        return _Rewrite(
            self.files_in + other.files_in,
            self.bytes_in + other.bytes_in,
            self.files_out + other.files_out,
            self.delete_files + other.delete_files,
        )

    @property
    def files_removed(self) -> int:
        return max(self.files_in - self.files_out, 0)

    def cost(self, model: CostModel) -> CostEstimate:
        return price_rewrite(
            model,
            files_in=self.files_in,
            delete_files_in=self.delete_files,
            bytes_in=self.bytes_in,
            files_out=self.files_out,
        )


def _rewrite_of(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> _Rewrite:
    files = bytes_in = deletes = 0
    if _merges(partition, situation, strategy):
        files, bytes_in = partition.small_files, partition.small_bytes
        if _is_crowded(partition, situation):
            files, bytes_in = partition.data_files, partition.bytes
    if _wants_deletes_applied(partition, situation, strategy):
        files = max(files, partition.files_with_deletes)
        bytes_in = max(bytes_in, partition.bytes_with_deletes)
        deletes = partition.delete_files
    return _Rewrite(files, bytes_in, files_needed(bytes_in, situation.status.target_file_bytes), deletes)


def _affordable(situation: Situation, chosen: list[PartitionStatus], strategy: Strategy) -> list[PartitionStatus]:
    """As many partitions, best score first, as `max_cost` pays for; the others' turn comes next time."""
    limit = situation.policy.max_cost
    if limit is None:
        return chosen
    kept = []
    total = _Rewrite()
    for partition in chosen:
        with_it = total.plus(_rewrite_of(partition, situation, strategy))
        if with_it.cost(situation.model).dollars <= limit:
            kept.append(partition)
            total = with_it
    return kept


def _pays(situation: Situation, chosen: list[PartitionStatus], strategy: Strategy) -> Verdict:
    rewrite = _Rewrite()
    for partition in chosen:
        rewrite = rewrite.plus(_rewrite_of(partition, situation, strategy))
    deletes = rewrite.delete_files
    cost = rewrite.cost(situation.model)
    saved = saved_dollars(situation.model, rewrite.files_removed + deletes, situation.policy.scans_per_day)
    if not deletes and saved < cost.dollars:
        return SkippedAction(
            kind=ActionKind.COMPACT,
            reason=f"Rewriting {format_size(rewrite.bytes_in)} to lose {rewrite.files_removed:,} files would cost "
            f"${cost.dollars:.4f} and save ${saved:.4f} a month.",
        )
    changes = situation.status.cadence.row_changes_per_hour
    return RecommendedAction(
        action=_compact_action(situation, chosen, strategy, bool(deletes)),
        reason=_compact_reason(situation, chosen, rewrite.files_in, deletes),
        effect=ExpectedEffect(
            files_removed=rewrite.files_removed, delete_files_removed=deletes, bytes_rewritten=rewrite.bytes_in
        ),
        cost=cost,
        conflict_probability=conflict_probability(changes, cost.duration_seconds),
    )


def _compact_action(
    situation: Situation, chosen: list[PartitionStatus], strategy: Strategy, apply_deletes: bool
) -> Compact:
    policy, status = situation.policy, situation.status
    whole_table = len(chosen) == len(status.partitions)
    crowded = any(_is_crowded(partition, situation) for partition in chosen)
    selections = tuple(PartitionSelection(partition.key, partition.values) for partition in chosen)
    return Compact(
        strategy=strategy,
        layout=policy.layout,
        columns=policy.columns,
        target_file_bytes=status.target_file_bytes,
        small_file_bytes=nearly_full(status.target_file_bytes) if crowded else status.small_file_bytes,
        min_input_files=min(policy.min_input_files, 2)
        if any(p.small_files < policy.min_input_files for p in chosen)
        else policy.min_input_files,
        delete_file_threshold=1 if apply_deletes else None,
        partitions=() if whole_table else selections,
        engine=policy.engine,
        proof=policy.proof,
        partial_progress=policy.partial_progress,
        max_cost_dollars=policy.max_cost,
    )


def _compact_reason(situation: Situation, chosen: list[PartitionStatus], files_in: int, deletes: int) -> str:
    where = ""
    if situation.status.partition_spec:
        where = f" in {len(chosen):,} of {len(situation.status.partitions):,} partitions"
    what = [f"{files_in:,} files{where} are small or carry deletes"]
    if deletes:
        what.append(f"{deletes:,} delete files can be applied for good")
    return ", and ".join(what) + "."
