"""The default metadata inspector: PyIceberg, manifests through the cache, never a data file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from icepack.catalog.catalog import Catalogs
from icepack.catalog.errors import table_faults
from icepack.catalog.expiry import preview
from icepack.catalog.expressions import misfits, to_pyiceberg
from icepack.catalog.live_files import Inventory, is_compaction
from icepack.catalog.manifests import ENTRY_SCHEMA, ManifestReader, decode_partition, live
from icepack.domain.actions import ExpireSnapshots
from icepack.domain.plan.expiry import expired_snapshots
from icepack.domain.plan.expression import Expression
from icepack.domain.plan.files import FileListing, PartitionKey
from icepack.domain.ports.engine import ExpiryPreview, SizeLens
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
    own_number,
)
from icepack.domain.table import TableId
from icepack.domain.units import MIB, from_milliseconds
from icepack.errors import InvalidOption

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

DEFAULT_LENS = SizeLens(target_file_bytes=DEFAULT_TARGET_FILE_BYTES, small_file_bytes=32 * MIB)
CADENCE_WINDOW = timedelta(days=1)
_SHOWN_PROPERTIES = ("write.", "read.", "history.", "commit.", "gc.", "format", "icepack.", "schema.name-mapping")


def utc_now() -> datetime:
    return datetime.now(UTC)


class PyIcebergInspector:
    """Fills TableStatus for tables of format version 1 to 3."""

    def __init__(self, catalogs: Catalogs, reader: ManifestReader, clock: Callable[[], datetime] = utc_now) -> None:
        self._catalogs = catalogs
        self._reader = reader
        self._clock = clock

    def properties(self, table: TableId) -> Mapping[str, str]:
        return self._catalogs.load(table).properties

    def inspect(self, table: TableId) -> TableStatus:
        return self.inspect_both(table, lambda _: DEFAULT_LENS)[0]

    def inspect_both(
        self, table: TableId, lens_for: Callable[[TableStatus], SizeLens]
    ) -> tuple[TableStatus, TableStatus]:
        """The manifests are read once: a lens only changes which files count as small."""
        loaded = self._catalogs.load(table)
        with table_faults(table):
            manifests = _manifests(loaded, loaded.current_snapshot())
            inventory = self._inventory_of(loaded, manifests)
            status = self._status(table, inventory, manifests)
        return status, _measured(status, inventory, lens_for(status))

    def files(self, table: TableId, where: Expression | None = None) -> FileListing:
        loaded = self._catalogs.load(table)
        with table_faults(table):
            inventory = self._inventory(loaded)
            only = None if where is None else _matching(inventory, where)
            names = inventory.names
            ends = {
                names.key(*group): end for group in inventory.groups() if (end := names.ends_at(*group)) is not None
            }
            snapshot = loaded.current_snapshot()
            return FileListing(
                snapshot_id=snapshot.snapshot_id if snapshot else None,
                files=inventory.data_files(only),
                partition_ends=ends,
                partition_values={names.key(*group): names.values(*group) for group in inventory.groups()},
            )

    def matching_partitions(self, table: TableId, where: Expression) -> frozenset[PartitionKey]:
        loaded = self._catalogs.load(table)
        with table_faults(table):
            return _matching(self._inventory(loaded), where)

    def preview_expiry(self, table: TableId, action: ExpireSnapshots, now: datetime) -> ExpiryPreview:
        loaded = self._catalogs.load(table)
        with table_faults(table):
            snapshots = _snapshot_status(loaded)
            expired = expired_snapshots(
                snapshots,
                older_than=action.older_than,
                retain_last=action.retain_last,
                now=now,
                max_ref_age=_max_ref_age(loaded),
            )
            return preview(loaded, self._reader, expired | _named_by_hand(snapshots, action.snapshot_ids))

    def _inventory(self, loaded: Table) -> Inventory:
        return self._inventory_of(loaded, _manifests(loaded, loaded.current_snapshot()))

    def _inventory_of(self, loaded: Table, manifests: list[ManifestFile]) -> Inventory:
        entries = live(self._reader.entries(loaded.io, manifests)) if manifests else ENTRY_SCHEMA.empty_table()
        return Inventory(loaded, entries, self._clock())

    def _status(self, table: TableId, inventory: Inventory, manifests: list[ManifestFile]) -> TableStatus:
        loaded = inventory.table
        metadata = loaded.metadata
        snapshot = loaded.current_snapshot()
        target, small = _sizes(loaded, DEFAULT_LENS)
        return TableStatus(
            table=table,
            observed_at=self._clock(),
            metadata_location=loaded.metadata_location,
            table_uuid=str(metadata.table_uuid),
            format_version=metadata.format_version,
            location=loaded.location(),
            snapshot_id=snapshot.snapshot_id if snapshot else None,
            data=inventory.data_status(),
            deletes=inventory.delete_status(),
            partitions=inventory.partitions(small),
            snapshots=_snapshot_status(loaded),
            manifests=_manifest_status(loaded, manifests, inventory.entries.num_rows),
            metadata=_metadata_status(loaded),
            cadence=_cadence(metadata.snapshots),
            last_compaction_at=_last_compaction(metadata.snapshots),
            target_file_bytes=target,
            small_file_bytes=small,
            properties=_shown(loaded.properties),
            sort_order=_sort_order_text(loaded),
            partition_spec=inventory.names.spec_text(loaded.spec()),
        )


def _measured(status: TableStatus, inventory: Inventory, lens: SizeLens) -> TableStatus:
    target, small = _sizes(inventory.table, lens)
    if (target, small) == (status.target_file_bytes, status.small_file_bytes):
        return status
    return replace(status, partitions=inventory.partitions(small), target_file_bytes=target, small_file_bytes=small)


def _sizes(loaded: Table, lens: SizeLens) -> tuple[int, int]:
    """The target, and what counts as small."""
    target = own_number(loaded.properties, "write.target-file-size-bytes") or lens.target_file_bytes
    return target, min(lens.small_file_bytes, target * 3 // 4)


def _manifests(loaded: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    return list(snapshot.manifests(loaded.io)) if snapshot else []


def _matching(inventory: Inventory, where: Expression) -> frozenset[PartitionKey]:
    """Partitions that may hold rows the filter wants, spec by spec."""
    from pyiceberg.expressions.visitors import bind, expression_evaluator, inclusive_projection
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record

    schema = inventory.table.schema()
    with misfits():
        wanted = to_pyiceberg(where, schema)
        bind(schema, wanted, case_sensitive=True)
    evaluators: dict[int, Callable[[Any], bool]] = {}
    for spec_id, spec in inventory.table.specs().items():
        projected = inclusive_projection(schema, spec)(wanted)
        partition_schema = Schema(*spec.partition_type(schema).fields)
        evaluators[spec_id] = expression_evaluator(partition_schema, projected, case_sensitive=True)
    return frozenset(
        inventory.names.key(spec_id, encoded)
        for spec_id, encoded in inventory.groups()
        if evaluators[spec_id](Record(*decode_partition(encoded)))
    )


def _max_ref_age(loaded: Table) -> timedelta | None:
    own = own_number(loaded.properties, "history.expire.max-ref-age-ms")
    return None if own is None else from_milliseconds(own)


def _named_by_hand(snapshots: SnapshotStatus, wanted: Collection[int]) -> set[int]:
    """Those of the named snapshots that there are; the head of a branch or tag is refused, as Iceberg does."""
    held = next((ref for ref in snapshots.refs if ref.snapshot_id in wanted), None)
    if held is not None:
        raise InvalidOption(f"Snapshot {held.snapshot_id} cannot expire: the {held.kind} {held.name} holds it.")
    return {entry.snapshot_id for entry in snapshots.entries} & set(wanted)


def _snapshot_status(loaded: Table) -> SnapshotStatus:
    entries = tuple(_entry(snapshot) for snapshot in loaded.metadata.snapshots)
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


def _entry(snapshot: Snapshot) -> SnapshotEntry:
    summary = snapshot.summary
    return SnapshotEntry(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        committed_at=_at(snapshot),
        operation=summary.operation.value if summary else "unknown",
        job_id=summary.additional_properties.get("icepack.job-id") if summary else None,
    )


def _at(snapshot: Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def _manifest_status(loaded: Table, manifests: list[ManifestFile], entries: int) -> ManifestStatus:
    from pyiceberg.manifest import ManifestContent

    target = own_number(loaded.properties, "commit.manifest.target-size-bytes") or DEFAULT_MANIFEST_TARGET_BYTES
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
    newest = max(_at(snapshot) for snapshot in snapshots)
    recent = [snapshot for snapshot in snapshots if newest - _at(snapshot) <= CADENCE_WINDOW]
    operations = [snapshot.summary.operation.value for snapshot in recent if snapshot.summary]
    span_hours = CADENCE_WINDOW.total_seconds() / 3600
    return Cadence(
        appends_per_hour=operations.count("append") / span_hours,
        row_changes_per_hour=(operations.count("overwrite") + operations.count("delete")) / span_hours,
    )


def _last_compaction(snapshots: list[Snapshot]) -> datetime | None:
    return max((_at(snapshot) for snapshot in snapshots if is_compaction(snapshot)), default=None)


def _shown(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key.startswith(_SHOWN_PROPERTIES)}


def _sort_order_text(loaded: Table) -> str:
    schema = loaded.schema()
    return ", ".join(
        f"{field.transform}({schema.find_column_name(field.source_id)}) {field.direction.value}"
        for field in loaded.sort_order().fields
    )
