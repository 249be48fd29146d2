"""Recommendation: what to do about a table, in order, with reasons and expectations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from icepack.domain.actions import (
    Action,
    ActionKind,
    Compact,
    ComputeStats,
    ExpireSnapshots,
    PartitionSelection,
    RemoveOrphanFiles,
    RewriteManifests,
    RewritePositionDeletes,
    Strategy,
)
from icepack.domain.health import HealthReport, IssueCode, ideal_manifests
from icepack.domain.plan.compaction import files_needed
from icepack.domain.plan.cost import (
    PUTS_PER_COMMIT,
    CostEstimate,
    CostModel,
    price,
    price_rewrite,
    saved_dollars,
)
from icepack.domain.plan.expiry import expired_snapshots
from icepack.domain.plan.score import fragment_ratio, score_partition
from icepack.domain.policy import Policy
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.table import TableId
from icepack.domain.units import format_duration, format_size

RECOMMENDATION_VERSION = 1
LIST_PAGE_FILES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEffect:
    """Estimates: what should be gone afterwards."""

    files_removed: int = 0
    delete_files_removed: int = 0
    bytes_rewritten: int = 0
    snapshots_removed: int = 0
    manifests_removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedAction:
    action: Action
    reason: str
    effect: ExpectedEffect
    cost: CostEstimate
    conflict_probability: float

    @property
    def kind(self) -> ActionKind:
        return self.action.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedAction:
    """What was considered and left out, and why."""

    kind: ActionKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """What the recommendation has to know of a run that ended well."""

    kind: ActionKind
    finished_at: datetime
    snapshot_id_after: int | None
    changed_nothing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    table: TableId
    snapshot_id: int | None
    made_at: datetime
    actions: tuple[RecommendedAction, ...]
    skipped: tuple[SkippedAction, ...]
    version: int = RECOMMENDATION_VERSION

    @property
    def cost(self) -> CostEstimate:
        total = CostEstimate()
        for recommended in self.actions:
            total = total.plus(recommended.cost)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything a recommendation is made from."""

    status: TableStatus
    health: HealthReport
    policy: Policy
    history: Sequence[PastRun]
    model: CostModel
    now: datetime
    matching: frozenset[Any] | None = None
    """The partitions that the policy's filter leaves; None is all of them."""

    def last(self, kind: ActionKind) -> PastRun | None:
        return max((run for run in self.history if run.kind is kind), key=lambda run: run.finished_at, default=None)


Verdict = RecommendedAction | SkippedAction


def recommend(situation: Situation) -> Recommendation:
    """One verdict per action, in the order in which they run."""
    verdicts = list(_verdicts(situation))
    return Recommendation(
        table=situation.status.table,
        snapshot_id=situation.status.snapshot_id,
        made_at=situation.now,
        actions=tuple(verdict for verdict in verdicts if isinstance(verdict, RecommendedAction)),
        skipped=tuple(verdict for verdict in verdicts if isinstance(verdict, SkippedAction)),
    )


def _verdicts(situation: Situation) -> Iterator[Verdict]:
    policy = situation.policy
    if not policy.enabled:
        yield from (SkippedAction(kind=kind, reason="The policy leaves this table alone.") for kind in ActionKind)
        return
    compaction: RecommendedAction | None = None
    for kind in ActionKind:
        if kind not in policy.actions:
            yield SkippedAction(kind=kind, reason="Switched off by policy.")
            continue
        if kind is ActionKind.REWRITE_POSITION_DELETES:
            verdict = _position_deletes(situation, compaction)
        else:
            verdict = _DECIDERS[kind](situation)
        verdict = _not_again(situation, _within_cost(situation, verdict))
        if kind is ActionKind.COMPACT and isinstance(verdict, RecommendedAction):
            compaction = verdict
        yield verdict


