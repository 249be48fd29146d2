"""Recommendation: what to do about a table, in order, with reasons and expectations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
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
    commits_snapshot,
)
from icepack.domain.health import (
    DELETE_RATIO_LIMIT,
    DELETE_ROW_SHARE_LIMIT,
    HealthReport,
    IssueCode,
    excess_files,
    ideal_manifests,
    max_ref_age,
    too_many_manifests,
)
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
from icepack.domain.plan.select import files_needed, nearly_full
from icepack.domain.policy import Policy
from icepack.domain.status import PartitionStatus, SnapshotEntry, SnapshotStatus, TableStatus
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
    table_uuid: str = ""


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
Planned = Sequence[RecommendedAction]
"""What was recommended before: each action is weighed against the table as those will leave it."""


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
    planned: list[RecommendedAction] = []
    for kind in ActionKind:
        if kind not in policy.actions:
            yield SkippedAction(kind=kind, reason="Switched off by policy.")
            continue
        verdict = _not_again(situation, _within_cost(situation, _DECIDERS[kind](situation, planned)))
        if isinstance(verdict, RecommendedAction):
            planned.append(verdict)
        yield verdict


def _commits(planned: Planned) -> int:
    return sum(1 for recommended in planned if commits_snapshot(recommended.kind))


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
    age = max(situation.now - last.finished_at, timedelta())
    if same_snapshot and last.changed_nothing and not _depends_on_time(verdict.kind):
        return SkippedAction(kind=verdict.kind, reason="It ran on this very snapshot and found nothing to do.")
    if age < situation.policy.repeat_after and _unwritten_since(last, situation.status):
        return SkippedAction(
            kind=verdict.kind, reason=f"It ran {format_duration(age)} ago, and nothing was written since."
        )
    return verdict


def _unwritten_since(run: PastRun, status: TableStatus) -> bool:
    """Whether nothing but maintenance has committed since: the actions of one run follow each other."""
    entries = {entry.snapshot_id: entry for entry in status.snapshots.entries}
    current = status.snapshot_id
    while current != run.snapshot_id_after:
        entry = entries.get(current) if current is not None else None
        if entry is None or not (entry.job_id or entry.operation == "replace"):
            return False
        current = entry.parent_id
    return True


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


def _compact(situation: Situation, planned: Planned) -> Verdict:
    strategy = choose_strategy(situation)
    chosen = [partition for partition in _eligible(situation, strategy) if _sick(partition, situation, strategy)]
    if not chosen:
        return SkippedAction(kind=ActionKind.COMPACT, reason=_nothing_to_compact(situation, strategy))
    chosen.sort(key=lambda partition: (-score_partition(partition, situation.now).total, partition.key))
    return _pays(situation, _affordable(situation, chosen, strategy) or chosen, strategy)


def _matching(situation: Situation) -> list[PartitionStatus]:
    partitions = situation.status.partitions
    return [p for p in partitions if situation.matching is None or p.key in situation.matching]


def _eligible(situation: Situation, strategy: Strategy) -> list[PartitionStatus]:
    return [p for p in _matching(situation) if strategy is not Strategy.TIME_SERIES or _is_closed(p, situation)]


def _sick(partition: PartitionStatus, situation: Situation, strategy: Strategy) -> bool:
    return _merges(partition, situation, strategy) or _wants_deletes_applied(partition, situation, strategy)


def _nothing_to_compact(situation: Situation, strategy: Strategy) -> str:
    waiting = [
        partition.key.path
        for partition in _matching(situation)
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


def _position_deletes(situation: Situation, planned: Planned) -> Verdict:
    """Iceberg merges within a partition, so only a partition with enough files of its own counts."""
    kind = ActionKind.REWRITE_POSITION_DELETES
    status, policy = situation.status, situation.policy
    counts = [partition.position_delete_files for partition in _without_applied(_matching(situation), planned)]
    merged = [count for count in counts if count >= max(policy.min_input_files, 2)]
    dangling = status.deletes.dangling_files
    if not dangling and not merged:
        return SkippedAction(kind=kind, reason=f"{sum(counts):,} position-delete files are too few to merge.")
    reasons = [f"{dangling:,} delete files apply to nothing"] if dangling else []
    if merged:
        reasons.append(f"{sum(merged):,} position-delete files can be merged")
    cost = price(
        situation.model,
        gets=status.deletes.position.files * 2,
        puts=PUTS_PER_COMMIT,
        bytes_rewritten=status.deletes.position.bytes,
    )
    return RecommendedAction(
        action=RewritePositionDeletes(
            partition_filter=policy.partition_filter,
            remove_dangling=bool(dangling),
            options={"min-input-files": str(policy.min_input_files)},
        ),
        reason=", and ".join(reasons) + ".",
        effect=ExpectedEffect(
            delete_files_removed=max(sum(merged) - len(merged), dangling),
            bytes_rewritten=status.deletes.position.bytes,
        ),
        cost=cost,
        conflict_probability=conflict_probability(status.cadence.row_changes_per_hour, cost.duration_seconds),
    )


def _without_applied(partitions: list[PartitionStatus], planned: Planned) -> list[PartitionStatus]:
    """The partitions whose deletes no planned compaction applies."""
    applying = [
        recommended.action
        for recommended in planned
        if isinstance(recommended.action, Compact) and recommended.action.delete_file_threshold is not None
    ]
    if any(not action.partitions for action in applying):
        return []
    applied = {selection.key for action in applying for selection in action.partitions}
    return [partition for partition in partitions if partition.key not in applied]


def _manifests(situation: Situation, planned: Planned) -> Verdict:
    kind = ActionKind.REWRITE_MANIFESTS
    status = situation.status
    count, ideal = status.manifests.count + _commits(planned), ideal_manifests(status)
    too_many = too_many_manifests(count, ideal)
    if not too_many and not situation.health.has(IssueCode.OVERSIZED_MANIFESTS):
        return SkippedAction(kind=kind, reason=f"{status.manifests.count:,} manifests are in good order.")
    return RecommendedAction(
        action=RewriteManifests(),
        reason=f"{count:,} manifests do the work of {ideal:,}."
        if too_many
        else f"The largest manifest has {format_size(status.manifests.largest_bytes)} and can be split.",
        effect=ExpectedEffect(manifests_removed=max(count - ideal, 0)),
        cost=price(situation.model, gets=count, puts=ideal + PUTS_PER_COMMIT),
        conflict_probability=0.0,
    )


def _expire(situation: Situation, planned: Planned) -> Verdict:
    kind = ActionKind.EXPIRE_SNAPSHOTS
    status, policy = situation.status, situation.policy
    if not status.gc_enabled:
        return SkippedAction(kind=kind, reason="The table sets gc.enabled to false.")
    gone = expired_snapshots(
        _with_commits(status.snapshots, _commits(planned), situation.now),
        older_than=policy.snapshot_retention,
        retain_last=policy.min_snapshots_to_keep,
        now=situation.now,
        max_ref_age=max_ref_age(status),
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


def _with_commits(snapshots: SnapshotStatus, commits: int, now: datetime) -> SnapshotStatus:
    """The history once the actions planned before have committed: what is the head now may then go."""
    head = next((ref.snapshot_id for ref in snapshots.refs if ref.name == "main"), None)
    if head is None or not commits:
        return snapshots
    chain = [head, *(-number for number in range(1, commits + 1))]
    added = tuple(
        SnapshotEntry(snapshot_id=new, parent_id=parent, committed_at=now, operation="replace")
        for parent, new in pairwise(chain)
    )
    refs = tuple(replace(ref, snapshot_id=chain[-1]) if ref.name == "main" else ref for ref in snapshots.refs)
    return replace(snapshots, refs=refs, entries=snapshots.entries + added)


def _orphans(situation: Situation, planned: Planned) -> Verdict:
    kind = ActionKind.REMOVE_ORPHAN_FILES
    status, policy = situation.status, situation.policy
    if not status.gc_enabled:
        return SkippedAction(kind=kind, reason="The table sets gc.enabled to false.")
    last = situation.last(kind)
    age: timedelta | None = max(situation.now - last.finished_at, timedelta()) if last else None
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


def _stats(situation: Situation, planned: Planned) -> Verdict:
    kind = ActionKind.COMPUTE_STATS
    status = situation.status
    if status.snapshot_id is None:
        return SkippedAction(kind=kind, reason="The table has no snapshot yet.")
    if status.snapshot_id in status.metadata.statistics_snapshot_ids and not _commits(planned):
        return SkippedAction(kind=kind, reason="The current snapshot has its statistics.")
    return RecommendedAction(
        action=ComputeStats(),
        reason="The newest snapshot has no statistics.",
        effect=ExpectedEffect(),
        cost=price(situation.model, gets=status.data.count * 2, puts=2, bytes_rewritten=status.data.bytes),
        conflict_probability=0.0,
    )


_DECIDERS: dict[ActionKind, Callable[[Situation, Planned], Verdict]] = {
    ActionKind.COMPACT: _compact,
    ActionKind.REWRITE_POSITION_DELETES: _position_deletes,
    ActionKind.REWRITE_MANIFESTS: _manifests,
    ActionKind.EXPIRE_SNAPSHOTS: _expire,
    ActionKind.REMOVE_ORPHAN_FILES: _orphans,
    ActionKind.COMPUTE_STATS: _stats,
}
