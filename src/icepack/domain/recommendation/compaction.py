"""Decides whether to compact a table: which partitions, by which strategy, and whether the savings exceed the cost."""

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
    count_excess_files,
)
from icepack.domain.plan.cost import (
    CostEstimate,
    CostModel,
    estimate_rewrite_cost,
    estimate_saved_dollars,
)
from icepack.domain.plan.score import compute_fragment_ratio, score_partition
from icepack.domain.plan.select import compute_nearly_full_bytes, count_files_needed
from icepack.domain.recommendation.types import (
    ActionDecision,
    ExpectedEffect,
    PlannedActions,
    RecommendedAction,
    Situation,
    SkippedAction,
    estimate_conflict_probability,
    select_partitions,
)
from icepack.domain.status import PartitionStatus
from icepack.domain.units import format_count, format_size


def choose_strategy(situation: Situation) -> Strategy:
    """Returns the policy's strategy; without one, chooses by the partitioning and the issues of the table."""
    if situation.policy.strategy is not None:
        return situation.policy.strategy
    if any(partition.ends_at is not None for partition in situation.status.partitions):
        return Strategy.TIME_SERIES
    small = any(_should_merge(partition, situation) for partition in situation.status.partitions)
    deletes = situation.health.has(IssueCode.DELETE_PRESSURE)
    return Strategy.DELETE_FILES if deletes and not small else Strategy.SMALL_FILES


def _should_merge(partition: PartitionStatus, situation: Situation) -> bool:
    """Whether merging reduces the number of files: enough small ones, or too many files that are not full."""
    target = situation.status.target_file_bytes
    enough = partition.small_files >= situation.policy.min_input_files
    fills_target = partition.small_files > 1 and partition.small_bytes >= target
    gains = count_excess_files(partition, target) > 0
    return _is_crowded(partition, situation) or (gains and (enough or fills_target))


def _is_crowded(partition: PartitionStatus, situation: Situation) -> bool:
    files = partition.data_files
    full = compute_nearly_full_bytes(situation.status.target_file_bytes)
    return files > situation.policy.max_files_per_partition and partition.bytes < files * full


