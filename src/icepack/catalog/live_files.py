"""The live files of one snapshot, summed up by partition with Arrow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from icepack.catalog.deletes import Applied, DeleteIndex, Group
from icepack.catalog.manifests import DATA, DELETION_VECTOR, EQUALITY_DELETES, POSITION_DELETES
from icepack.catalog.partitions import PartitionNames
from icepack.domain.plan.files import DataFile, PartitionKey
from icepack.domain.status import (
    HISTOGRAM_BOUNDS_BYTES,
    SMALL_FILE_THRESHOLDS_BYTES,
    DataFileStatus,
    DeleteKind,
    DeleteStatus,
    PartitionStatus,
    SizeBucket,
    SmallFiles,
    own_number,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

RECENT = timedelta(days=1)


@dataclass(frozen=True)
class Inventory:
    """Everything that can be said of a snapshot's files without opening one."""

    table: Table
    entries: pa.Table
    now: datetime

    @cached_property
    def names(self) -> PartitionNames:
        return PartitionNames(self.table)

    @cached_property
    def data(self) -> pa.Table:
        return self.entries.filter(pc.equal(self.entries["content"], DATA))

    @cached_property
    def deletes(self) -> pa.Table:
        return self.entries.filter(pc.not_equal(self.entries["content"], DATA))

    @cached_property
    def delete_index(self) -> DeleteIndex:
        specs = self.table.specs()
        return DeleteIndex(self.deletes, frozenset(spec_id for spec_id, spec in specs.items() if not spec.fields))

    def data_status(self) -> DataFileStatus:
        sizes = self.data["bytes"]
        return DataFileStatus(
            count=self.data.num_rows,
            bytes=_total(sizes),
            records=_total(self.data["records"]),
            histogram=tuple(histogram(sizes)),
            small=tuple(_smaller(sizes, threshold) for threshold in SMALL_FILE_THRESHOLDS_BYTES),
        )

    def delete_status(self) -> DeleteStatus:
        return DeleteStatus(
            position=self._delete_kind(POSITION_DELETES),
            equality=self._delete_kind(EQUALITY_DELETES),
            vectors=self._delete_kind(DELETION_VECTOR),
            dangling_files=self.delete_index.dangling(self.data),
        )

    def _delete_kind(self, content: int) -> DeleteKind:
        rows = self.deletes.filter(pc.equal(self.deletes["content"], content))
        return DeleteKind(files=rows.num_rows, bytes=_total(rows["bytes"]), records=_total(rows["records"]))

    def partitions(self, small_file_bytes: int) -> tuple[PartitionStatus, ...]:
        """One row per partition that holds data; deletes are counted where they apply."""
        sums = self._sums(small_file_bytes)
        weights = self._weights(sums)
        found = [self._partition(group, row, weights.get(group, {})) for group, row in sums.items()]
        return tuple(sorted(found, key=lambda partition: partition.key))

    def _partition(self, group: Group, row: dict[str, Any], weight: dict[str, int]) -> PartitionStatus:
        spec_id, encoded = group
        return PartitionStatus(
            key=self.names.key(spec_id, encoded),
            values=self.names.values(spec_id, encoded),
            data_files=row["path_count"],
            bytes=row["bytes_sum"],
            records=row["records_sum"],
            small_files=row["small_sum"],
            small_bytes=row["small_bytes_sum"],
            commits_last_day=row["recent_snapshot_count_distinct"],
            last_written_at=_moment(row["written_ms_max"]),
            last_compacted_at=_moment(row["compacted_ms_max"]),
            ends_at=self.names.ends_at(spec_id, encoded),
            **weight,
        )

    def _sums(self, small_file_bytes: int) -> dict[Group, dict[str, Any]]:
        data = self.data
        is_small = pc.less(data["bytes"], small_file_bytes)
        written, compacted = self._snapshot_times(data["snapshot_id"])
        recent_from = int((self.now - RECENT).timestamp() * 1000)
        recent = pc.if_else(pc.fill_null(pc.greater_equal(written, recent_from), False), data["snapshot_id"], None)
        widened = (
            data.select(["spec_id", "partition", "path", "bytes", "records"])
            .append_column("small", pc.cast(is_small, pa.int64()))
            .append_column("small_bytes", pc.if_else(is_small, data["bytes"], 0))
            .append_column("recent_snapshot", recent)
            .append_column("written_ms", written)
            .append_column("compacted_ms", compacted)
        )
        grouped = widened.group_by(["spec_id", "partition"], use_threads=False).aggregate(
            [
                ("path", "count"),
                ("bytes", "sum"),
                ("records", "sum"),
                ("small", "sum"),
                ("small_bytes", "sum"),
                ("recent_snapshot", "count_distinct"),
                ("written_ms", "max"),
                ("compacted_ms", "max"),
            ]
        )
        return {(row["spec_id"], row["partition"]): row for row in grouped.to_pylist()}

    def _snapshot_times(self, snapshot_ids: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
        """When each file was committed, and when by a compaction; null where the snapshot has expired."""
        snapshots = self.table.metadata.snapshots
        known = pa.array([snapshot.snapshot_id for snapshot in snapshots], pa.int64())
        times = pa.array([snapshot.timestamp_ms for snapshot in snapshots], pa.int64())
        compactions = pa.array(
            [snapshot.timestamp_ms if is_compaction(snapshot) else None for snapshot in snapshots], pa.int64()
        )
        positions = pc.index_in(snapshot_ids, known)
        return pc.take(times, positions), pc.take(compactions, positions)

    def _weights(self, sums: dict[Group, dict[str, Any]]) -> dict[Group, dict[str, int]]:
        """Per partition: delete files and the data files they weigh on."""
        if not self.delete_index:
            return {}
        weights: dict[Group, dict[str, int]] = {group: defaultdict(int) for group in sums}
        for row, applied in self._rows_with_deletes():
            weight = weights[(row["spec_id"], row["partition"])]
            weight["files_with_deletes"] += 1
            weight["bytes_with_deletes"] += row["bytes"]
            weight["equality_delete_files"] = max(weight["equality_delete_files"], applied.equality)
        for row in self.deletes.to_pylist():
            group = (row["spec_id"], row["partition"])
            if group in weights:
                weights[group]["delete_records"] += row["records"]
                weights[group]["position_delete_files"] += row["content"] == POSITION_DELETES
                weights[group]["deletion_vectors"] += row["content"] == DELETION_VECTOR
        return weights

    def _rows_with_deletes(self) -> Iterator[tuple[dict[str, Any], Applied]]:
        for row in self.data.to_pylist():
            group = (row["spec_id"], row["partition"])
            if self.delete_index.touches(group):
                applied = self.delete_index.applied(row["path"], group, row["sequence_number"])
                if applied.any:
                    yield row, applied

    def data_files(self, only: frozenset[PartitionKey] | None) -> tuple[DataFile, ...]:
        keys: dict[Group, PartitionKey] = {}
        found = []
        for row in self.data.to_pylist():
            group = (row["spec_id"], row["partition"])
            if group not in keys:
                keys[group] = self.names.key(*group)
            if only is None or keys[group] in only:
                found.append(self._data_file(row, group, keys[group]))
        return tuple(found)

    def _data_file(self, row: dict[str, Any], group: Group, key: PartitionKey) -> DataFile:
        applied = Applied()
        if self.delete_index and self.delete_index.touches(group):
            applied = self.delete_index.applied(row["path"], group, row["sequence_number"])
        return DataFile(
            path=row["path"],
            partition=key,
            bytes=row["bytes"],
            records=row["records"],
            sequence_number=row["sequence_number"],
            format=row["format"],
            position_delete_files=applied.position,
            equality_delete_files=applied.equality,
            deletion_vectors=applied.vectors,
            deleted_records=applied.records,
        )

    def groups(self) -> list[Group]:
        distinct = self.data.group_by(["spec_id", "partition"], use_threads=False).aggregate([])
        return [(row["spec_id"], row["partition"]) for row in distinct.to_pylist()]


def is_compaction(snapshot: Any) -> bool:
    """A replace that wrote data files; rewriting manifests is a replace that did not."""
    summary = snapshot.summary
    if summary is None or summary.operation.value != "replace":
        return False
    return bool(own_number(summary.additional_properties, "added-data-files"))


def _total(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def _smaller(sizes: pa.ChunkedArray, threshold: int) -> SmallFiles:
    chosen = sizes.filter(pc.less(sizes, threshold))
    return SmallFiles(threshold_bytes=threshold, count=len(chosen), bytes=_total(chosen))


def histogram(sizes: pa.ChunkedArray) -> Iterator[SizeBucket]:
    floor = 0
    for bound in (*HISTOGRAM_BOUNDS_BYTES, None):
        inside = pc.greater_equal(sizes, floor)
        if bound is not None:
            inside = pc.and_(inside, pc.less(sizes, bound))
            floor = bound
        chosen = sizes.filter(inside)
        yield SizeBucket(below_bytes=bound, count=len(chosen), bytes=_total(chosen))
