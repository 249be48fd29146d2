"""Sample table statuses and cached tables."""

from __future__ import annotations

from datetime import timedelta

from icepack.domain.health import assess_health
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.policy import Policy
from icepack.domain.ports.table_cache import CachedTable
from icepack.domain.recommendation import Situation, recommend
from icepack.domain.status import DataFileStatus, PartitionStatus, Ref, SnapshotEntry, SnapshotStatus, TableStatus
from icepack.domain.table import TableId

from .sample_runs import LARGEST_SNAPSHOT_ID, NOON


def status(table: TableId, files: int = 40) -> TableStatus:
    taken_at = NOON - timedelta(hours=1)
    return TableStatus(
        table=table,
        observed_at=NOON,
        metadata_location=f"s3://b/ü/{files}.metadata.json",
        table_uuid="6f1d6c4a-0000-4000-8000-000000000000",
        format_version=2,
        location="s3://b/ü",
        snapshot_id=LARGEST_SNAPSHOT_ID,
        data=DataFileStatus(count=files, bytes=files * 2**20, records=files * 10),
        partitions=(
            PartitionStatus(
                key=PartitionKey(0, "día=1"),
                values=(PartitionValue("día", "identity", 1),),
                data_files=files,
                bytes=files * 2**20,
                small_files=files,
                small_bytes=files * 2**20,
                last_written_at=taken_at,
            ),
        ),
        snapshots=SnapshotStatus(
            count=1,
            oldest_at=taken_at,
            newest_at=taken_at,
            refs=(Ref(name="main", kind="branch", snapshot_id=LARGEST_SNAPSHOT_ID),),
            entries=(
                SnapshotEntry(
                    snapshot_id=LARGEST_SNAPSHOT_ID, parent_id=None, committed_at=taken_at, operation="append"
                ),
            ),
        ),
        properties={"write.target-file-size-bytes": "1", "nul": "\0 \ud800"},
    )


def cached(table: TableId, files: int = 40) -> CachedTable:
    seen = status(table, files)
    health = assess_health(seen, NOON)
    situation = Situation(status=seen, health=health, policy=Policy(), history=(), model=CostModel(), now=NOON)
    return CachedTable(status=seen, health=health, recommendation=recommend(situation))