def _is_merged(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> bool:
    return strategy is not Strategy.DELETE_FILES and _should_merge(partition, situation)


def _should_apply_deletes(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> bool:
    """Compares the deletes with the files left after merging; otherwise the next check would find too many deletes."""
    if not partition.files_with_deletes:
        return False
    files = partition.data_files
    if _is_merged(partition, situation, strategy):
        files -= count_excess_files(partition, situation.status.target_file_bytes)
    ratio = compute_fragment_ratio(files, partition.delete_files)
    row_share = partition.delete_records / max(partition.records, 1)
    limit = situation.policy.fragment_ratio_threshold
    return ratio > limit or row_share > limit * DELETE_ROW_SHARE_LIMIT / DELETE_RATIO_LIMIT


def _is_open(partition: PartitionStatus, situation: Situation) -> bool:
    return partition.is_open(situation.now, situation.policy.open_partition_grace)


def decide_compaction(situation: Situation, planned: PlannedActions) -> ActionDecision:
    strategy = choose_strategy(situation)
    eligible = _eligible_partitions(situation, strategy)
    chosen = [partition for partition in eligible if _needs_compaction(partition, situation, strategy)]
    if not chosen:
        return SkippedAction(kind=ActionKind.COMPACT, reason=_explain_no_compaction(situation, strategy))
    chosen.sort(key=lambda partition: (-score_partition(partition, situation.now).total, partition.key))
    return _recommend_if_worthwhile(situation, _limit_cost(situation, chosen, strategy) or chosen, strategy)


def _eligible_partitions(situation: Situation, strategy: Strategy) -> list[PartitionStatus]:
    return [
        p for p in select_partitions(situation) if strategy is not Strategy.TIME_SERIES or not _is_open(p, situation)
    ]


def _needs_compaction(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> bool:
    return _is_merged(partition, situation, strategy) or _should_apply_deletes(partition, situation, strategy)


def _explain_no_compaction(situation: Situation, strategy: Strategy) -> str:
    waiting = [
        partition.key.path
        for partition in select_partitions(situation)
        if strategy is Strategy.TIME_SERIES and _is_open(partition, situation) and _should_merge(partition, situation)
    ]
    if waiting:
        return f"Only open partitions have small files (latest: {max(waiting)}), and open partitions are not compacted."
    return (
        f"No partition has {situation.policy.min_input_files} or more files smaller than "
        f"{format_size(situation.status.small_file_bytes)}, or more than "
        f"{situation.policy.fragment_ratio_threshold:g} delete files per data file."
    )


@dataclass(frozen=True, slots=True)
class _RewriteEstimate:
    """The estimated input and output of a compaction."""

    files_in: int = 0
    bytes_in: int = 0
    files_out: int = 0
    delete_files: int = 0

    def plus(self, other: _RewriteEstimate) -> _RewriteEstimate:
        return _RewriteEstimate(
            self.files_in + other.files_in,
            self.bytes_in + other.bytes_in,
            self.files_out + other.files_out,
            self.delete_files + other.delete_files,
        )

    @property
    def files_removed(self) -> int:
        return max(self.files_in - self.files_out, 0)

    def cost(self, model: CostModel) -> CostEstimate:
        return estimate_rewrite_cost(
            model,
            files_in=self.files_in,
            delete_files_in=self.delete_files,
            bytes_in=self.bytes_in,
            files_out=self.files_out,
        )


def _estimate_rewrite(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> _RewriteEstimate:
    files = bytes_in = deletes = 0
    if _is_merged(partition, situation, strategy):
        files, bytes_in = partition.small_files, partition.small_bytes
        if _is_crowded(partition, situation):
            files, bytes_in = partition.data_files, partition.bytes
    if _should_apply_deletes(partition, situation, strategy):
        files = max(files, partition.files_with_deletes)
        bytes_in = max(bytes_in, partition.bytes_with_deletes)
        deletes = partition.delete_files
    return _RewriteEstimate(files, bytes_in, count_files_needed(bytes_in, situation.status.target_file_bytes), deletes)


def _limit_cost(situation: Situation, chosen: list[PartitionStatus], strategy: Strategy) -> list[PartitionStatus]:
    """Returns as many partitions, highest score first, as `max_cost` allows; later runs take the others."""
    limit = situation.policy.max_cost
    if limit is None:
        return chosen
    kept = []
    total = _RewriteEstimate()
    for partition in chosen:
        extended = total.plus(_estimate_rewrite(partition, situation, strategy))
        if extended.cost(situation.model).dollars <= limit:
            kept.append(partition)
            total = extended
    return kept


def _recommend_if_worthwhile(situation: Situation, chosen: list[PartitionStatus], strategy: Strategy) -> ActionDecision:
    rewrite = _RewriteEstimate()
    for partition in chosen:
        rewrite = rewrite.plus(_estimate_rewrite(partition, situation, strategy))
    deletes = rewrite.delete_files
    cost = rewrite.cost(situation.model)
    saved = estimate_saved_dollars(situation.model, rewrite.files_removed + deletes, situation.policy.scans_per_day)
    if not deletes and saved < cost.dollars:
        return SkippedAction(
            kind=ActionKind.COMPACT,
            reason=f"Rewriting {format_size(rewrite.bytes_in)} to remove {format_count(rewrite.files_removed, 'file')} "
            f"would cost ${cost.dollars:.4f} and save ${saved:.4f} per month (estimates).",
        )
    changes = situation.status.cadence.row_changes_per_hour
    action = _build_action(situation, chosen, strategy, bool(deletes))
    return RecommendedAction(
        action=action,
        reason=_explain_compaction(situation, action, len(chosen), rewrite),
        effect=ExpectedEffect(
            files_removed=rewrite.files_removed, delete_files_removed=deletes, bytes_rewritten=rewrite.bytes_in
        ),
        cost=cost,
        conflict_probability=estimate_conflict_probability(changes, cost.duration_seconds),
    )


def _build_action(
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
        small_file_bytes=compute_nearly_full_bytes(status.target_file_bytes) if crowded else status.small_file_bytes,
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


def _explain_compaction(situation: Situation, action: Compact, partitions: int, rewrite: _RewriteEstimate) -> str:
    one = rewrite.files_in == 1
    small = f"{'is' if one else 'are'} small (below {format_size(action.small_file_bytes or 0)})"
    with_deletes = "has deletes" if one else "have deletes"
    where = ""
    if situation.status.partition_spec:
        where = f" in {partitions:,} of {format_count(len(situation.status.partitions), 'partition')}"
    found = f"{format_count(rewrite.files_in, 'file')}{where}"
    if not rewrite.delete_files:
        return f"{found} {small}."
    what = with_deletes if action.strategy is Strategy.DELETE_FILES else f"{small} or {with_deletes}"
    return f"{found} {what}; {format_count(rewrite.delete_files, 'delete file')} can be applied."
