"""Sample run records, from minimal ones to one with every field set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from icepack.domain.actions import (
    Action,
    Compact,
    ComputeStats,
    ExpireSnapshots,
    Layout,
    PartitionSelection,
    RemoveOrphanFiles,
    RewriteManifests,
    RewritePositionDeletes,
    Strategy,
)
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.recommendation import ExpectedEffect
from icepack.domain.run import Proof, RealisedEffect, RunRecord, RunState, Totals
from icepack.domain.status import SizeBucket
from icepack.domain.table import TableId
from icepack.domain.verification import (
    ColumnDifference,
    FileClass,
    Mismatch,
    NativeFailure,
    ProofLevel,
    ValueProof,
)

ORDERS = TableId("lake", ("sales",), "orders")
ODD = TableId("läke", ("a.b", 'the "best"', "日本"), "naïve; DROP TABLE runs -- 🧊")
NOON = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC)
LARGEST_SNAPSHOT_ID = 2**63 - 1
SIZES = (SizeBucket(below_bytes=2**20, count=1, bytes=9), SizeBucket(below_bytes=None, count=9, bytes=2**41))

FILE_CLASS = FileClass("7f3a", {"created_by": "wrïter 雪", "codecs": ["ZSTD"], "field_ids": False, "spec_id": 2})
MISMATCH = Mismatch(
    snapshot_id=LARGEST_SNAPSHOT_ID,
    partition="día=1",
    classes=(FILE_CLASS,),
    files=("s3://b/ü/1.parquet", "s3://b/ü/2.parquet"),
    rows_before=2**40,
    rows_after=2**40,
    differences=(
        ColumnDifference(column="größe", measure="hash_1", before="-1", after="9223372036854775807"),
        ColumnDifference(column="größe", measure="upper_bound", before="1", after="2", file="s3://b/ü/3.parquet"),
        ColumnDifference(column="x y", measure="nulls", before="0", after="1"),
    ),
    kernel_version="1.2.3+abc",
)
VALUE_PROOF = ValueProof(
    level=ProofLevel.FULL,
    groups=11,
    groups_compared=3,
    rows_compared=2**40,
    spark_groups=1,
    commits_compared=1,
    reasons={"full": 2, "new_class": 1},
    new_classes=("7f3a",),
    failures=(NativeFailure(partition="día=1", error="ArrowInvalid: \0"),),
    mismatch=MISMATCH,
    kernel_version="1.2.3+abc",
)

PARTITION = PartitionSelection(
    PartitionKey(2, "day=2026-11-14/país=España"),
    (
        PartitionValue("at", "day", "2026-11-14"),
        PartitionValue("bucket", "bucket[16]", 7),
        PartitionValue("ratio", "identity", 1.0),
        PartitionValue("flag", "identity", True),
        PartitionValue("void", "void", None),
    ),
)
ACTIONS: tuple[Action, ...] = (
    Compact(
        strategy=Strategy.TIME_SERIES,
        layout=Layout.ZORDER,
        columns=("größe", "x y"),
        target_file_bytes=512 * 1024**2,
        small_file_bytes=32 * 1024**2,
        delete_file_threshold=3,
        partition_filter="date >= current_date - 7",
        partitions=(PARTITION,),
        partial_progress=True,
        proof=ProofLevel.FULL,
        max_cost_dollars=0.25,
        options={"max-concurrent-file-group-rewrites": "2"},
    ),
    RewritePositionDeletes(partition_filter="día = 'lunes'", remove_dangling=True, options={"rewrite-all": "true"}),
    RewriteManifests(spec_id=1, options={"use-caching": "false"}),
    ExpireSnapshots(older_than=timedelta(hours=36, microseconds=1), retain_last=3, snapshot_ids=(LARGEST_SNAPSHOT_ID,)),
    RemoveOrphanFiles(older_than=timedelta(days=30), location="s3://b/ü", equal_schemes={"s3a": "s3"}, dry_run=True),
    ComputeStats(columns=("ключ",), snapshot_id=-1, partition_stats=True),
)


def run(table: TableId = ORDERS, *, minutes: float = 0, **fields: Any) -> RunRecord:
    """A run that succeeded, started that many minutes after noon and took one."""
    started_at = NOON + timedelta(minutes=minutes)
    plain = {
        "job_id": uuid4(),
        "table": table,
        "action": Compact(),
        "state": RunState.SUCCEEDED,
        "started_at": started_at,
        "finished_at": started_at + timedelta(minutes=1),
    }
    return RunRecord(**{**plain, **fields})


def totals(snapshot_id: int | None, data_files: int = 10) -> Totals:
    return Totals(
        snapshot_id=snapshot_id,
        data_files=data_files,
        delete_files=2,
        bytes=3 * 10**15,
        records=2**40,
        snapshots=4,
        manifests=5,
        score=96,
    )


def full_run(action: Action) -> RunRecord:
    """A run in which no field has its default."""
    return run(
        ODD,
        job_id=UUID("00000000-0000-4000-8000-0000000000ff"),
        action=action,
        table_uuid="6f1d6c4a-0000-4000-8000-000000000000",
        attempts=3,
        retryable=True,
        error="EngineFault",
        message="gefügt: 'quotes', \"doppelt\", 100 %, :named, 雪\n🧊",
        before=totals(7, data_files=400),
        after=totals(LARGEST_SNAPSHOT_ID),
        effect=RealisedEffect(
            files_rewritten=400, files_added=10, bytes_rewritten=2**50, added_sizes=SIZES, manifests_after=5
        ),
        proofs=(Proof(method="manifests", rows_before=2**40, rows_after=2**40),),
        value_proof=VALUE_PROOF,
        commits=(8, LARGEST_SNAPSHOT_ID),
        expected=ExpectedEffect(files_removed=390, bytes_rewritten=2**50),
        estimate=CostEstimate(get_requests=800, put_requests=14, compute_seconds=54.5, dollars=0.0021),
        realised_seconds=61.25,
        details={"groups": [{"path": "día=1", "files": 400}], "none": None, "deep": {"π": 3.14159}},
    )
