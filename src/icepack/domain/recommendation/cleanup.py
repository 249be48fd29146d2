"""The other decisions: position deletes, manifests, snapshots, orphans, statistics."""

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
    IssueCode,
    ideal_manifests,
    max_ref_age,
    too_many_manifests,
)
from icepack.domain.plan.cost import (
    PUTS_PER_COMMIT,
    price,
)
from icepack.domain.plan.expiry import expired_snapshots
from icepack.domain.recommendation.types import (
    ExpectedEffect,
    Planned,
    RecommendedAction,
    Situation,
    SkippedAction,
    Verdict,
    commits_of,
    conflict_probability,
    matching_partitions,
)
from icepack.domain.status import PartitionStatus, SnapshotEntry, SnapshotStatus
from icepack.domain.units import format_duration, format_size

LIST_PAGE_FILES = 1000


def decide_position_deletes(situation: Situation, planned: Planned) -> Verdict:
    """Iceberg merges within a partition, so only a partition with enough files of its own counts."""
    kind = ActionKind.REWRITE_POSITION_DELETES
    status, policy = situation.status, situation.policy
    counts = [
        partition.position_delete_files for partition in _without_applied(matching_partitions(situation), planned)
    ]
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


def decide_manifests(situation: Situation, planned: Planned) -> Verdict:
    kind = ActionKind.REWRITE_MANIFESTS
    status = situation.status
    count, ideal = status.manifests.count + commits_of(planned), ideal_manifests(status)
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


def decide_expiry(situation: Situation, planned: Planned) -> Verdict:
    kind = ActionKind.EXPIRE_SNAPSHOTS
    status, policy = situation.status, situation.policy
    if not status.gc_enabled:
        return SkippedAction(kind=kind, reason="The table sets gc.enabled to false.")
    gone = expired_snapshots(
        _with_commits(status.snapshots, commits_of(planned), situation.now),
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


def decide_orphans(situation: Situation, planned: Planned) -> Verdict:
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


def decide_stats(situation: Situation, planned: Planned) -> Verdict:
    kind = ActionKind.COMPUTE_STATS
    status = situation.status
    if status.snapshot_id is None:
        return SkippedAction(kind=kind, reason="The table has no snapshot yet.")
    if status.snapshot_id in status.metadata.statistics_snapshot_ids and not commits_of(planned):
        return SkippedAction(kind=kind, reason="The current snapshot has its statistics.")
    return RecommendedAction(
        action=ComputeStats(),
        reason="The newest snapshot has no statistics.",
        effect=ExpectedEffect(),
        cost=price(situation.model, gets=status.data.count * 2, puts=2, bytes_rewritten=status.data.bytes),
        conflict_probability=0.0,
    )