def _within_cost(situation: Situation, verdict: Verdict) -> Verdict:
    limit = situation.policy.max_cost
    if isinstance(verdict, SkippedAction) or limit is None or verdict.cost.dollars <= limit:
        return verdict
    return SkippedAction(
        kind=verdict.kind,
        reason=f"Estimated at ${verdict.cost.dollars:.4f}, over the limit of ${limit:.4f} (max_cost).",
    )


def _not_again(situation: Situation, verdict: Verdict) -> Verdict:
    """What ran a moment ago, or did nothing at this very snapshot, is not asked for again."""
    if isinstance(verdict, SkippedAction):
        return verdict
    last = situation.last(verdict.kind)
    if last is None:
        return verdict
    same_snapshot = last.snapshot_id_after == situation.status.snapshot_id
    age = situation.now - last.finished_at
    if same_snapshot and last.changed_nothing and not _depends_on_time(verdict.kind):
        return SkippedAction(kind=verdict.kind, reason="It ran on this very snapshot and found nothing to do.")
    if same_snapshot and age < situation.policy.repeat_after:
        return SkippedAction(
            kind=verdict.kind, reason=f"It ran {format_duration(age)} ago, and nothing was written since."
        )
    return verdict


def _depends_on_time(kind: ActionKind) -> bool:
    return kind in (ActionKind.EXPIRE_SNAPSHOTS, ActionKind.REMOVE_ORPHAN_FILES)


def conflict_probability(changes_per_hour: float, duration_seconds: float) -> float:
    """The chance that a row-level change lands while the action runs, if they come at random."""
    return 1 - math.exp(-changes_per_hour / 3600 * duration_seconds)


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
    enough = partition.small_files >= situation.policy.min_input_files
    fills_target = partition.small_files > 1 and partition.small_bytes >= situation.status.target_file_bytes
    return enough or fills_target


def _wants_deletes_applied(partition: PartitionStatus, situation: Situation) -> bool:
    if not partition.files_with_deletes:
        return False
    ratio = fragment_ratio(partition.data_files, partition.delete_files)
    row_share = partition.delete_records / max(partition.records, 1)
    limit = situation.policy.fragment_ratio_threshold
    return ratio > limit or row_share > limit


def _is_closed(partition: PartitionStatus, situation: Situation) -> bool:
    if partition.ends_at is None:
        return True
    return situation.now >= partition.ends_at + situation.policy.open_partition_grace


def _compact(situation: Situation) -> Verdict:
    strategy = choose_strategy(situation)
    chosen = [partition for partition in _eligible(situation, strategy) if _sick(partition, situation, strategy)]
    if not chosen:
        return SkippedAction(kind=ActionKind.COMPACT, reason=_nothing_to_compact(situation, strategy))
    chosen.sort(key=lambda partition: (-score_partition(partition, situation.now).total, partition.key))
    return _pays(situation, chosen, strategy)


def _eligible(situation: Situation, strategy: Strategy) -> list[PartitionStatus]:
    return [
        partition
        for partition in situation.status.partitions
        if (situation.matching is None or partition.key in situation.matching)
        and (strategy is not Strategy.TIME_SERIES or _is_closed(partition, situation))
    ]


