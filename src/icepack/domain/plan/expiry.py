"""Finds the snapshots that expiry would remove, by Iceberg's retention rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from icepack.domain.status import Ref, SnapshotEntry, SnapshotStatus
from icepack.domain.units import from_milliseconds


def find_expired_snapshots(
    snapshots: SnapshotStatus,
    *,
    older_than: timedelta,
    retain_last: int,
    now: datetime,
    max_ref_age: timedelta | None = None,
) -> frozenset[int]:
    """Returns the ids of all snapshots that are not retained by a branch, a tag or their age.

    A branch retains its newest snapshots by count and by age; its own settings take precedence over the arguments. A
    tag retains its one snapshot. A ref past its maximum age retains nothing, but `main` never ages out. Snapshots that
    no branch reaches are retained until they are older than `older_than`. `max_ref_age` applies to refs without a
    maximum age of their own.
    """
    by_id = {entry.snapshot_id: entry for entry in snapshots.entries}
    kept: set[int] = set()
    reached: set[int] = set()
    for ref in snapshots.refs:
        if ref.snapshot_id not in by_id or _is_ref_expired(ref, by_id[ref.snapshot_id], max_ref_age, now):
            continue
        kept.add(ref.snapshot_id)
        if ref.kind == "branch":
            kept |= _find_kept_by_branch(ref, by_id, older_than, retain_last, now)
            reached |= set(_list_ancestors(ref.snapshot_id, by_id))
    kept |= {
        entry.snapshot_id
        for entry in snapshots.entries
        if entry.snapshot_id not in reached and not _is_older(entry, older_than, now)
    }
    return frozenset(by_id.keys() - kept)


def _is_older(entry: SnapshotEntry, limit: timedelta, now: datetime) -> bool:
    return now - entry.committed_at > limit


def _is_ref_expired(ref: Ref, head: SnapshotEntry, max_ref_age: timedelta | None, now: datetime) -> bool:
    limit = max_ref_age if ref.max_ref_age_ms is None else from_milliseconds(ref.max_ref_age_ms)
    return ref.name != "main" and limit is not None and _is_older(head, limit, now)


def _find_kept_by_branch(
    ref: Ref, by_id: Mapping[int, SnapshotEntry], older_than: timedelta, retain_last: int, now: datetime
) -> set[int]:
    min_count = ref.min_snapshots_to_keep or retain_last
    limit = older_than if ref.max_snapshot_age_ms is None else from_milliseconds(ref.max_snapshot_age_ms)
    kept: set[int] = set()
    for snapshot_id in _list_ancestors(ref.snapshot_id, by_id):
        if len(kept) >= min_count and _is_older(by_id[snapshot_id], limit, now):
            break
        kept.add(snapshot_id)
    return kept


def _list_ancestors(snapshot_id: int | None, by_id: Mapping[int, SnapshotEntry]) -> list[int]:
    found = []
    while snapshot_id is not None and snapshot_id in by_id:
        found.append(snapshot_id)
        snapshot_id = by_id[snapshot_id].parent_id
    return found
