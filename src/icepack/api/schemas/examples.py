"""An example for every operation, made by the code that makes the real thing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from icepack.api.presenters.jobs import shown
from icepack.api.presenters.tables import explained, shown_partition, timeline
from icepack.api.responses import send
from icepack.domain.actions import ActionKind, Compact
from icepack.domain.health import assess
from icepack.domain.job import Job, JobEvent, JobEventKind, JobProgress, JobState, PhaseMark
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.observability.trace import Phase
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.plan.score import score_partition
from icepack.domain.plan.why import partition_verdicts
from icepack.domain.policy import Policy
from icepack.domain.ports.access import RunningJob, TableDocument, WorkerCounts
from icepack.domain.ports.queue import CachedTable, TableSummary, brief_of
from icepack.domain.recommendation.recommend import Situation, recommend
from icepack.domain.run import RealisedEffect, RunRecord, RunState, totals
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
from icepack.service.views.overview import CostFigures, table_figures

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
TABLE = TableId("lake", ("sales",), "orders")
JOB_ID = UUID("550e8400-e29b-41d4-a716-446655440000")
DAY = PartitionStatus(
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
    partitions=(DAY,),
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
HEALTH = assess(STATUS, NOON)
ADVICE = recommend(Situation(status=STATUS, health=HEALTH, policy=Policy(), history=(), model=CostModel(), now=NOON))
CACHED = CachedTable(status=STATUS, health=HEALTH, recommendation=ADVICE)
PLAN = estimate_compaction(STATUS, Compact(), CostModel(), NOON, open_grace=timedelta(hours=1))
SUMMARY = TableSummary(
    table=TABLE,
    metadata_location=STATUS.metadata_location,
    inspected_at=NOON,
    score=HEALTH.score,
    totals=totals(STATUS, HEALTH.score),
    brief=brief_of(CACHED),
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


def plain(value: Any) -> Any:
    """As it goes over the wire."""
    return json.loads(bytes(send(value).body))


def listed(summary: TableSummary) -> dict[str, Any]:
    brief = summary.brief
    return {
        "table": summary.table,
        "table_name": str(summary.table),
        "score": summary.score,
        "inspected_at": summary.inspected_at,
        "totals": summary.totals,
        "issues": brief.issues,
        "severity": brief.severity,
        "actions": brief.actions,
        "estimated_dollars": brief.estimated_dollars,
        "partitions": brief.partitions,
        "last_compaction_at": brief.last_compaction_at,
        "last_commit_at": brief.last_commit_at,
    }


def running(job: RunningJob) -> dict[str, Any]:
    return {"job_id": job.job_id, "action": job.kind, "started_at": job.started_at, "progress": job.progress}


_LISTED = listed(SUMMARY) | {"native_disabled": False}
_JOB = plain(shown(JOB, NOON + timedelta(minutes=2)))
_DOCUMENT = TableDocument(status=to_json(STATUS), health=to_json(HEALTH), recommendation=to_json(ADVICE))
_PARTITION = shown_partition(
    DAY,
    score_partition(DAY, NOON),
    partition_verdicts(STATUS, Compact(), CostModel(), NOON, open_grace=timedelta(hours=1))[DAY.key],
)
_RUNNING = RunningJob(
    job_id=JOB_ID, table=TABLE, progress=JOB.progress, kind=ActionKind.COMPACT, started_at=JOB.started_at
)
_COSTS = CostFigures(
    runs=142,
    estimated_dollars=1.9,
    realised_dollars=2.1,
    estimated_seconds=3600.0,
    realised_seconds=3890.0,
    estimated_files_removed=5200,
    files_removed=5148,
    estimated_bytes_rewritten=48_318_382_080,
    bytes_rewritten=48_211_001_344,
    bytes_removed=2_011_398_144,
    files_deleted=4890,
    bytes_deleted=45_812_984_490,
)
_TREND = TrendPoint(
    day="2026-01-15",
    tables=1,
    average_score=float(HEALTH.score),
    data_files=40,
    delete_files=0,
    bytes=80 * MIB,
    records=400_000,
)
_ACCEPTED = {
    "job_id": str(JOB_ID),
    "status": "queued",
    "created_at": "2026-01-15T12:00:00Z",
    "estimated_duration_seconds": PLAN.cost.duration_seconds,
    "estimated_cost": PLAN.cost,
    "outcome": "created",
    "table_name": str(TABLE),
    "action": "compact",
}
_CHANGED = {"version": 3, "changed_at": NOON, "changed_by": "key:platform"}
_NAMED = {"table_name": str(TABLE), "observed_at": NOON}
_CACHE = {
    "generation": 12,
    "refreshed_at": NOON,
    "age": "PT4M",
    "refreshing_since": None,
    "failed_at": None,
    "failure": "",
}
_SESSION = {
    "name": "key:ci",
    "role": "operator",
    "grants": [{"role": "operator", "scopes": ["lake.sales*"]}],
    "expires_at": NOON + timedelta(hours=12),
    "authentication": True,
}
_UPCOMING = {
    "table": str(TABLE),
    "due_at": NOON + timedelta(hours=6),
    "tick": NOON + timedelta(hours=6),
    "opens_at": NOON + timedelta(hours=6),
    "jitter_seconds": 0.0,
    "schedule": "0 */6 * * *",
    "compaction": None,
}
_LOCK = {
    "table": TABLE,
    "table_name": str(TABLE),
    "owner": "host:4711:5f3c",
    "token": 99,
    "purpose": "",
    "taken_at": NOON,
    "expires_at": NOON + timedelta(minutes=1),
    "expired": False,
    "job_id": JOB_ID,
}
_AUDIT = {
    "number": 7,
    "at": NOON,
    "actor": "key:ci",
    "action": "api.jobs.submit",
    "subject": str(JOB_ID),
    "origin": "10.0.0.7",
    "outcome": "created",
    "details": {"table": str(TABLE)},
}
_EVENT = JobEvent(number=98, job_id=JOB_ID, table=TABLE, at=NOON, kind=JobEventKind.SUBMITTED, actor="key:ci")
_READY = {
    "status": "degraded",
    "components": [
        {"name": "database", "status": "ok", "detail": "The state database answers."},
        {"name": "catalog", "status": "ok", "detail": "The catalogs were read a short while ago."},
        {"name": "engine", "status": "degraded", "detail": "The worker has ended and is started again."},
    ],
}
KEY: dict[str, Any] = {
    "id": "0123456789abcdef",
    "name": "ci",
    "role": "operator",
    "scopes": ["lake.sales*"],
    "created_at": "2026-01-15T12:00:00Z",
    "created_by": "key:platform",
    "expires_at": "2026-04-15T12:00:00Z",
    "revoked_at": None,
    "state": "valid",
}
_CHECKS = {
    "running": False,
    "checks": [
        {"name": "state", "ok": True, "found": "no run yet", "remedy": "", "checked_at": NOON},
        {
            "name": "catalog lake",
            "ok": False,
            "found": "Catalog 'lake' did not answer.",
            "remedy": "Check its uri.",
            "checked_at": NOON,
        },
    ],
}
_SCHEDULE = {"match": "sales.orders", "schedule": "0 2 * * *", "options": {"strategy": "small_files"}}
_POLICY = {"match": "sales.*", "settings": {"target_file_size": "256MB"}}

ANSWERS: dict[str, Any] = {
    name: plain(value)
    for name, value in {
        "accepted": _ACCEPTED,
        "maintain": {
            "jobs": [_ACCEPTED],
            "recommended": [{"table_name": str(TABLE), "actions": ["compact"]}],
        },
        "job": _JOB,
        "jobs": {
            "jobs": [{k: v for k, v in _JOB.items() if k not in ("details", "lease_ends_at", "phases")}],
            "next_before": 17,
        },
        "events": {"events": [_EVENT]},
        "job_plan": {
            "job_id": JOB_ID,
            **_NAMED,
            "looked_at_since": False,
            "compaction": PLAN,
            "partitions": [
                {
                    "path": DAY.key.path,
                    "spec_id": 0,
                    "planned": True,
                    "reason": "40 of its 40 files become 1.",
                }
            ],
            "partitions_total": 1,
        },
        "tables": {"tables": [_LISTED | {"running": running(_RUNNING)}], "total": 1, "next_cursor": None},
        "table": {
            "table": TABLE,
            "table_name": str(TABLE),
            "status": {**plain(STATUS), "partitions": [], "snapshots": {**plain(STATUS.snapshots), "entries": []}},
            "health": HEALTH,
            "recommendation": ADVICE,
            **explained(_DOCUMENT),
            "policy": Policy(),
            "native_disabled": None,
            "running": None,
        },
        "plan": {**_NAMED, "compaction": PLAN, "recommendation": ADVICE},
        "history": {
            "table_name": str(TABLE),
            "runs": [RUN],
            "points": [{"observed_at": NOON, "totals": SUMMARY.totals}],
            "next_before": None,
        },
        "snapshots": {
            **_NAMED,
            "snapshot_id": STATUS.snapshot_id,
            "snapshots": {**_DOCUMENT.status["snapshots"], "entries": timeline(_DOCUMENT.status, {})},
        },
        "histogram": {
            **_NAMED,
            "count": STATUS.data.count,
            "bytes": STATUS.data.bytes,
            "target_file_bytes": STATUS.target_file_bytes,
            "histogram": STATUS.data.histogram,
            "small": STATUS.data.small,
        },
        "partitions": {**_NAMED, "partitions": [_PARTITION], "total": 1, "next_offset": None},
        "overview": {
            "tables": table_figures([SUMMARY]),
            "workers": WorkerCounts(busy=1, idle=1),
            "trend": [_TREND],
            "maintenance": _COSTS,
            "sickest": [_LISTED],
            "jobs_last_day": {"succeeded": 40, "failed": 1, "cancelled": 0},
            "jobs": {state.value: 0 for state in JobState} | {"running": 1},
            "cache": _CACHE,
            "native_disabled": 0,
        },
        "cost": {
            "since": NOON - timedelta(days=30),
            "until": NOON,
            "total": _COSTS,
            "by_day": {"2026-01-14": _COSTS},
            "by_action": {"compact": _COSTS},
            "by_table": {str(TABLE): _COSTS},
        },
        "locks": {"locks": [_LOCK]},
        "audit": {"entries": [_AUDIT], "next_before": None},
        "upcoming": {
            "enabled": True,
            "from": NOON,
            "until": NOON + timedelta(days=1),
            "timezone": "UTC",
            "runs": [_UPCOMING],
            "total": 1,
            "by_hour": [{"hour": NOON + timedelta(hours=6), "runs": 1}],
        },
        "policy_preview": {
            "tables": 1,
            "recommendations": 1,
            "changes": [
                {
                    "table_name": str(TABLE),
                    "settings": {"enabled": {"before": True, "after": False}},
                    "actions_before": [item.kind for item in ADVICE.actions],
                    "actions_after": [],
                    "recommendation_changes": True,
                    "before": ADVICE,
                    "after": replace(ADVICE, actions=(), skipped=()),
                    "estimated": False,
                }
            ],
        },
        "schedule_preview": {
            "enabled": True,
            "from": NOON,
            "until": NOON + timedelta(days=7),
            "timezone": "UTC",
            "tables": 1,
            "changes": [
                {
                    "table_name": str(TABLE),
                    "schedule_before": "0 */6 * * *",
                    "schedule_after": "0 2 * * *",
                    "compaction_before": None,
                    "compaction_after": {"strategy": "small_files"},
                    "runs_before": 28,
                    "runs_after": 7,
                    "next_before": NOON + timedelta(hours=6),
                    "next_after": NOON + timedelta(hours=14),
                }
            ],
            "runs": [{**_UPCOMING, "schedule": "0 2 * * *"}],
            "total": 7,
        },
        "policies": {
            "base": {"snapshot_retention": "7d"},
            "configured": [],
            "overrides": [_POLICY],
            **_CHANGED,
        },
        "schedules": {
            "enabled": True,
            "default_schedule": "0 */6 * * *",
            "timezone": "UTC",
            "jitter": "0s",
            "configured": [],
            "overrides": [_SCHEDULE],
            **_CHANGED,
        },
        "session": _SESSION,
        "keys": {"keys": [KEY]},
        "key": {**KEY, "key": "ipk_0123456789abcdef_…"},
        "revoked": {**KEY, "revoked_at": NOON, "state": "revoked"},
        "checks": _CHECKS,
        "settings": {
            "versions": {"icepack": "0.1.0", "python": "3.11.2", "iceberg": "1.12.0", "spark": "4.1.4"},
            "catalogs": [
                {"name": "lake", "type": "rest", "uri": "https://catalog.example.com", "warehouse": "s3://lake"}
            ],
            "timezone": "UTC",
            "windows": ["22:00-06:00"],
            "budgets": [{"layer": "sales.*", "resource": "daily_budget", "limit": 5.0, "spent": 1.25}],
            "sections": {"scheduler": {"enabled": True, "default_schedule": "0 */6 * * *"}},
            "authentication": {"required": True, "oidc_issuer": None},
            "state": {"kind": "postgresql", "url": "postgresql://icepack:***@db.example.com/icepack"},
            "checkup": _CHECKS,
        },
        "health": {"status": "ok", "version": "0.1.0"},
        "ready": _READY,
    }.items()
}
REQUESTS: dict[str, Any] = {
    "compact": {
        "catalog": "lake",
        "namespace": "sales",
        "table": "orders",
        "strategy": "small_files",
        "options": {"target_file_size": "1GB", "max_cost": 10.0, "partition_filter": "day = '2026-01-14'"},
    },
    "action": {"options": {"older_than": "7d", "retain_last": 5}},
    "maintain": {"tables": ["lake.sales.*"], "dry_run": True},
    "policies": {"overrides": [_POLICY], "version": 2},
    "schedules": {"overrides": [_SCHEDULE], "version": 2},
    "session": {"key": "ipk_0123456789abcdef_…"},
    "key": {"name": "ci", "role": "operator", "scopes": ["lake.sales*"], "expires_in": "90d"},
}
METRICS = 'compaction_jobs_total{status="success"} 142\n'
STREAM = f"id: 98\nevent: job\ndata: {json.dumps(plain({**plain(_EVENT), 'table_name': str(TABLE)}))}\n\n"
