"""Sample tables with one issue each, to show its penalty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from icepack.domain.health import IssueCode
from icepack.domain.plan.files import PartitionKey
from icepack.domain.status import (
    DataFileStatus,
    DeleteFileTotals,
    DeleteStatus,
    ManifestStatus,
    MetadataStatus,
    PartitionStatus,
    Ref,
    SnapshotEntry,
    SnapshotStatus,
    TableStatus,
)
from icepack.domain.table import TableId
from icepack.domain.units import MIB

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)


def _table(**facts: Any) -> TableStatus:
    defaults: dict[str, Any] = {
        "table": TableId("lake", ("sales",), "orders"),
        "observed_at": NOW,
        "metadata_location": "",
        "table_uuid": "",
        "format_version": 2,
        "location": "",
        "snapshot_id": 1,
    }
    return TableStatus(**defaults | facts)


def _of_partitions(*partitions: PartitionStatus, **facts: Any) -> TableStatus:
    data = DataFileStatus(
        count=sum(part.data_files for part in partitions),
        bytes=sum(part.bytes for part in partitions),
        records=sum(part.records for part in partitions),
    )
    return _table(data=data, partitions=partitions, **facts)


def _partition(number: int = 0, *, large: int = 0, small: int = 0) -> PartitionStatus:
    return PartitionStatus(
        key=PartitionKey(0, str(number)),
        data_files=large + small,
        bytes=large * 500 * MIB + small * MIB,
        records=(large + small) * 1000,
        small_files=small,
        small_bytes=small * MIB,
    )


def _files(small: int, large: int = 0) -> TableStatus:
    return _of_partitions(_partition(large=large, small=small), last_compaction_at=NOW)


def _deletes(files: int, rows: int, dangling: int = 0) -> TableStatus:
    """A table with a hundred large data files of a thousand rows each."""
    position = DeleteFileTotals(files=files, bytes=files * MIB, records=rows)
    return _of_partitions(_partition(large=100), deletes=DeleteStatus(position=position, dangling_files=dangling))


def _snapshots(count: int, age: timedelta) -> TableStatus:
    entries = [
        SnapshotEntry(snapshot_id=number, parent_id=number - 1 or None, committed_at=NOW - age, operation="append")
        for number in range(1, count + 1)
    ]
    main = Ref(name="main", kind="branch", snapshot_id=count)
    return _table(snapshots=SnapshotStatus(count=count, refs=(main,), entries=tuple(entries)))


def _manifests(count: int, largest: int = MIB) -> TableStatus:
    return _table(manifests=ManifestStatus(count=count, bytes=count * 10_000, largest_bytes=largest, entries=count * 2))


def _skewed() -> TableStatus:
    return _of_partitions(_partition(0, large=50), *(_partition(number, large=1) for number in range(1, 10)))


SAMPLE_TABLES: dict[IssueCode, list[tuple[str, TableStatus]]] = {
    IssueCode.SMALL_FILES: [
        ("10 files of 1 MB", _files(10)),
        ("200 files of 1 MB", _files(200)),
        ("1,000 files of 500 MB and 200 of 1 MB", _files(200, large=1000)),
    ],
    IssueCode.DELETE_PRESSURE: [
        ("100 data files, 1 delete file for 6 % of the rows", _deletes(1, 6_000)),
        ("100 data files, 20 delete files for 0.1 % of the rows", _deletes(20, 100)),
        ("100 data files, 200 delete files", _deletes(200, 10_000)),
    ],
    IssueCode.DANGLING_DELETES: [
        ("1 dangling delete file", _deletes(1, 10, dangling=1)),
        ("100 dangling delete files", _deletes(100, 1_000, dangling=100)),
    ],
    IssueCode.TOO_MANY_SNAPSHOTS: [
        ("120 snapshots", _snapshots(120, timedelta(days=1))),
        ("1,000 snapshots", _snapshots(1_000, timedelta(days=1))),
    ],
    IssueCode.SNAPSHOTS_PAST_RETENTION: [
        ("10 old snapshots and a head", _snapshots(11, timedelta(days=30))),
        ("99 old snapshots and a head", _snapshots(100, timedelta(days=30))),
    ],
    IssueCode.FRAGMENTED_MANIFESTS: [
        ("20 manifests of 10 kB", _manifests(20)),
        ("500 manifests of 10 kB", _manifests(500)),
    ],
    IssueCode.OVERSIZED_MANIFESTS: [("a manifest of 20 MB", _manifests(1, largest=20 * MIB))],
    IssueCode.METADATA_BLOAT: [
        ("a metadata file of 10 MB", _table(metadata=MetadataStatus(file_bytes=10 * MIB, log_length=100))),
    ],
    IssueCode.SKEWED_PARTITIONS: [("one partition of 50 files and nine of 1", _skewed())],
    IssueCode.STALE_COMPACTION: [
        ("100 small files, never compacted", _of_partitions(_partition(small=100))),
        (
            "100 small files, compacted 9 days ago",
            _of_partitions(_partition(small=100), last_compaction_at=NOW - timedelta(days=9)),
        ),
    ],
}
