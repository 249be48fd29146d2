"""Writes the files of a table with PyIceberg's own writers, and sets their modification time to that of the commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
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
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import WriteTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

FORMAT_VERSION: Literal[2] = 2
CODEC: Literal["deflate"] = "deflate"


def to_milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def set_modified_time(path: Path, at: datetime) -> None:
    os.utime(path, (at.timestamp(), at.timestamp()))


def to_iceberg_schema(schema: pa.Schema) -> Schema:
    """Converts an Arrow schema to an Iceberg schema with field ids from 1."""
    fields = (field.with_metadata({"PARQUET:field_id": str(number)}) for number, field in enumerate(schema, 1))
    return pyarrow_to_schema(pa.schema(fields))


class TableFiles:
    """Writes the files of one table, in the order in which a commit writes them."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.metadata = metadata
        self.schema = metadata.schema()
        self.spec = metadata.spec()
        self._io = load_file_io(location=metadata.location)
        self._locations = load_location_provider(metadata.location, metadata.properties)

    @property
    def folder(self) -> Path:
        return _path(self.metadata.location)

    def write_data(self, files: Sequence[pa.Table], at: datetime) -> list[DataFile]:
        """Writes one data file per Arrow table."""
        written = list(write_file(self._io, self.metadata, map(self._task, range(len(files)), files)))
        for file in written:
            set_modified_time(_path(file.file_path), at)
        return written

    def _task(self, number: int, rows: pa.Table) -> WriteTask:
        return WriteTask(
            write_uuid=uuid4(),
            task_id=number,
            schema=self.schema,
            record_batches=rows.to_batches(),
            partition_key=self._partition_key(rows),
        )

    def _partition_key(self, rows: pa.Table) -> PartitionKey | None:
        """All rows of a file belong to one partition, so the first row determines it."""
        if self.spec.is_unpartitioned():
            return None
        first = rows.slice(0, 1).to_pylist()[0]
        return PartitionKey([self._partition_value(field, first) for field in self.spec.fields], self.spec, self.schema)

    def _partition_value(self, field: PartitionField, row: dict[str, Any]) -> PartitionFieldValue:
        source = self.schema.find_field(field.source_id)
        return PartitionFieldValue(field, field.transform.transform(source.field_type)(row[source.name]))

    def write_manifest(
        self, snapshot: Snapshot, added: Sequence[ManifestEntry], removed: Sequence[ManifestEntry]
    ) -> ManifestFile:
        output = self._io.new_output(self._locations.new_metadata_location(f"{uuid4()}-m0.avro"))
        with write_manifest(FORMAT_VERSION, self.spec, self.schema, output, snapshot.snapshot_id, CODEC) as writer:
            for entry in added:
                writer.add(entry)
            for entry in removed:
                writer.delete(entry)
        manifest = writer.to_manifest_file()
        manifest.sequence_number = manifest.min_sequence_number = snapshot.sequence_number or 0
        set_modified_time(_path(manifest.manifest_path), _commit_time(snapshot))
        return manifest

    def new_manifest_list(self, snapshot_id: int) -> str:
        return self._locations.new_metadata_location(f"snap-{snapshot_id}-0-{uuid4()}.avro")

    def write_manifest_list(self, snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> None:
        with write_manifest_list(
            FORMAT_VERSION,
            self._io.new_output(snapshot.manifest_list),
            snapshot.snapshot_id,
            snapshot.parent_snapshot_id,
            snapshot.sequence_number,
            CODEC,
        ) as writer:
            writer.add_manifests(list(manifests))
        set_modified_time(_path(snapshot.manifest_list), _commit_time(snapshot))

    def write_metadata(self, metadata: TableMetadata, newest: Snapshot) -> str:
        location = self._locations.new_table_metadata_file_location()
        ToOutputFile.table_metadata(metadata, self._io.new_output(location))
        set_modified_time(_path(location), _commit_time(newest))
        return location


def _path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def _commit_time(snapshot: Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
