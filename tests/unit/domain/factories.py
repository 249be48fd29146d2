"""Builds the statuses of small tables with the given health."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from icepack.domain.actions import ActionKind
from icepack.domain.health import assess_health
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.files import DataFile, PartitionKey, PartitionValue
from icepack.domain.policy import Policy
from icepack.domain.recommendation import PastRun, Recommendation, Situation, recommend
from icepack.domain.status import (
    DataFileStatus,
    DeleteFileTotals,
    DeleteStatus,
    PartitionStatus,
    Ref,
    SnapshotEntry,
    SnapshotStatus,
    TableStatus,
)
from icepack.domain.table import TableId
from icepack.domain.units import MIB

NOW = datetime(2024, 6, 15, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TABLE = TableId("lake", ("sales",), "orders")


def key(path: str = "", spec_id: int = 0) -> PartitionKey:
    return PartitionKey(spec_id, path)


def data_file(path: str = "f", size: int = MIB, *, partition: str = "", **facts: Any) -> DataFile:
    defaults: dict[str, Any] = {"records": 100, "sequence_number": 1}
    return DataFile(path=path, partition=key(partition), bytes=size, **defaults | facts)


def partition(path: str = "", **facts: Any) -> PartitionStatus:
    """Builds a partition; by default it has one full file."""
    values = () if not path else (PartitionValue("p", "identity", path),)
    defaults: dict[str, Any] = {"data_files": 1, "bytes": 500 * MIB, "records": 1000}
    return PartitionStatus(key=key(path), values=values, **defaults | facts)


def small_files(path: str = "", count: int = 100, size: int = MIB, **facts: Any) -> PartitionStatus:
    """Builds a partition of small files only."""
    sizes = {"data_files": count, "bytes": count * size, "small_files": count, "small_bytes": count * size}
    return partition(path, **sizes | {"records": count * 100} | facts)


def with_deletes(path: str = "", count: int = 10, **facts: Any) -> PartitionStatus:
    """Builds a partition of full files, each with one position delete."""
    sizes = {"data_files": count, "bytes": count * 500 * MIB, "records": count * 1000}
    deletes = {
        "position_delete_files": count,
        "delete_records": count * 10,
        "files_with_deletes": count,
        "bytes_with_deletes": count * 500 * MIB,
    }
    return partition(path, **sizes | deletes | facts)


def entry(snapshot_id: int, parent_id: int | None, age: timedelta, **facts: Any) -> SnapshotEntry:
    defaults: dict[str, Any] = {"operation": "append"}
    return SnapshotEntry(snapshot_id=snapshot_id, parent_id=parent_id, committed_at=NOW - age, **defaults | facts)


def main(snapshot_id: int, **facts: Any) -> Ref:
    return Ref(name="main", kind="branch", snapshot_id=snapshot_id, **facts)


def branch(name: str, snapshot_id: int, **facts: Any) -> Ref:
    return Ref(name=name, kind="branch", snapshot_id=snapshot_id, **facts)


def tag(name: str, snapshot_id: int, **facts: Any) -> Ref:
    return Ref(name=name, kind="tag", snapshot_id=snapshot_id, **facts)


def snapshots(entries: Sequence[SnapshotEntry], refs: Sequence[Ref]) -> SnapshotStatus:
    times = [item.committed_at for item in entries]
    return SnapshotStatus(
        count=len(entries),
        oldest_at=min(times, default=None),
        newest_at=max(times, default=None),
        refs=tuple(refs),
        entries=tuple(entries),
    )


def history(*ages: timedelta, refs: Sequence[Ref] = ()) -> SnapshotStatus:
    """Builds a linear history of appends with ids from 1, oldest first; `main` is at the last."""
    entries = [entry(number, number - 1 or None, age) for number, age in enumerate(ages, start=1)]
    return snapshots(entries, [main(len(ages)), *refs])


def status(*partitions: PartitionStatus, **facts: Any) -> TableStatus:
    """Builds a table whose totals match its partitions, with one recent snapshot, number 1."""
    rows = partitions or (partition(),)
    defaults: dict[str, Any] = {
        "table": TABLE,
        "observed_at": NOW,
        "metadata_location": "file:/w/orders/metadata/1.json",
        "table_uuid": "6f1d6c4a-0000-4000-8000-000000000000",
        "format_version": 2,
        "location": "file:/w/orders",
        "snapshot_id": 1,
        "snapshots": history(HOUR),
        "data": DataFileStatus(
            count=sum(row.data_files for row in rows),
            bytes=sum(row.bytes for row in rows),
            records=sum(row.records for row in rows),
        ),
        "deletes": deletes(rows),
        "partitions": rows,
    }
    return TableStatus(**defaults | facts)


def deletes(rows: Sequence[PartitionStatus], dangling: int = 0) -> DeleteStatus:
    return DeleteStatus(
        position=DeleteFileTotals(
            files=sum(row.position_delete_files for row in rows) + dangling,
            bytes=MIB * sum(row.position_delete_files for row in rows),
            records=sum(row.delete_records for row in rows),
        ),
        equality=DeleteFileTotals(files=sum(row.equality_delete_files for row in rows)),
        vectors=DeleteFileTotals(files=sum(row.deletion_vectors for row in rows)),
        dangling_files=dangling,
    )


def past_run(kind: ActionKind, *, ago: timedelta = timedelta(minutes=5), **facts: Any) -> PastRun:
    defaults: dict[str, Any] = {"snapshot_id_after": 1, "changed_nothing": False}
    return PastRun(kind=kind, finished_at=NOW - ago, **defaults | facts)


def situation(table: TableStatus | None = None, **facts: Any) -> Situation:
    observed = table or status()
    defaults: dict[str, Any] = {
        "status": observed,
        "health": assess_health(observed, NOW),
        "policy": Policy(),
        "history": (),
        "model": CostModel(),
        "now": NOW,
    }
    return Situation(**defaults | facts)


def recommended(table: TableStatus | None = None, **facts: Any) -> Recommendation:
    return recommend(situation(table, **facts))
