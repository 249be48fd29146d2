"""Decides on every action but compaction: position deletes, manifests, snapshots, orphan files, statistics."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

from icepack.domain.actions import (
    ActionKind,
    Compact,
    ComputeStats,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteManifests,
    RewritePositionDeletes,
)
from icepack.domain.health import (
    MANIFEST_COUNT_FLOOR,
    IssueCode,
    count_ideal_manifests,
    get_max_ref_age,
    has_too_many_manifests,
)
from icepack.domain.plan.cost import PUTS_PER_COMMIT, estimate_cost
from icepack.domain.plan.expiry import find_expired_snapshots
from icepack.domain.recommendation.types import (
    ActionDecision,
    ExpectedEffect,
    PlannedActions,
    RecommendedAction,
    Situation,
    SkippedAction,
    count_commits,
    estimate_conflict_probability,
    select_partitions,
)
from icepack.domain.status import PartitionStatus, SnapshotEntry, SnapshotStatus
from icepack.domain.units import format_count, format_duration, format_size

# Object stores list this many files per request.
LIST_PAGE_FILES = 1000


def decide_position_deletes(situation: Situation, planned: PlannedActions) -> ActionDecision:
    """Counts delete files per partition, because Iceberg merges them only within a partition."""
    kind = ActionKind.REWRITE_POSITION_DELETES
    status, policy = situation.status, situation.policy
    counts = _count_position_deletes(_exclude_applied(select_partitions(situation), planned))
    merged = [count for count in counts if count >= _min_delete_files(situation)]
    dangling = status.deletes.dangling_files
    if not dangling and not merged:
        return SkippedAction(kind=kind, reason=_explain_no_position_deletes(situation, sum(counts)))
    reasons = []
    if dangling:
        verb = "applies" if dangling == 1 else "apply"
        reasons.append(f"{format_count(dangling, 'delete file')} no longer {verb} to any data file")
    if merged:
        reasons.append(f"{sum(merged):,} position delete files can be merged")
    cost = estimate_cost(
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
        conflict_probability=estimate_conflict_probability(status.cadence.row_changes_per_hour, cost.duration_seconds),
    )


def _min_delete_files(situation: Situation) -> int:
    return max(situation.policy.min_input_files, 2)


def _count_position_deletes(partitions: list[PartitionStatus]) -> list[int]:
    return [partition.position_delete_files for partition in partitions]


def _explain_no_position_deletes(situation: Situation, remaining: int) -> str:
    if remaining:
        return (
            f"{format_count(remaining, 'position delete file')}, but no partition has the "
            f"{_min_delete_files(situation):,} needed to merge (min_input_files)."
        )
    if not any(_count_position_deletes(list(situation.status.partitions))):
        return "No position deletes."
    if not any(_count_position_deletes(select_partitions(situation))):
        return "No position deletes in the partitions that match the filter."
    return "The planned compaction applies all position deletes."


def _exclude_applied(partitions: list[PartitionStatus], planned: PlannedActions) -> list[PartitionStatus]:
    """Returns the partitions whose deletes no planned compaction applies."""
    applying = [
        recommended.action
        for recommended in planned
        if isinstance(recommended.action, Compact) and recommended.action.delete_file_threshold is not None
    ]
    if any(not action.partitions for action in applying):
        return []
    applied = {selection.key for action in applying for selection in action.partitions}
    return [partition for partition in partitions if partition.key not in applied]


def decide_manifests(situation: Situation, planned: PlannedActions) -> ActionDecision:
    kind = ActionKind.REWRITE_MANIFESTS
    status = situation.status
    count, ideal = status.manifests.count + count_commits(planned), count_ideal_manifests(status)
    too_many = has_too_many_manifests(count, ideal)
    if not too_many and not situation.health.has(IssueCode.OVERSIZED_MANIFESTS):
        limit = max(MANIFEST_COUNT_FLOOR, 2 * ideal)
        return SkippedAction(kind=kind, reason=f"Manifests are healthy ({status.manifests.count:,}, limit {limit:,}).")
    return RecommendedAction(
        action=RewriteManifests(),
        reason=f"{count:,} manifests can be merged into {ideal:,}."
        if too_many
        else f"The largest manifest is {format_size(status.manifests.largest_bytes)}, more than twice the target of "
        f"{format_size(status.manifests.target_bytes)}, and can be split.",
        effect=ExpectedEffect(manifests_removed=max(count - ideal, 0)),
        cost=estimate_cost(situation.model, gets=count, puts=ideal + PUTS_PER_COMMIT),
        conflict_probability=0.0,
    )


def decide_expiry(situation: Situation, planned: PlannedActions) -> ActionDecision:
    kind = ActionKind.EXPIRE_SNAPSHOTS
    status, policy = situation.status, situation.policy
    if not status.gc_enabled:
        return SkippedAction(kind=kind, reason="The table property gc.enabled is false.")
    expired = find_expired_snapshots(
        _add_commits(status.snapshots, count_commits(planned), situation.now),
        older_than=policy.snapshot_retention,
        retain_last=policy.min_snapshots_to_keep,
        now=situation.now,
        max_ref_age=get_max_ref_age(status),
    )
    if not expired:
        return SkippedAction(
            kind=kind,
            reason=f"No expired snapshots (snapshot_retention: {format_duration(policy.snapshot_retention)}).",
        )
    return RecommendedAction(
        action=ExpireSnapshots(older_than=policy.snapshot_retention, retain_last=policy.min_snapshots_to_keep),
        reason=f"{len(expired):,} of {format_count(status.snapshots.count, 'snapshot')} "
        f"{'is' if len(expired) == 1 else 'are'} past the retention of {format_duration(policy.snapshot_retention)}.",
        effect=ExpectedEffect(snapshots_removed=len(expired)),
        cost=estimate_cost(situation.model, gets=len(expired) * 2 + status.manifests.count, puts=1),
        conflict_probability=0.0,
    )


def _add_commits(snapshots: SnapshotStatus, commits: int, now: datetime) -> SnapshotStatus:
    """Returns the history after the planned actions have committed, when the current snapshot may expire too."""
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


def decide_orphans(situation: Situation, planned: PlannedActions) -> ActionDecision:
    kind = ActionKind.REMOVE_ORPHAN_FILES
    status, policy = situation.status, situation.policy
    if not status.gc_enabled:
        return SkippedAction(kind=kind, reason="The table property gc.enabled is false.")
    last = situation.last_run(kind)
    age: timedelta | None = max(situation.now - last.finished_at, timedelta()) if last else None
    if age is not None and age < policy.orphan_interval:
        interval = format_duration(policy.orphan_interval)
        return SkippedAction(
            kind=kind,
            reason=f"Last searched for orphan files {format_duration(age)} ago (orphan_interval: {interval}).",
        )
    files = status.data.count + status.manifests.count + status.snapshots.count
    return RecommendedAction(
        action=RemoveOrphanFiles(
            older_than=policy.orphan_retention,
            max_files=policy.max_orphan_files,
            max_share=policy.max_orphan_share,
        ),
        reason="Never searched for orphan files."
        if age is None
        else f"Last searched for orphan files {format_duration(age)} ago.",
        effect=ExpectedEffect(),
        cost=estimate_cost(situation.model, gets=status.manifests.count + files // LIST_PAGE_FILES + 1, puts=0),
        conflict_probability=0.0,
    )


def decide_stats(situation: Situation, planned: PlannedActions) -> ActionDecision:
    kind = ActionKind.COMPUTE_STATS
    status = situation.status
    if status.snapshot_id is None:
        return SkippedAction(kind=kind, reason="The table has no snapshot yet.")
    if status.snapshot_id in status.metadata.statistics_snapshot_ids and not count_commits(planned):
        return SkippedAction(kind=kind, reason="The current snapshot already has statistics.")
    return RecommendedAction(
        action=ComputeStats(),
        reason="The current snapshot has no statistics.",
        effect=ExpectedEffect(),
        cost=estimate_cost(situation.model, gets=status.data.count * 2, puts=2, bytes_rewritten=status.data.bytes),
        conflict_probability=0.0,
    )
