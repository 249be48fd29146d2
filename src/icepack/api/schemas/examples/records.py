"""Domain records that the examples show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from icepack.domain.actions import ActionKind, Compact
from icepack.domain.health import assess_health
from icepack.domain.job import Job, JobEvent, JobEventKind, JobProgress, JobState, PhaseMark
from icepack.domain.observability.trace import Phase
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.policy import Policy
from icepack.domain.ports.queries import RunningJob, TableDocument
from icepack.domain.ports.table_cache import CachedTable, TableSummary, build_brief
from icepack.domain.recommendation import Situation, recommend
from icepack.domain.run import RealisedEffect, RunRecord, RunState, compute_totals
from icepack.domain.serialization import to_json
from icepack.domain.status import (
    DataFileStatus,
    PartitionStatus,
    Ref,
    SizeBucket,
    SmallFiles,
    SnapshotEntry,
    SnapshotStatus,
    TableStatus,
)
from icepack.domain.table import TableId
from icepack.domain.units import MIB
from icepack.domain.verification import CheckReason, ProofLevel, ValueProof

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
TABLE = TableId("lake", ("sales",), "orders")
JOB_ID = UUID("550e8400-e29b-41d4-a716-446655440000")
PARTITION = PartitionStatus(
    key=PartitionKey(0, "day=2026-01-14"),
    values=(PartitionValue("day", "identity", "2026-01-14"),),
    data_files=40,
    bytes=80 * MIB,
    records=400_000,
    small_files=40,
    small_bytes=80 * MIB,
    last_written_at=NOON - timedelta(hours=13),
)
STATUS = TableStatus(
    table=TABLE,
    observed_at=NOON,
    metadata_location="s3://lake/sales/orders/metadata/00040.metadata.json",
    table_uuid="6f1d6c4a-8d5e-4c1e-9d57-0f6f2c9a1b2c",
    format_version=2,
    location="s3://lake/sales/orders",
    snapshot_id=4_011_245_118,
    data=DataFileStatus(
        count=40,
        bytes=80 * MIB,
        records=400_000,
        histogram=(SizeBucket(below_bytes=8 * MIB, count=40, bytes=80 * MIB),),
        small=(SmallFiles(threshold_bytes=32 * MIB, count=40, bytes=80 * MIB),),
    ),
    partitions=(PARTITION,),
    snapshots=SnapshotStatus(
        count=1,
        oldest_at=NOON - timedelta(hours=13),
        newest_at=NOON - timedelta(hours=13),
        refs=(Ref(name="main", kind="branch", snapshot_id=4_011_245_118),),
        entries=(
            SnapshotEntry(
                snapshot_id=4_011_245_118,
                parent_id=None,
                committed_at=NOON - timedelta(hours=13),
                operation="append",
            ),
        ),
    ),
)
HEALTH = assess_health(STATUS, NOON)
RECOMMENDATION = recommend(
    Situation(status=STATUS, health=HEALTH, policy=Policy(), history=(), model=CostModel(), now=NOON)
)
CACHED = CachedTable(status=STATUS, health=HEALTH, recommendation=RECOMMENDATION)
PLAN = estimate_compaction(STATUS, Compact(), CostModel(), NOON, open_grace=timedelta(hours=1))
SUMMARY = TableSummary(
    table=TABLE,
    metadata_location=STATUS.metadata_location,
    inspected_at=NOON,
    score=HEALTH.score,
    totals=compute_totals(STATUS, HEALTH.score),
    brief=build_brief(CACHED),
)
JOB = Job(
    id=JOB_ID,
    number=17,
    table=TABLE,
    action=Compact(),
    state=JobState.RUNNING,
    priority=0,
    max_attempts=3,
    attempts=1,
    submitted_at=NOON,
    started_at=NOON + timedelta(seconds=5),
    requester="key:ci",
    worker="host:4711:5f3c",
    fence=99,
    progress=JobProgress(
        partitions_completed=5,
        partitions_total=10,
        files_processed=150,
        bytes_read=5_368_709_120,
        bytes_written=1_073_741_824,
        working_on=("day=2026-01-14",),
        phases=(
            PhaseMark(phase=Phase.PLANNING, started_at=NOON + timedelta(seconds=5)),
            PhaseMark(phase=Phase.EXECUTION, started_at=NOON + timedelta(seconds=7)),
        ),
    ),
    estimated_seconds=300.0,
)
RUN = RunRecord(
    job_id=JOB_ID,
    table=TABLE,
    action=Compact(),
    state=RunState.SUCCEEDED,
    started_at=NOON,
    finished_at=NOON + timedelta(seconds=12),
    effect=RealisedEffect(files_rewritten=40, files_added=1, bytes_rewritten=80 * MIB, bytes_added=78 * MIB),
    value_proof=ValueProof(
        level=ProofLevel.SAMPLED,
        groups=12,
        groups_compared=2,
        rows_compared=80_000,
        reasons={CheckReason.NEW_CLASS.value: 1, CheckReason.SAMPLE.value: 1},
        new_classes=("4c1e9d570f6f2c9a",),
        kernel_version="1",
    ),
    estimate=PLAN.cost,
    realised_seconds=12.0,
)
JOB_EVENT = JobEvent(number=98, job_id=JOB_ID, table=TABLE, at=NOON, kind=JobEventKind.SUBMITTED, actor="key:ci")
RUNNING_JOB = RunningJob(
    job_id=JOB_ID, table=TABLE, progress=JOB.progress, kind=ActionKind.COMPACT, started_at=JOB.started_at
)
DOCUMENT = TableDocument(status=to_json(STATUS), health=to_json(HEALTH), recommendation=to_json(RECOMMENDATION))
