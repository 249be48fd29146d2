"""Reads from the snapshots what the commits of a job changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from icepack.catalog.catalog import Catalogs
from icepack.catalog.errors import wrap_table_errors
from icepack.catalog.live_files import size_histogram
from icepack.catalog.manifests import ADDED, DATA, DELETED, ManifestReader, filter_live
from icepack.domain.run import CommitFacts
from icepack.domain.table import TableId

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

JOB_ID_PROPERTY = "icepack.job-id"
ATTEMPT_PROPERTY = "icepack.attempt"
ROWS_DROPPED_PROPERTY = "icepack.rows-dropped"
PART_PROPERTY = "icepack.part"


class SnapshotCommitReader:
    """Finds the snapshots whose summary carries a job id and compares each with its parent."""

    def __init__(self, catalogs: Catalogs, reader: ManifestReader) -> None:
        self._catalogs = catalogs
        self._reader = reader

    def commits_of(self, table: TableId, job_id: UUID) -> Sequence[CommitFacts]:
        loaded = self._catalogs.load(table)
        with wrap_table_errors(table):
            return [
                self._facts(loaded, snapshot)
                for snapshot in loaded.metadata.snapshots
                if _summary_property(snapshot, JOB_ID_PROPERTY) == str(job_id)
            ]

    def _facts(self, loaded: Table, snapshot: Snapshot) -> CommitFacts:
        after = self._entries(loaded, snapshot)
        parent = loaded.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
        before = filter_live(self._entries(loaded, parent)) if parent else after.slice(0, 0)
        changed = after.filter(pc.equal(after["snapshot_id"], snapshot.snapshot_id))
        added, removed = _by_status(changed, ADDED), _by_status(changed, DELETED)
        live = filter_live(after)
        return CommitFacts(
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_snapshot_id,
            operation=snapshot.summary.operation.value if snapshot.summary else "unknown",
            added_data_files=_data(added).num_rows,
            removed_data_files=_data(removed).num_rows,
            added_records=_sum(_data(added), "records"),
            removed_records=_sum(_data(removed), "records"),
            added_bytes=_sum(_data(added), "bytes"),
            removed_bytes=_sum(_data(removed), "bytes"),
            added_delete_files=_deletes(added).num_rows,
            removed_delete_files=_deletes(removed).num_rows,
            deletes_before=_deletes(before).num_rows,
            live_files_before=before.num_rows,
            live_files_after=live.num_rows,
            live_records_before=_sum(_data(before), "records"),
            live_records_after=_sum(_data(live), "records"),
            parent_known=parent is not None,
            attempt=_summary_number(snapshot, ATTEMPT_PROPERTY) or 0,
            rows_dropped=_summary_number(snapshot, ROWS_DROPPED_PROPERTY),
            is_part=_summary_property(snapshot, PART_PROPERTY) is not None,
            added_sizes=tuple(bucket for bucket in size_histogram(_data(added)["bytes"]) if bucket.count),
        )

    def _entries(self, loaded: Table, snapshot: Snapshot) -> pa.Table:
        return self._reader.entries(loaded.io, snapshot.manifests(loaded.io))


def _summary_property(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary.additional_properties.get(name) if snapshot.summary else None


def _summary_number(snapshot: Snapshot, name: str) -> int | None:
    value = _summary_property(snapshot, name) or ""
    return int(value) if value.isdecimal() else None


def _by_status(entries: pa.Table, status: int) -> pa.Table:
    return entries.filter(pc.equal(entries["status"], status))


def _data(entries: pa.Table) -> pa.Table:
    return entries.filter(pc.equal(entries["content"], DATA))


def _deletes(entries: pa.Table) -> pa.Table:
    return entries.filter(pc.not_equal(entries["content"], DATA))


def _sum(entries: pa.Table, column: str) -> int:
    return int(pc.sum(entries[column]).as_py() or 0)
