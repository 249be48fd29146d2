"""The default metadata inspector: uses PyIceberg, reads manifests through the cache, and never opens a data file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from icepack.catalog.catalog import Catalogs
from icepack.catalog.errors import wrap_table_errors
from icepack.catalog.expiry import preview_expiry
from icepack.catalog.expressions import to_pyiceberg, wrap_literal_errors
from icepack.catalog.live_files import LiveFiles, is_compaction
from icepack.catalog.manifests import ENTRY_SCHEMA, ManifestReader, decode_partition, filter_live
from icepack.clock import utc_now
from icepack.domain.actions import ExpireSnapshots
from icepack.domain.plan.expiry import find_expired_snapshots
from icepack.domain.plan.expression import Expression
from icepack.domain.plan.files import FileListing, PartitionKey
from icepack.domain.ports.catalog import ExpiryPreview, SizeThresholds
from icepack.domain.status import (
    DEFAULT_MANIFEST_TARGET_BYTES,
    DEFAULT_TARGET_FILE_BYTES,
    Cadence,
    ManifestStatus,
    MetadataStatus,
    Ref,
    SnapshotEntry,
    SnapshotStatus,
    TableStatus,
    parse_int_property,
)
from icepack.domain.table import TableId
from icepack.domain.units import MIB, from_milliseconds
from icepack.errors import InvalidOption

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

# The sizes that apply to tables without a target size of their own.
DEFAULT_THRESHOLDS = SizeThresholds(target_file_bytes=DEFAULT_TARGET_FILE_BYTES, small_file_bytes=32 * MIB)
# The commit rate is measured over this period before the newest snapshot.
CADENCE_WINDOW = timedelta(days=1)
# Prefixes of the table properties that a status includes.
_STATUS_PROPERTIES = ("write.", "read.", "history.", "commit.", "gc.", "format", "icepack.", "schema.name-mapping")


class PyIcebergInspector:
    """Reads the status, files and partitions of tables with format version 1 to 3."""

    def __init__(self, catalogs: Catalogs, reader: ManifestReader, clock: Callable[[], datetime] = utc_now) -> None:
        self._catalogs = catalogs
        self._reader = reader
        self._clock = clock

    def properties(self, table: TableId) -> Mapping[str, str]:
        return self._catalogs.load(table).properties

    def inspect(self, table: TableId) -> TableStatus:
        return self.inspect_with_thresholds(table, lambda _: DEFAULT_THRESHOLDS)[0]

    def inspect_with_thresholds(
        self, table: TableId, thresholds_for: Callable[[TableStatus], SizeThresholds]
    ) -> tuple[TableStatus, TableStatus]:
        """Returns both statuses from one read of the manifests, because only the small-file counts differ."""
        loaded = self._catalogs.load(table)
        with wrap_table_errors(table):
            manifests = _manifests(loaded, loaded.current_snapshot())
            live_files = self._read_live_files(loaded, manifests)
            status = self._status(table, live_files, manifests)
        return status, _with_sizes(status, live_files, thresholds_for(status))

    def files(self, table: TableId, where: Expression | None = None) -> FileListing:
        loaded = self._catalogs.load(table)
        with wrap_table_errors(table):
            live_files = self._live_files(loaded)
            only = None if where is None else _matching_partitions(live_files, where)
            names, partitions = live_files.names, live_files.encoded_partitions()
            ends = {names.key(*partition): names.ends_at(*partition) for partition in partitions}
            snapshot = loaded.current_snapshot()
            return FileListing(
                snapshot_id=snapshot.snapshot_id if snapshot else None,
                files=live_files.data_files(only),
                partition_ends={key: end for key, end in ends.items() if end is not None},
                partition_values={names.key(*partition): names.values(*partition) for partition in partitions},
            )

    def matching_partitions(self, table: TableId, where: Expression) -> frozenset[PartitionKey]:
        loaded = self._catalogs.load(table)
        with wrap_table_errors(table):
            return _matching_partitions(self._live_files(loaded), where)

    def preview_expiry(self, table: TableId, action: ExpireSnapshots, now: datetime) -> ExpiryPreview:
        loaded = self._catalogs.load(table)
        with wrap_table_errors(table):
            snapshots = _snapshot_status(loaded)
            expired = find_expired_snapshots(
                snapshots,
                older_than=action.older_than,
                retain_last=action.retain_last,
                now=now,
                max_ref_age=_max_ref_age(loaded),
            )
            return preview_expiry(loaded, self._reader, expired | _select_snapshots(snapshots, action.snapshot_ids))

    def _live_files(self, loaded: Table) -> LiveFiles:
        return self._read_live_files(loaded, _manifests(loaded, loaded.current_snapshot()))

    def _read_live_files(self, loaded: Table, manifests: list[ManifestFile]) -> LiveFiles:
        entries = filter_live(self._reader.entries(loaded.io, manifests)) if manifests else ENTRY_SCHEMA.empty_table()
        return LiveFiles(loaded, entries, self._clock())

    def _status(self, table: TableId, live_files: LiveFiles, manifests: list[ManifestFile]) -> TableStatus:
        loaded = live_files.table
        metadata = loaded.metadata
        snapshot = loaded.current_snapshot()
        target, small = _sizes(loaded, DEFAULT_THRESHOLDS)
        return TableStatus(
            table=table,
            observed_at=self._clock(),
            metadata_location=loaded.metadata_location,
            table_uuid=str(metadata.table_uuid),
            format_version=metadata.format_version,
            location=loaded.location(),
            snapshot_id=snapshot.snapshot_id if snapshot else None,
            data=live_files.data_status(),
            deletes=live_files.delete_status(),
            partitions=live_files.partitions(small),
            snapshots=_snapshot_status(loaded),
            manifests=_manifest_status(loaded, manifests, live_files.entries.num_rows),
            metadata=_metadata_status(loaded),
            cadence=_cadence(metadata.snapshots),
            last_compaction_at=_last_compaction(metadata.snapshots),
            target_file_bytes=target,
            small_file_bytes=small,
            properties=_status_properties(loaded.properties),
            sort_order=_sort_order_text(loaded),
            partition_spec=live_files.names.format_spec(loaded.spec()),
        )


def _with_sizes(status: TableStatus, live_files: LiveFiles, thresholds: SizeThresholds) -> TableStatus:
    target, small = _sizes(live_files.table, thresholds)
    if (target, small) == (status.target_file_bytes, status.small_file_bytes):
        return status
    return replace(status, partitions=live_files.partitions(small), target_file_bytes=target, small_file_bytes=small)


def _sizes(loaded: Table, thresholds: SizeThresholds) -> tuple[int, int]:
    """The target file size, and the size below which a file is small."""
    target = parse_int_property(loaded.properties, "write.target-file-size-bytes") or thresholds.target_file_bytes
    return target, min(thresholds.small_file_bytes, target * 3 // 4)


def _manifests(loaded: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    return list(snapshot.manifests(loaded.io)) if snapshot else []


def _matching_partitions(live_files: LiveFiles, where: Expression) -> frozenset[PartitionKey]:
    """The partitions that may contain rows matching the filter, evaluated for each partition spec."""
    from pyiceberg.expressions.visitors import bind, expression_evaluator, inclusive_projection
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record

    schema = live_files.table.schema()
    with wrap_literal_errors():
        row_filter = to_pyiceberg(where, schema)
        bind(schema, row_filter, case_sensitive=True)
    evaluators: dict[int, Callable[[Any], bool]] = {}
    for spec_id, spec in live_files.table.specs().items():
        projected = inclusive_projection(schema, spec)(row_filter)
        partition_schema = Schema(*spec.partition_type(schema).fields)
        evaluators[spec_id] = expression_evaluator(partition_schema, projected, case_sensitive=True)
    return frozenset(
        live_files.names.key(spec_id, encoded)
        for spec_id, encoded in live_files.encoded_partitions()
        if evaluators[spec_id](Record(*decode_partition(encoded)))
    )


def _max_ref_age(loaded: Table) -> timedelta | None:
    own = parse_int_property(loaded.properties, "history.expire.max-ref-age-ms")
    return None if own is None else from_milliseconds(own)


def _select_snapshots(snapshots: SnapshotStatus, snapshot_ids: Collection[int]) -> set[int]:
    """The given snapshots that exist; rejects the head of a branch or tag, as Iceberg does."""
    ref = next((ref for ref in snapshots.refs if ref.snapshot_id in snapshot_ids), None)
    if ref is not None:
        raise InvalidOption(f"Snapshot {ref.snapshot_id} cannot expire: the {ref.kind} '{ref.name}' references it.")
    return {entry.snapshot_id for entry in snapshots.entries} & set(snapshot_ids)


def _snapshot_status(loaded: Table) -> SnapshotStatus:
    entries = tuple(_snapshot_entry(snapshot) for snapshot in loaded.metadata.snapshots)
    times = [entry.committed_at for entry in entries]
    return SnapshotStatus(
        count=len(entries),
        oldest_at=min(times, default=None),
        newest_at=max(times, default=None),
        refs=tuple(
            Ref(
                name=name,
                kind=ref.snapshot_ref_type.value,
                snapshot_id=ref.snapshot_id,
                max_ref_age_ms=ref.max_ref_age_ms,
                max_snapshot_age_ms=ref.max_snapshot_age_ms,
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
            )
            for name, ref in sorted(loaded.metadata.refs.items())
        ),
        entries=entries,
    )


def _snapshot_entry(snapshot: Snapshot) -> SnapshotEntry:
    summary = snapshot.summary
    return SnapshotEntry(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        committed_at=_committed_at(snapshot),
        operation=summary.operation.value if summary else "unknown",
        job_id=summary.additional_properties.get("icepack.job-id") if summary else None,
    )


def _committed_at(snapshot: Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def _manifest_status(loaded: Table, manifests: list[ManifestFile], entries: int) -> ManifestStatus:
    from pyiceberg.manifest import ManifestContent

    target = parse_int_property(loaded.properties, "commit.manifest.target-size-bytes") or DEFAULT_MANIFEST_TARGET_BYTES
    return ManifestStatus(
        count=len(manifests),
        delete_manifests=sum(1 for manifest in manifests if manifest.content is ManifestContent.DELETES),
        bytes=sum(manifest.manifest_length for manifest in manifests),
        largest_bytes=max((manifest.manifest_length for manifest in manifests), default=0),
        entries=entries,
        target_bytes=target,
    )


def _metadata_status(loaded: Table) -> MetadataStatus:
    metadata = loaded.metadata
    return MetadataStatus(
        file_bytes=len(loaded.io.new_input(loaded.metadata_location)),
        log_length=len(metadata.metadata_log),
        schemas=len(metadata.schemas),
        partition_specs=len(metadata.partition_specs),
        statistics_snapshot_ids=tuple(statistics.snapshot_id for statistics in metadata.statistics),
    )


def _cadence(snapshots: list[Snapshot]) -> Cadence:
    if not snapshots:
        return Cadence()
    newest = max(_committed_at(snapshot) for snapshot in snapshots)
    recent = [snapshot for snapshot in snapshots if newest - _committed_at(snapshot) <= CADENCE_WINDOW]
    operations = [snapshot.summary.operation.value for snapshot in recent if snapshot.summary]
    span_hours = CADENCE_WINDOW.total_seconds() / 3600
    return Cadence(
        appends_per_hour=operations.count("append") / span_hours,
        row_changes_per_hour=(operations.count("overwrite") + operations.count("delete")) / span_hours,
    )


def _last_compaction(snapshots: list[Snapshot]) -> datetime | None:
    return max((_committed_at(snapshot) for snapshot in snapshots if is_compaction(snapshot)), default=None)


def _status_properties(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key.startswith(_STATUS_PROPERTIES)}


def _sort_order_text(loaded: Table) -> str:
    schema = loaded.schema()
    return ", ".join(
        f"{field.transform}({schema.find_column_name(field.source_id)}) {field.direction.value}"
        for field in loaded.sort_order().fields
    )
