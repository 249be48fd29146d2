"""Which snapshots expiry would remove: Iceberg's retention rules as a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from icepack.domain.status import Ref, SnapshotEntry, SnapshotStatus
from icepack.domain.units import from_milliseconds


def expired_snapshots(
    snapshots: SnapshotStatus,
    *,
    older_than: timedelta,
    retain_last: int,
    now: datetime,
    max_ref_age: timedelta | None = None,
) -> frozenset[int]:
    """Every snapshot that no branch, tag or age keeps.

    A branch keeps its newest snapshots by count and by age (its own settings beat the defaults), a tag
    keeps its one, an aged-out ref keeps nothing, `main` never ages out; what no ref reaches stays
    while it is young. `max_ref_age` is for refs without an age of their own.
    """
    by_id = {entry.snapshot_id: entry for entry in snapshots.entries}
    kept: set[int] = set()
    reached: set[int] = set()
    for ref in snapshots.refs:
        if ref.snapshot_id not in by_id or _ref_expired(ref, by_id[ref.snapshot_id], max_ref_age, now):
            continue
        kept.add(ref.snapshot_id)
        if ref.kind == "branch":
            kept |= _kept_by_branch(ref, by_id, older_than, retain_last, now)
            reached |= set(_ancestors(ref.snapshot_id, by_id))
    kept |= {
        entry.snapshot_id
        for entry in snapshots.entries
        if entry.snapshot_id not in reached and not _is_older(entry, older_than, now)
    }
    return frozenset(by_id.keys() - kept)


def _is_older(entry: SnapshotEntry, limit: timedelta, now: datetime) -> bool:
    return now - entry.committed_at > limit


def _ref_expired(ref: Ref, head: SnapshotEntry, max_ref_age: timedelta | None, now: datetime) -> bool:
    limit = max_ref_age if ref.max_ref_age_ms is None else from_milliseconds(ref.max_ref_age_ms)
    return ref.name != "main" and limit is not None and _is_older(head, limit, now)


def _kept_by_branch(
    ref: Ref, by_id: Mapping[int, SnapshotEntry], older_than: timedelta, retain_last: int, now: datetime
) -> set[int]:
    least = ref.min_snapshots_to_keep or retain_last
    limit = older_than if ref.max_snapshot_age_ms is None else from_milliseconds(ref.max_snapshot_age_ms)
    kept: set[int] = set()
    for snapshot_id in _ancestors(ref.snapshot_id, by_id):
        if len(kept) >= least and _is_older(by_id[snapshot_id], limit, now):
            break
        kept.add(snapshot_id)
    return kept


def _ancestors(snapshot_id: int | None, by_id: Mapping[int, SnapshotEntry]) -> list[int]:
    found = []
    while snapshot_id is not None and snapshot_id in by_id:
        found.append(snapshot_id)
        snapshot_id = by_id[snapshot_id].parent_id
    return found
