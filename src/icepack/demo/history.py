"""Tables whose snapshots carry the times they should have: PyIceberg's own writers, without its clock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import pyarrow_to_schema, write_file
from pyiceberg.manifest import (
    DataFile,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import (
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionFieldValue,
    PartitionKey,
    PartitionSpec,
)
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import WriteTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
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

FORMAT_VERSION = 2
CODEC = "deflate"


def partitioned_by(schema: pa.Schema, column: str, transform: Transform[Any, Any], name: str) -> PartitionSpec:
    """A spec of one field; PyIceberg numbers the columns of an Arrow schema from 1."""
    source = schema.get_field_index(column) + 1
    return PartitionSpec(PartitionField(source_id=source, field_id=1000, transform=transform, name=name))


def local_path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def date_back(path: Path, at: datetime) -> None:
    os.utime(path, (at.timestamp(), at.timestamp()))


class TableHistory:
    """One table's commits, oldest first; nobody sees the table before it is registered."""

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        schema: pa.Schema,
        *,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        properties: dict[str, str] | None = None,
    ) -> None:
        self._catalog = catalog
        self._name = name
        staged = catalog.create_table_transaction(name, schema, partition_spec=spec, properties=properties or {})
        self._metadata: TableMetadata = staged.table_metadata
        self._io: FileIO = load_file_io(location=self._metadata.location)
        self._places = load_location_provider(self._metadata.location, self._metadata.properties)
        self._written_schema = pyarrow_to_schema(schema, name_mapping=self._metadata.schema().name_mapping)
        self._snapshots: list[Snapshot] = []
        self._manifests: dict[int, list[ManifestFile]] = {}
        self._refs: dict[str, SnapshotRef] = {}

    @property
    def folder(self) -> Path:
        return local_path(self._metadata.location)

    def append(self, files: Sequence[pa.Table], at: datetime, branch: str = MAIN_BRANCH) -> None:
        """One commit that adds a data file for each of the Arrow tables."""
        added = self._write(files, at)
        self._commit(Operation.APPEND, branch, at, added, [])

    def replace(self, rows: pa.Table, at: datetime) -> None:
        """One commit after which the table holds these rows and no others."""
        head = self._head(MAIN_BRANCH)
        before = self._manifests[head.snapshot_id] if head else []
        removed = [entry for manifest in before for entry in manifest.fetch_manifest_entry(self._io)]
        self._commit(Operation.OVERWRITE, MAIN_BRANCH, at, self._write([rows], at), removed)

    def branch(self, name: str) -> None:
        """A branch that starts at the newest snapshot."""
        self._refs[name] = SnapshotRef(self._refs[MAIN_BRANCH].snapshot_id, SnapshotRefType.BRANCH)

    def tag(self, name: str) -> None:
        """A tag on the newest snapshot."""
        self._refs[name] = SnapshotRef(self._refs[MAIN_BRANCH].snapshot_id, SnapshotRefType.TAG)

    def forget_before(self, at: datetime) -> None:
        """Drops older snapshots of an append-only history, whose files the newer ones all hold."""
        limit = _milliseconds(at)
        for snapshot in self._snapshots:
            if snapshot.timestamp_ms < limit:
                local_path(snapshot.manifest_list).unlink()
        self._snapshots = [snapshot for snapshot in self._snapshots if snapshot.timestamp_ms >= limit]

    def register(self) -> None:
        """Writes the metadata file and tells the catalog."""
        created_at = self._snapshots[-1].timestamp_ms
        metadata = self._metadata.model_copy(
            update={
                "snapshots": self._snapshots,
                "snapshot_log": self._log(),
                "refs": self._refs,
                "current_snapshot_id": self._refs[MAIN_BRANCH].snapshot_id,
                "last_sequence_number": self._snapshots[-1].sequence_number,
                "last_updated_ms": created_at,
            }
        )
        location = self._places.new_table_metadata_file_location()
        ToOutputFile.table_metadata(metadata, self._io.new_output(location))
        os.utime(local_path(location), (created_at / 1000, created_at / 1000))
        self._catalog.register_table(self._name, location)

    def _log(self) -> list[SnapshotLogEntry]:
        by_id = {snapshot.snapshot_id: snapshot for snapshot in self._snapshots}
        log = []
        current = by_id.get(self._refs[MAIN_BRANCH].snapshot_id)
        while current is not None:
            log.append(SnapshotLogEntry(snapshot_id=current.snapshot_id, timestamp_ms=current.timestamp_ms))
            current = by_id.get(current.parent_snapshot_id or 0)
        return log[::-1]

    def _head(self, branch: str) -> Snapshot | None:
        ref = self._refs.get(branch)
        return next((snap for snap in self._snapshots if ref and snap.snapshot_id == ref.snapshot_id), None)

    def _write(self, files: Sequence[pa.Table], at: datetime) -> list[DataFile]:
        job = uuid4()
        tasks = (
            WriteTask(
                write_uuid=job,
                task_id=number,
                schema=self._written_schema,
                record_batches=rows.to_batches(),
                partition_key=self._partition_key(rows),
            )
            for number, rows in enumerate(files)
        )
        written = list(write_file(self._io, self._metadata, tasks))
        for file in written:
            date_back(local_path(file.file_path), at)
        return written

    def _partition_key(self, rows: pa.Table) -> PartitionKey | None:
        """All rows of one file are of one partition, so the first one tells."""
        spec, schema = self._metadata.spec(), self._metadata.schema()
        if spec.is_unpartitioned():
            return None
        values = []
        for field in spec.fields:
            source = schema.find_field(field.source_id)
            transform = field.transform.transform(source.field_type)
            values.append(PartitionFieldValue(field, transform(rows[source.name][0].as_py())))
        return PartitionKey(values, spec, schema)

    def _commit(
        self, operation: Operation, branch: str, at: datetime, added: Sequence[DataFile], removed: Sequence[ManifestEntry]
    ) -> None:
        parent = self._head(branch)
        snapshot = Snapshot(
            snapshot_id=uuid4().int >> 65,
            parent_snapshot_id=parent.snapshot_id if parent else None,
            sequence_number=len(self._manifests) + 1,
            timestamp_ms=_milliseconds(at),
            manifest_list=self._places.new_metadata_location(f"snap-{uuid4()}.avro"),
            summary=self._summary(operation, parent, added, removed),
            schema_id=self._metadata.current_schema_id,
        )
        kept = self._manifests[parent.snapshot_id] if parent and not removed else []
        manifests = [self._write_manifest(snapshot, _added(added), at)]
        if removed:
            manifests.append(self._write_manifest(snapshot, removed, at, ManifestEntryStatus.DELETED))
        self._write_manifest_list(snapshot, [*manifests, *kept], at)
        self._manifests[snapshot.snapshot_id] = [*manifests, *kept]
        self._snapshots.append(snapshot)
        self._refs[branch] = SnapshotRef(snapshot.snapshot_id, SnapshotRefType.BRANCH)
