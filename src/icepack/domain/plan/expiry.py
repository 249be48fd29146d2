"""Which snapshots expiry would remove: Iceberg's retention rules as a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from icepack.domain.status import Ref, SnapshotEntry, SnapshotStatus


def expired_snapshots(
    snapshots: SnapshotStatus, *, older_than: timedelta, retain_last: int, now: datetime
) -> frozenset[int]:
    """Every snapshot that no branch, tag or age keeps.

    A branch keeps its newest snapshots by count and by age (its own settings beat the defaults), a tag
    keeps its one, an aged-out ref keeps nothing, `main` never ages out; what no ref reaches stays
    while it is young.
    """
    by_id = {entry.snapshot_id: entry for entry in snapshots.entries}
    cutoff = now - older_than
    kept: set[int] = set()
    reached: set[int] = set()
    for ref in snapshots.refs:
        if ref.snapshot_id not in by_id or _ref_expired(ref, by_id[ref.snapshot_id], now):
            continue
        if ref.kind == "branch":
            kept |= _kept_by_branch(ref, by_id, cutoff, retain_last, now)
            reached |= set(_ancestors(ref.snapshot_id, by_id))
        else:
            kept.add(ref.snapshot_id)
    kept |= {
        entry.snapshot_id
        for entry in snapshots.entries
        if entry.snapshot_id not in reached and entry.committed_at >= cutoff
    }
    return frozenset(by_id.keys() - kept)


def _ref_expired(ref: Ref, head: SnapshotEntry, now: datetime) -> bool:
    if ref.name == "main" or ref.max_ref_age_ms is None:
        return False
    return now - head.committed_at > timedelta(milliseconds=ref.max_ref_age_ms)


def _kept_by_branch(
    ref: Ref, by_id: Mapping[int, SnapshotEntry], cutoff: datetime, retain_last: int, now: datetime
) -> set[int]:
    least = ref.min_snapshots_to_keep or retain_last
    if ref.max_snapshot_age_ms is not None:
        cutoff = now - timedelta(milliseconds=ref.max_snapshot_age_ms)
    kept: set[int] = set()
    for snapshot_id in _ancestors(ref.snapshot_id, by_id):
        if len(kept) >= least and by_id[snapshot_id].committed_at < cutoff:
            break
        kept.add(snapshot_id)
    return kept


def _ancestors(snapshot_id: int | None, by_id: Mapping[int, SnapshotEntry]) -> list[int]:
    found = []
    while snapshot_id is not None and snapshot_id in by_id:
        found.append(snapshot_id)
        snapshot_id = by_id[snapshot_id].parent_id
    return found