def _sick(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> bool:
    merge = strategy is not Strategy.DELETE_FILES and _wants_merge(partition, situation)
    return merge or _wants_deletes_applied(partition, situation)


def _nothing_to_compact(situation: Situation, strategy: Strategy) -> str:
    waiting = [
        partition
        for partition in situation.status.partitions
        if strategy is Strategy.TIME_SERIES
        and not _is_closed(partition, situation)
        and _wants_merge(partition, situation)
    ]
    if waiting:
        return f"Only open partitions have small files ({waiting[0].key.path}); they are left to their writers."
    return (
        f"No partition has {situation.policy.min_input_files} files below "
        f"{format_size(situation.status.small_file_bytes)} or deletes worth applying."
    )


def _rewritten(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> tuple[int, int]:
    """Files and bytes of a partition that the rewrite will read."""
    files = bytes_in = 0
    if strategy is not Strategy.DELETE_FILES and _wants_merge(partition, situation):
        files, bytes_in = partition.small_files, partition.small_bytes
    if _wants_deletes_applied(partition, situation):
        files = max(files, partition.files_with_deletes)
        bytes_in = max(bytes_in, partition.bytes_with_deletes)
    return files, bytes_in


def _pays(situation: Situation, chosen: list[PartitionStatus], strategy: Strategy) -> Verdict:
    status, model = situation.status, situation.model
    amounts = [_rewritten(partition, situation, strategy) for partition in chosen]
    files_in = sum(files for files, _ in amounts)
    bytes_in = sum(size for _, size in amounts)
    files_out = sum(files_needed(size, status.target_file_bytes) for _, size in amounts)
    deletes = sum(p.delete_files for p in chosen if _wants_deletes_applied(p, situation))
    cost = price_rewrite(model, files_in=files_in, delete_files_in=deletes, bytes_in=bytes_in, files_out=files_out)
    saved = saved_dollars(model, files_in - files_out + deletes, situation.policy.scans_per_day)
    if not deletes and saved < cost.dollars:
        return SkippedAction(
            kind=ActionKind.COMPACT,
            reason=f"Rewriting {format_size(bytes_in)} to lose {files_in - files_out:,} files would cost "
            f"${cost.dollars:.4f} and save ${saved:.4f} a month.",
        )
    return RecommendedAction(
        action=_compact_action(situation, chosen, strategy, bool(deletes)),
        reason=_compact_reason(situation, chosen, files_in, deletes),
        effect=ExpectedEffect(
            files_removed=files_in - files_out, delete_files_removed=deletes, bytes_rewritten=bytes_in
        ),
        cost=cost,
        conflict_probability=conflict_probability(status.cadence.row_changes_per_hour, cost.duration_seconds),
    )


def _compact_action(
    situation: Situation, chosen: list[PartitionStatus], strategy: Strategy, apply_deletes: bool
) -> Compact:
    policy, status = situation.policy, situation.status
    whole_table = len(chosen) == len(status.partitions)
    selections = tuple(PartitionSelection(partition.key, partition.values) for partition in chosen)
    return Compact(
        strategy=strategy,
        layout=policy.layout,
        columns=policy.columns,
        target_file_bytes=status.target_file_bytes,
        small_file_bytes=status.small_file_bytes,
        min_input_files=min(policy.min_input_files, 2)
        if any(p.small_files < policy.min_input_files for p in chosen)
        else policy.min_input_files,
        delete_file_threshold=1 if apply_deletes else None,
        partitions=() if whole_table else selections,
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


def _position_deletes(situation: Situation, compaction: RecommendedAction | None) -> Verdict:
    kind = ActionKind.REWRITE_POSITION_DELETES
    status = situation.status
    left = status.deletes.position.files
    if compaction is not None:
        left -= compaction.effect.delete_files_removed
    dangling = status.deletes.dangling_files
    many = left >= situation.policy.min_input_files
    if not dangling and not many:
        return SkippedAction(kind=kind, reason=f"{max(left, 0)} position-delete files are too few to merge.")
    gone = dangling if not many else max(left - 1, dangling)
    reason = (
        f"{dangling:,} delete files apply to nothing." if dangling else f"{left:,} position-delete files can be merged."
    )
    return RecommendedAction(
        action=RewritePositionDeletes(remove_dangling=bool(dangling)),
        reason=reason,
        effect=ExpectedEffect(delete_files_removed=gone, bytes_rewritten=status.deletes.position.bytes),
        cost=price(
            situation.model,
            gets=status.deletes.position.files * 2,
            puts=PUTS_PER_COMMIT,
            bytes_rewritten=status.deletes.position.bytes,
        ),
        conflict_probability=conflict_probability(status.cadence.row_changes_per_hour, situation.model.startup_seconds),
    )


def _manifests(situation: Situation) -> Verdict:
    kind = ActionKind.REWRITE_MANIFESTS
    status = situation.status
    sick = situation.health.has(IssueCode.FRAGMENTED_MANIFESTS) or situation.health.has(IssueCode.OVERSIZED_MANIFESTS)
    if not sick:
        return SkippedAction(kind=kind, reason=f"{status.manifests.count:,} manifests are in good order.")
    ideal = ideal_manifests(status)
    return RecommendedAction(
        action=RewriteManifests(),
        reason=f"{status.manifests.count:,} manifests do the work of {ideal:,}.",
        effect=ExpectedEffect(manifests_removed=max(status.manifests.count - ideal, 0)),
        cost=price(situation.model, gets=status.manifests.count, puts=ideal + PUTS_PER_COMMIT),
        conflict_probability=0.0,
    )


def _expire(situation: Situation) -> Verdict:
    kind = ActionKind.EXPIRE_SNAPSHOTS
    status, policy = situation.status, situation.policy
    if not status.gc_enabled:
        return SkippedAction(kind=kind, reason="The table sets gc.enabled to false.")
    gone = expired_snapshots(
        status.snapshots,
        older_than=policy.snapshot_retention,
        retain_last=policy.min_snapshots_to_keep,
        now=situation.now,
    )
    if not gone:
        return SkippedAction(
            kind=kind,
            reason=f"No snapshot is older than {format_duration(policy.snapshot_retention)} and free to go.",
        )
    return RecommendedAction(
        action=ExpireSnapshots(older_than=policy.snapshot_retention, retain_last=policy.min_snapshots_to_keep),
        reason=f"{len(gone):,} of {status.snapshots.count:,} snapshots are past "
        f"{format_duration(policy.snapshot_retention)}.",
        effect=ExpectedEffect(snapshots_removed=len(gone)),
        cost=price(situation.model, gets=len(gone) * 2 + status.manifests.count, puts=1),
        conflict_probability=0.0,
    )


def _orphans(situation: Situation) -> Verdict:
    kind = ActionKind.REMOVE_ORPHAN_FILES
    status, policy = situation.status, situation.policy
    if not status.gc_enabled:
        return SkippedAction(kind=kind, reason="The table sets gc.enabled to false.")
    last = situation.last(kind)
    age: timedelta | None = situation.now - last.finished_at if last else None
    if age is not None and age < policy.orphan_interval:
        return SkippedAction(kind=kind, reason=f"The storage was searched {format_duration(age)} ago.")
    listed = status.data.count + status.manifests.count + status.snapshots.count
    return RecommendedAction(
        action=RemoveOrphanFiles(
            older_than=policy.orphan_retention,
            max_files=policy.max_orphan_files,
            max_share=policy.max_orphan_share,
        ),
        reason="The storage was never searched for orphans."
        if age is None
        else f"The storage was last searched {format_duration(age)} ago.",
        effect=ExpectedEffect(),
        cost=price(situation.model, gets=status.manifests.count + listed // LIST_PAGE_FILES + 1, puts=0),
        conflict_probability=0.0,
    )


def _stats(situation: Situation) -> Verdict:
    kind = ActionKind.COMPUTE_STATS
    status = situation.status
    if status.snapshot_id is None or status.snapshot_id in status.metadata.statistics_snapshot_ids:
        return SkippedAction(kind=kind, reason="The current snapshot has its statistics.")
    return RecommendedAction(
        action=ComputeStats(),
        reason="The current snapshot has no statistics.",
        effect=ExpectedEffect(),
        cost=price(situation.model, gets=status.data.count * 2, puts=2, bytes_rewritten=status.data.bytes),
        conflict_probability=0.0,
    )


_DECIDERS: dict[ActionKind, Callable[[Situation], Verdict]] = {
    ActionKind.COMPACT: _compact,
    ActionKind.REWRITE_MANIFESTS: _manifests,
    ActionKind.EXPIRE_SNAPSHOTS: _expire,
    ActionKind.REMOVE_ORPHAN_FILES: _orphans,
    ActionKind.COMPUTE_STATS: _stats,
}
