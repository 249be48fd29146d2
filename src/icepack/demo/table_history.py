"""Writes the history of a table with commit times in the past, which PyIceberg and Spark cannot do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotLogEntry,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import Transform

from icepack.demo.table_files import TableFiles, to_iceberg_schema, to_milliseconds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """One partition field, named after its column unless a name is given."""

    column: str
    transform: Transform[Any, Any]
    name: str = ""

    def spec(self, schema: Schema) -> PartitionSpec:
        source, name = schema.find_field(self.column).field_id, self.name or self.column
        return PartitionSpec(PartitionField(source_id=source, field_id=1000, transform=self.transform, name=name))


@dataclass(frozen=True, slots=True)
class _State:
    """A snapshot, its manifests and its live files."""

    snapshot: Snapshot
    manifests: Sequence[ManifestFile]
    live: Sequence[ManifestEntry]


class TableHistory:
    """The commits of one table, oldest first; the table is visible once it is registered.

    Snapshots from before `kept_from` count as expired: they are not in the metadata, but their data files still are.
    """

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        schema: pa.Schema,
        *,
        partitioning: Partitioning | None = None,
        properties: Mapping[str, str] = {},
        kept_from: datetime = EPOCH,
    ) -> None:
        columns = to_iceberg_schema(schema)
        spec = partitioning.spec(columns) if partitioning else UNPARTITIONED_PARTITION_SPEC
        location = f"{catalog.properties['warehouse']}/{name.replace('.', '/')}"
        self._catalog = catalog
        self._name = name
        self._kept_from = kept_from
        self._files = TableFiles(new_table_metadata(columns, spec, UNSORTED_SORT_ORDER, location, dict(properties)))
        self._snapshots: list[Snapshot] = []
        self._heads: dict[str, _State] = {}
        self._tags: dict[str, _State] = {}
        self._commits = 0

    @property
    def folder(self) -> Path:
        return self._files.folder

    def append(self, files: Sequence[pa.Table], at: datetime, branch: str = MAIN_BRANCH) -> None:
        """Commits one data file per Arrow table."""
        self._commit(Operation.APPEND, self._files.write_data(files, at), [], at, branch)

    def replace(self, rows: pa.Table, at: datetime) -> None:
        """Commits an overwrite, after which the table contains only these rows."""
        head = self._heads.get(MAIN_BRANCH)
        removed = head.live if head else []
        self._commit(Operation.OVERWRITE, self._files.write_data([rows], at), removed, at, MAIN_BRANCH)

    def branch(self, name: str) -> None:
        """Creates a branch at the newest snapshot."""
        self._heads[name] = self._heads[MAIN_BRANCH]

    def tag(self, name: str) -> None:
        """Creates a tag on the newest snapshot."""
        self._tags[name] = self._heads[MAIN_BRANCH]

    def register(self) -> None:
        """Writes the metadata file and registers the table in the catalog."""
        newest = max(self._snapshots, key=lambda snapshot: snapshot.timestamp_ms)
        metadata = self._files.metadata.model_copy(
            update={
                "snapshots": self._snapshots,
                "snapshot_log": self._snapshot_log(),
                "refs": self._refs(),
                "current_snapshot_id": self._heads[MAIN_BRANCH].snapshot.snapshot_id,
                "last_sequence_number": self._commits,
                "last_updated_ms": newest.timestamp_ms,
            }
        )
        self._catalog.register_table(self._name, self._files.write_metadata(metadata, newest))

    def _refs(self) -> dict[str, SnapshotRef]:
        branches = {name: _ref(state, SnapshotRefType.BRANCH) for name, state in self._heads.items()}
        return branches | {name: _ref(state, SnapshotRefType.TAG) for name, state in self._tags.items()}

    def _snapshot_log(self) -> list[SnapshotLogEntry]:
        """Returns the snapshots that `main` has pointed to."""
        log: list[SnapshotLogEntry] = []
        wanted: int | None = self._heads[MAIN_BRANCH].snapshot.snapshot_id
        for snapshot in reversed(self._snapshots):
            if snapshot.snapshot_id == wanted:
                log.insert(0, SnapshotLogEntry(**{"snapshot-id": wanted, "timestamp-ms": snapshot.timestamp_ms}))
                wanted = snapshot.parent_snapshot_id
        return log

    def _commit(
        self,
        operation: Operation,
        files: Sequence[DataFile],
        removed: Sequence[ManifestEntry],
        at: datetime,
        branch: str,
    ) -> None:
        parent = self._heads.get(branch)
        self._commits += 1
        snapshot = self._snapshot(parent, self._summary(operation, parent, files, removed), at)
        added = [_added_entry(file, snapshot) for file in files]
        manifests = [self._files.write_manifest(snapshot, added, removed)]
        if parent is None or removed:
            state = _State(snapshot, manifests, added)
        else:
            state = _State(snapshot, [*manifests, *parent.manifests], [*added, *parent.live])
        self._heads[branch] = state
        if at >= self._kept_from:
            self._files.write_manifest_list(snapshot, state.manifests)
            self._snapshots.append(snapshot)

    def _snapshot(self, parent: _State | None, summary: Summary, at: datetime) -> Snapshot:
        snapshot_id = uuid4().int >> 65
        return Snapshot.model_validate(
            {
                "snapshot-id": snapshot_id,
                "parent-snapshot-id": parent.snapshot.snapshot_id if parent else None,
                "sequence-number": self._commits,
                "timestamp-ms": to_milliseconds(at),
                "manifest-list": self._files.new_manifest_list(snapshot_id),
                "summary": summary,
                "schema-id": self._files.schema.schema_id,
            }
        )

    def _summary(
        self, operation: Operation, parent: _State | None, files: Sequence[DataFile], removed: Sequence[ManifestEntry]
    ) -> Summary:
        collector = SnapshotSummaryCollector()
        for file in files:
            collector.add_file(file, self._files.schema, self._files.spec)
        for entry in removed:
            collector.remove_file(entry.data_file, self._files.schema, self._files.spec)
        return update_snapshot_summaries(
            Summary(operation, **collector.build()), parent.snapshot.summary if parent else None
        )


def _ref(state: _State, kind: SnapshotRefType) -> SnapshotRef:
    return SnapshotRef.model_validate({"snapshot-id": state.snapshot.snapshot_id, "type": kind})


def _added_entry(file: DataFile, snapshot: Snapshot) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED,
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number,
        file_sequence_number=snapshot.sequence_number,
        data_file=file,
    )
