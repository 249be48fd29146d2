"""Writes a table's files through PyIceberg's own writers, each with the time of its commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import pyarrow_to_schema, write_file
from pyiceberg.manifest import (
    DataFile,
    ManifestEntry,
    ManifestFile,
    ManifestWriter,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import WriteTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

FORMAT_VERSION: Literal[2] = 2
CODEC: Literal["deflate"] = "deflate"


def milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


class TableFiles:
    """The files of one table, in the order in which a commit writes them."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.metadata = metadata
        self.io = load_file_io(location=metadata.location)
        self._places = load_location_provider(metadata.location, metadata.properties)

    @property
    def folder(self) -> Path:
        return _local_path(self.metadata.location)

    def write_data(self, files: Sequence[pa.Table], at: datetime) -> list[DataFile]:
        """A data file for each of the Arrow tables."""
        written = list(write_file(self.io, self.metadata, map(self._task, range(len(files)), files)))
        for file in written:
            _date_back(file.file_path, milliseconds(at))
        return written

    def _task(self, number: int, rows: pa.Table) -> WriteTask:
        return WriteTask(
            write_uuid=uuid4(),
            task_id=number,
            schema=pyarrow_to_schema(rows.schema, name_mapping=self.metadata.schema().name_mapping),
            record_batches=rows.to_batches(),
            partition_key=self._partition_key(rows),
        )

    def _partition_key(self, rows: pa.Table) -> PartitionKey | None:
        """All rows of a file are of one partition, so the first row tells which."""
        spec = self.metadata.spec()
        if spec.is_unpartitioned():
            return None
        first = rows.slice(0, 1).to_pylist()[0]
        return PartitionKey(
            [self._partition_value(field, first) for field in spec.fields], spec, self.metadata.schema()
        )

    def _partition_value(self, field: PartitionField, row: dict[str, Any]) -> PartitionFieldValue:
        source = self.metadata.schema().find_field(field.source_id)
        return PartitionFieldValue(field, field.transform.transform(source.field_type)(row[source.name]))

    def write_manifests(
        self, snapshot: Snapshot, added: Sequence[ManifestEntry], removed: Sequence[ManifestEntry]
    ) -> list[ManifestFile]:
        """One manifest for what came, and one for what went, if anything did."""
        manifests = []
        if added:
            with self._manifest_writer(snapshot) as writer:
                for entry in added:
                    writer.add(entry)
            manifests.append(_finished(writer, snapshot))
        if removed:
            with self._manifest_writer(snapshot) as writer:
                for entry in removed:
                    writer.delete(entry)
            manifests.append(_finished(writer, snapshot))
        return manifests

    def _manifest_writer(self, snapshot: Snapshot) -> ManifestWriter:
        output = self.io.new_output(self._places.new_metadata_location(f"{uuid4()}-m0.avro"))
        spec, schema = self.metadata.spec(), self.metadata.schema()
        return write_manifest(FORMAT_VERSION, spec, schema, output, snapshot.snapshot_id, CODEC)

    def write_manifest_list(self, snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> None:
        with write_manifest_list(
            FORMAT_VERSION,
            self.io.new_output(snapshot.manifest_list),
            snapshot.snapshot_id,
            snapshot.parent_snapshot_id,
            snapshot.sequence_number,
            CODEC,
        ) as writer:
            writer.add_manifests(list(manifests))
        _date_back(snapshot.manifest_list, snapshot.timestamp_ms)

    def new_manifest_list(self, snapshot_id: int) -> str:
        return self._places.new_metadata_location(f"snap-{snapshot_id}-0-{uuid4()}.avro")

    def write_metadata(self, metadata: TableMetadata) -> str:
        location = self._places.new_table_metadata_file_location()
        ToOutputFile.table_metadata(metadata, self.io.new_output(location))
        _date_back(location, metadata.last_updated_ms)
        return location

    def remove(self, location: str) -> None:
        _local_path(location).unlink()


def _finished(writer: ManifestWriter, snapshot: Snapshot) -> ManifestFile:
    manifest = writer.to_manifest_file()
    manifest.sequence_number = manifest.min_sequence_number = snapshot.sequence_number or 0
    _date_back(manifest.manifest_path, snapshot.timestamp_ms)
    return manifest


def _local_path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def _date_back(location: str, timestamp_ms: int) -> None:
    os.utime(_local_path(location), (timestamp_ms / 1000, timestamp_ms / 1000))
