"""Aggregates the live files of one snapshot by partition, using Arrow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from icepack.catalog.deletes import AppliedDeletes, DeleteIndex, EncodedPartition
from icepack.catalog.manifests import DATA, DELETION_VECTOR, EQUALITY_DELETES, POSITION_DELETES
from icepack.catalog.partitions import PartitionNames
from icepack.domain.plan.files import DataFile, PartitionKey
from icepack.domain.status import (
    HISTOGRAM_BOUNDS_BYTES,
    SMALL_FILE_THRESHOLDS_BYTES,
    DataFileStatus,
    DeleteFileTotals,
    DeleteStatus,
    PartitionStatus,
    SizeBucket,
    SmallFiles,
    parse_int_property,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Commits within this period before the inspection count towards `commits_last_day`.
RECENT = timedelta(days=1)


@dataclass(frozen=True)
class LiveFiles:
    """The live manifest entries of a snapshot, and the statistics derived from them without opening any file."""

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
            histogram=tuple(size_histogram(sizes)),
            small=tuple(_small_files(sizes, threshold) for threshold in SMALL_FILE_THRESHOLDS_BYTES),
        )

    def delete_status(self) -> DeleteStatus:
        return DeleteStatus(
            position=self._delete_kind(POSITION_DELETES),
            equality=self._delete_kind(EQUALITY_DELETES),
            vectors=self._delete_kind(DELETION_VECTOR),
            dangling_files=self.delete_index.count_dangling(self.data),
        )

    def _delete_kind(self, content: int) -> DeleteFileTotals:
        rows = self.deletes.filter(pc.equal(self.deletes["content"], content))
        return DeleteFileTotals(files=rows.num_rows, bytes=_total(rows["bytes"]), records=_total(rows["records"]))

    def partitions(self, small_file_bytes: int) -> tuple[PartitionStatus, ...]:
        """One row per partition that contains data; deletes are counted in the partitions they apply to."""
        sums = self._sum_by_partition(small_file_bytes)
        deletes = self._count_deletes(sums)
        found = [self._partition_status(partition, row, deletes.get(partition, {})) for partition, row in sums.items()]
        return tuple(sorted(found, key=lambda status: status.key))

    def _partition_status(
        self, partition: EncodedPartition, row: dict[str, Any], deletes: dict[str, int]
    ) -> PartitionStatus:
        spec_id, encoded = partition
        return PartitionStatus(
            key=self.names.key(spec_id, encoded),
            values=self.names.values(spec_id, encoded),
            data_files=row["path_count"],
            bytes=row["bytes_sum"],
            records=row["records_sum"],
            small_files=row["small_sum"],
            small_bytes=row["small_bytes_sum"],
            commits_last_day=row["recent_snapshot_count_distinct"],
            last_written_at=_to_datetime(row["written_ms_max"]),
            last_compacted_at=_to_datetime(row["compacted_ms_max"]),
            ends_at=self.names.ends_at(spec_id, encoded),
            **deletes,
        )

    def _sum_by_partition(self, small_file_bytes: int) -> dict[EncodedPartition, dict[str, Any]]:
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
        """The commit time of each file, and the same for files written by a compaction; null for expired snapshots."""
        snapshots = self.table.metadata.snapshots
        known = pa.array([snapshot.snapshot_id for snapshot in snapshots], pa.int64())
        times = pa.array([snapshot.timestamp_ms for snapshot in snapshots], pa.int64())
        compactions = pa.array(
            [snapshot.timestamp_ms if is_compaction(snapshot) else None for snapshot in snapshots], pa.int64()
        )
        positions = pc.index_in(snapshot_ids, known)
        return pc.take(times, positions), pc.take(compactions, positions)

    def _count_deletes(self, partitions: Iterable[EncodedPartition]) -> dict[EncodedPartition, dict[str, int]]:
        """Counts the delete files of each partition, and the data files that they apply to."""
        if not self.delete_index:
            return {}
        counts: dict[EncodedPartition, dict[str, int]] = {partition: defaultdict(int) for partition in partitions}
        for row, applied in self._rows_with_deletes():
            count = counts[(row["spec_id"], row["partition"])]
            count["files_with_deletes"] += 1
            count["bytes_with_deletes"] += row["bytes"]
            count["equality_delete_files"] = max(count["equality_delete_files"], applied.equality)
        for row in self.deletes.to_pylist():
            partition = (row["spec_id"], row["partition"])
            if partition in counts:
                counts[partition]["delete_records"] += row["records"]
                counts[partition]["position_delete_files"] += row["content"] == POSITION_DELETES
                counts[partition]["deletion_vectors"] += row["content"] == DELETION_VECTOR
        return counts

    def _rows_with_deletes(self) -> Iterator[tuple[dict[str, Any], AppliedDeletes]]:
        for row in self.data.to_pylist():
            partition = (row["spec_id"], row["partition"])
            if self.delete_index.may_apply_to(partition):
                applied = self.delete_index.applied_to(row["path"], partition, row["sequence_number"])
                if applied.any:
                    yield row, applied

    def data_files(self, only: frozenset[PartitionKey] | None) -> tuple[DataFile, ...]:
        keys: dict[EncodedPartition, PartitionKey] = {}
        found = []
        for row in self.data.to_pylist():
            partition = (row["spec_id"], row["partition"])
            if partition not in keys:
                keys[partition] = self.names.key(*partition)
            if only is None or keys[partition] in only:
                found.append(self._data_file(row, partition, keys[partition]))
        return tuple(found)

    def _data_file(self, row: dict[str, Any], partition: EncodedPartition, key: PartitionKey) -> DataFile:
        applied = AppliedDeletes()
        if self.delete_index and self.delete_index.may_apply_to(partition):
            applied = self.delete_index.applied_to(row["path"], partition, row["sequence_number"])
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

    def encoded_partitions(self) -> list[EncodedPartition]:
        distinct = self.data.group_by(["spec_id", "partition"], use_threads=False).aggregate([])
        return [(row["spec_id"], row["partition"]) for row in distinct.to_pylist()]


def is_compaction(snapshot: Any) -> bool:
    """A `replace` snapshot that added data files; rewriting manifests is a `replace` that adds none."""
    summary = snapshot.summary
    if summary is None or summary.operation.value != "replace":
        return False
    return bool(parse_int_property(summary.additional_properties, "added-data-files"))


def _total(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


def _to_datetime(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def _small_files(sizes: pa.ChunkedArray, threshold: int) -> SmallFiles:
    chosen = sizes.filter(pc.less(sizes, threshold))
    return SmallFiles(threshold_bytes=threshold, count=len(chosen), bytes=_total(chosen))


def size_histogram(sizes: pa.ChunkedArray) -> Iterator[SizeBucket]:
    floor = 0
    for bound in (*HISTOGRAM_BOUNDS_BYTES, None):
        inside = pc.greater_equal(sizes, floor)
        if bound is not None:
            inside = pc.and_(inside, pc.less(sizes, bound))
            floor = bound
        chosen = sizes.filter(inside)
        yield SizeBucket(below_bytes=bound, count=len(chosen), bytes=_total(chosen))
