"""TableStatus: what was observed of a table, without conclusions; health.py draws those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.table import TableId
from icepack.domain.units import GIB, MIB

STATUS_VERSION = 1

HISTOGRAM_BOUNDS_BYTES = (MIB, 8 * MIB, 32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB, GIB)
SMALL_FILE_THRESHOLDS_BYTES = (8 * MIB, 32 * MIB, 128 * MIB)
DEFAULT_TARGET_FILE_BYTES = 512 * MIB
DEFAULT_MANIFEST_TARGET_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeBucket:
    """Data files smaller than `below_bytes` and no smaller than the previous bucket; None means no upper limit."""

    below_bytes: int | None
    count: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFiles:
    threshold_bytes: int
    count: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileStatus:
    count: int = 0
    bytes: int = 0
    records: int = 0
    histogram: tuple[SizeBucket, ...] = ()
    small: tuple[SmallFiles, ...] = ()

    @property
    def average_bytes(self) -> float:
        return self.bytes / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFileTotals:
    files: int = 0
    bytes: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStatus:
    position: DeleteFileTotals = DeleteFileTotals()
    equality: DeleteFileTotals = DeleteFileTotals()
    vectors: DeleteFileTotals = DeleteFileTotals()
    dangling_files: int = 0

    @property
    def files(self) -> int:
        return self.position.files + self.equality.files + self.vectors.files

    @property
    def bytes(self) -> int:
        return self.position.bytes + self.equality.bytes + self.vectors.bytes

    @property
    def records(self) -> int:
        return self.position.records + self.equality.records + self.vectors.records


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """The files and deletes of one partition; small files are those below the table's `small_file_bytes`."""

    key: PartitionKey
    values: tuple[PartitionValue, ...] = ()
    data_files: int = 0
    bytes: int = 0
    records: int = 0
    small_files: int = 0
    small_bytes: int = 0
    position_delete_files: int = 0
    equality_delete_files: int = 0
    deletion_vectors: int = 0
    delete_records: int = 0
    files_with_deletes: int = 0
    bytes_with_deletes: int = 0
    commits_last_day: int = 0
    last_written_at: datetime | None = None
    last_compacted_at: datetime | None = None
    # When the period of time that this partition covers ends; None if it covers none.
    ends_at: datetime | None = None

    @property
    def delete_files(self) -> int:
        return self.position_delete_files + self.equality_delete_files + self.deletion_vectors

    def is_open(self, now: datetime, grace: timedelta) -> bool:
        """Whether writers may still add to this partition: its period, plus a grace time, is not over."""
        return self.ends_at is not None and now - grace < self.ends_at


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEntry:
    snapshot_id: int
    parent_id: int | None
    committed_at: datetime
    operation: str
    job_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    name: str
    kind: str
    snapshot_id: int
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotStatus:
    count: int = 0
    oldest_at: datetime | None = None
    newest_at: datetime | None = None
    refs: tuple[Ref, ...] = ()
    entries: tuple[SnapshotEntry, ...] = ()

    @property
    def branches(self) -> tuple[str, ...]:
        return tuple(ref.name for ref in self.refs if ref.kind == "branch")

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(ref.name for ref in self.refs if ref.kind == "tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestStatus:
    count: int = 0
    delete_manifests: int = 0
    bytes: int = 0
    largest_bytes: int = 0
    entries: int = 0
    target_bytes: int = DEFAULT_MANIFEST_TARGET_BYTES

    @property
    def average_entries(self) -> float:
        return self.entries / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataStatus:
    file_bytes: int = 0
    log_length: int = 0
    schemas: int = 1
    partition_specs: int = 1
    statistics_snapshot_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """How often writers commit: commits per hour over the 24 hours before the newest snapshot."""

    appends_per_hour: float = 0.0
    row_changes_per_hour: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """Everything that was observed of one table at one snapshot."""

    table: TableId
    observed_at: datetime
    metadata_location: str
    table_uuid: str
    format_version: int
    location: str
    snapshot_id: int | None
    data: DataFileStatus = DataFileStatus()
    deletes: DeleteStatus = DeleteStatus()
    partitions: tuple[PartitionStatus, ...] = ()
    snapshots: SnapshotStatus = SnapshotStatus()
    manifests: ManifestStatus = ManifestStatus()
    metadata: MetadataStatus = MetadataStatus()
    cadence: Cadence = Cadence()
    last_compaction_at: datetime | None = None
    target_file_bytes: int = DEFAULT_TARGET_FILE_BYTES
    small_file_bytes: int = 32 * MIB
    properties: Mapping[str, str] = field(default_factory=dict)
    sort_order: str = ""
    partition_spec: str = ""
    version: int = STATUS_VERSION

    @property
    def gc_enabled(self) -> bool:
        return self.properties.get("gc.enabled", "true").lower() == "true"

    @property
    def time_since_compaction(self) -> timedelta | None:
        """How long before the observation the table was last compacted; None if never."""
        return None if self.last_compaction_at is None else self.observed_at - self.last_compaction_at

    @property
    def total_bytes(self) -> int:
        return self.data.bytes + self.deletes.bytes


def parse_int_property(properties: Mapping[str, str], key: str) -> int | None:
    """Returns the value of a numeric table property; None if it is not set or not a whole number."""
    text = properties.get(key, "").strip()
    return int(text) if text.isascii() and text.isdecimal() else None
