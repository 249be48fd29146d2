"""A table's past: commits with the times they should have, where PyIceberg and Spark would stamp the present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotLogEntry,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.transforms import Transform

from icepack.demo.files import TableFiles, milliseconds


@dataclass(frozen=True, slots=True)
class Partitioning:
    """One partition field, named after its column unless it has a name of its own."""

    column: str
    transform: Transform[Any, Any]
    name: str = ""

    def spec(self, schema: Schema) -> PartitionSpec:
        source, name = schema.find_field(self.column).field_id, self.name or self.column
        return PartitionSpec(PartitionField(source_id=source, field_id=1000, transform=self.transform, name=name))


class TableHistory:
    """One table's commits, oldest first; nobody sees the table before it is registered."""

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        schema: pa.Schema,
        partitioning: Partitioning | None = None,
        properties: Mapping[str, str] = {},
    ) -> None:
        numbered = _numbered(schema)
        spec = partitioning.spec(numbered) if partitioning else UNPARTITIONED_PARTITION_SPEC
        staged = catalog.create_table_transaction(name, numbered, partition_spec=spec, properties=dict(properties))
        self._catalog = catalog
        self._name = name
        self._files = TableFiles(staged.table_metadata)
        self._snapshots: dict[int, Snapshot] = {}
        self._manifests: dict[int | None, list[ManifestFile]] = {None: []}
        self._refs: dict[str, SnapshotRef] = {}

    @property
    def folder(self) -> Path:
        return self._files.folder

    def append(self, files: Sequence[pa.Table], at: datetime, branch: str = MAIN_BRANCH) -> None:
        """One commit that adds a data file for each of the Arrow tables."""
        self._commit(Operation.APPEND, self._files.write_data(files, at), [], at, branch)

    def replace(self, rows: pa.Table, at: datetime) -> None:
        """One commit after which the table holds these rows and no others."""
        manifests = self._manifests[self._head(MAIN_BRANCH)]
        removed = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(self._files.io)]
        self._commit(Operation.OVERWRITE, self._files.write_data([rows], at), removed, at, MAIN_BRANCH)

    def branch(self, name: str) -> None:
        """A branch that starts at the newest snapshot."""
        self._refs[name] = self._refs[MAIN_BRANCH].model_copy()

    def tag(self, name: str) -> None:
        """A tag on the newest snapshot."""
        self._refs[name] = _ref(self._refs[MAIN_BRANCH].snapshot_id, SnapshotRefType.TAG)

    def forget_before(self, at: datetime) -> None:
        """Drops the older snapshots of a table that was only appended to: the newer ones hold all of its files."""
        for snapshot in list(self._snapshots.values()):
            if snapshot.timestamp_ms < milliseconds(at):
                self._files.remove(snapshot.manifest_list)
                del self._snapshots[snapshot.snapshot_id]

    def register(self) -> None:
        """Writes the metadata file and enters the table into the catalog."""
        newest = max(self._snapshots.values(), key=lambda snapshot: snapshot.timestamp_ms)
        metadata = self._files.metadata.model_copy(
            update={
                "snapshots": list(self._snapshots.values()),
                "snapshot_log": self._log(),
                "refs": self._refs,
                "current_snapshot_id": self._head(MAIN_BRANCH),
                "last_sequence_number": newest.sequence_number,
                "last_updated_ms": newest.timestamp_ms,
            }
        )
        self._catalog.register_table(self._name, self._files.write_metadata(metadata))

    def _head(self, branch: str) -> int | None:
        return self._refs[branch].snapshot_id if branch in self._refs else None

    def _log(self) -> list[SnapshotLogEntry]:
        log: list[SnapshotLogEntry] = []
        snapshot_id = self._head(MAIN_BRANCH)
        while snapshot_id in self._snapshots:
            snapshot = self._snapshots[snapshot_id]
            log.insert(0, SnapshotLogEntry(**{"snapshot-id": snapshot_id, "timestamp-ms": snapshot.timestamp_ms}))
            snapshot_id = snapshot.parent_snapshot_id
        return log

    def _commit(
        self,
        operation: Operation,
        added: Sequence[DataFile],
        removed: Sequence[ManifestEntry],
        at: datetime,
        branch: str,
    ) -> None:
        parent_id = self._head(branch)
        snapshot_id = uuid4().int >> 65
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": snapshot_id,
                "parent-snapshot-id": parent_id,
                "sequence-number": len(self._manifests),
                "timestamp-ms": milliseconds(at),
                "manifest-list": self._files.new_manifest_list(snapshot_id),
                "summary": self._summary(operation, parent_id, added, removed),
                "schema-id": self._files.metadata.current_schema_id,
            }
        )
        manifests = self._files.write_manifests(snapshot, [_entry(file) for file in added], removed)
        manifests += [] if removed else self._manifests[parent_id]
        self._files.write_manifest_list(snapshot, manifests)
        self._manifests[snapshot_id] = manifests
        self._snapshots[snapshot_id] = snapshot
        self._refs[branch] = _ref(snapshot_id, SnapshotRefType.BRANCH)

    def _summary(
        self, operation: Operation, parent_id: int | None, added: Sequence[DataFile], removed: Sequence[ManifestEntry]
    ) -> Summary:
        metadata = self._files.metadata
        collector = SnapshotSummaryCollector()
        for file in added:
            collector.add_file(file, metadata.schema(), metadata.spec())
        for entry in removed:
            collector.remove_file(entry.data_file, metadata.schema(), metadata.spec())
        before = self._snapshots[parent_id].summary if parent_id is not None else None
        return update_snapshot_summaries(Summary(operation, **collector.build()), before)


def _numbered(schema: pa.Schema) -> Schema:
    """The Iceberg schema, with field ids from 1."""
    fields = (field.with_metadata({"PARQUET:field_id": str(number)}) for number, field in enumerate(schema, 1))
    return pyarrow_to_schema(pa.schema(fields))


def _ref(snapshot_id: int, kind: SnapshotRefType) -> SnapshotRef:
    return SnapshotRef.model_validate({"snapshot-id": snapshot_id, "type": kind})


def _entry(file: DataFile) -> ManifestEntry:
    return ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file)
