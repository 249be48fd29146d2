"""An example of every response, rendered by the presenters that render the real ones."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from icepack.api.auth.authenticator import Identity
from icepack.api.overrides.previews import PolicyChange, PolicyPreview, ScheduleChange, SchedulePreview
from icepack.api.presenters.access import present_key, present_session
from icepack.api.presenters.fleet import present_lock, present_overview
from icepack.api.presenters.jobs import present_accepted_job, present_job, present_job_plan
from icepack.api.presenters.policies import present_policy_preview
from icepack.api.presenters.schedules import present_schedule_preview, present_upcoming_run
from icepack.api.presenters.tables import (
    present_partition,
    present_running_job,
    present_snapshots,
    present_summary,
    present_table,
)
from icepack.api.responses import encode_json
from icepack.api.schemas.examples.records import (
    CACHED,
    DOCUMENT,
    HEALTH,
    JOB,
    JOB_EVENT,
    JOB_ID,
    NOON,
    PARTITION,
    PLAN,
    RECOMMENDATION,
    RUN,
    RUNNING_JOB,
    STATUS,
    SUMMARY,
    TABLE,
)
from icepack.api.schemas.examples.requests import POLICY_OVERRIDE, SCHEDULE_OVERRIDE
from icepack.domain.access import ApiKey, Grant, Principal, Role, Scope
from icepack.domain.actions import Compact
from icepack.domain.job import JobState, Submission, SubmissionOutcome
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.explanation import explain_partitions
from icepack.domain.plan.score import score_partition
from icepack.domain.policy import Policy
from icepack.domain.ports.audit import AuditEvent
from icepack.domain.ports.locks import TableLock
from icepack.domain.ports.queries import WorkerCounts
from icepack.domain.ports.table_cache import CacheState
from icepack.domain.scheduling.schedule import Occurrence, ScheduleEntry
from icepack.domain.table import TablePattern
from icepack.domain.units import MIB
from icepack.service.fleet.upcoming import UpcomingRun
from icepack.service.submission import AcceptedJob
from icepack.service.views.overview import CostFigures, Overview, build_table_figures

SECRET_KEY = "ipk_0123456789abcdef_…"
METRICS = 'compaction_jobs_total{status="success"} 142\n'
_LIST_ONLY_OMITS = ("details", "lease_ends_at", "phases")


def to_plain_json(value: Any) -> Any:
    """Returns the value as it is decoded from a response."""
    return json.loads(encode_json(value))


_EXPLANATIONS = explain_partitions(STATUS, Compact(), CostModel(), NOON, open_grace=timedelta(hours=1))
_JOB = to_plain_json(present_job(JOB, NOON + timedelta(minutes=2)))
_QUEUED = replace(JOB, state=JobState.QUEUED, estimated_seconds=PLAN.cost.duration_seconds)
_ACCEPTED = present_accepted_job(
    AcceptedJob(submission=Submission(job=_QUEUED, outcome=SubmissionOutcome.CREATED), estimate=PLAN.cost)
)
_JOB_RESPONSES = {
    "accepted": _ACCEPTED,
    "maintain": {"jobs": [_ACCEPTED], "recommended": [{"table_name": str(TABLE), "actions": ["compact"]}]},
    "job": _JOB,
    "jobs": {
        "jobs": [{name: value for name, value in _JOB.items() if name not in _LIST_ONLY_OMITS}],
        "next_before": 17,
    },
    "events": {"events": [JOB_EVENT]},
    "job_plan": present_job_plan(JOB, CACHED, PLAN, _EXPLANATIONS),
}

_TABLE_ITEM = present_summary(SUMMARY) | {"native_disabled": False}
_TABLE_HEAD = {"table_name": str(TABLE), "observed_at": NOON}
_SNAPSHOTS = {**DOCUMENT.status["snapshots"], "entries": present_snapshots(DOCUMENT.status, {})}
_SCORED_PARTITION = present_partition(PARTITION, score_partition(PARTITION, NOON), _EXPLANATIONS[PARTITION.key])
_TABLE_RESPONSES = {
    "tables": {
        "tables": [_TABLE_ITEM | {"running": present_running_job(RUNNING_JOB)}],
        "total": 1,
        "next_cursor": None,
    },
    "table": {**present_table(TABLE, DOCUMENT), "policy": Policy(), "native_disabled": None, "running": None},
    "plan": {**_TABLE_HEAD, "compaction": PLAN, "recommendation": RECOMMENDATION},
    "history": {
        "table_name": str(TABLE),
        "runs": [RUN],
        "points": [{"observed_at": NOON, "totals": SUMMARY.totals}],
        "next_before": None,
    },
    "snapshots": {**_TABLE_HEAD, "snapshot_id": STATUS.snapshot_id, "snapshots": _SNAPSHOTS},
    "histogram": {
        **_TABLE_HEAD,
        "count": STATUS.data.count,
        "bytes": STATUS.data.bytes,
        "target_file_bytes": STATUS.target_file_bytes,
        "histogram": STATUS.data.histogram,
        "small": STATUS.data.small,
    },
    "partitions": {**_TABLE_HEAD, "partitions": [_SCORED_PARTITION], "total": 1, "next_offset": None},
}

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
_OVERVIEW = Overview(
    tables=build_table_figures([SUMMARY]),
    trend=(_TREND,),
    maintenance=_COSTS,
    sickest=(SUMMARY,),
    jobs=dict.fromkeys(JobState, 0) | {JobState.RUNNING: 1},
    jobs_last_day={JobState.SUCCEEDED: 40, JobState.FAILED: 1, JobState.CANCELLED: 0},
    workers=WorkerCounts(busy=1, idle=1),
    cache=CacheState(generation=12, refreshed_at=NOON, age=timedelta(minutes=4)),
    native_disabled=0,
)
_LOCK = TableLock(
    table=TABLE,
    owner="host:4711:5f3c",
    token=99,
    purpose="",
    taken_at=NOON,
    expires_at=NOON + timedelta(minutes=1),
    expired=False,
    job_id=JOB_ID,
)
_AUDIT_EVENT = AuditEvent(
    number=7,
    at=NOON,
    actor="key:ci",
    action="api.jobs.submit",
    subject=str(JOB_ID),
    origin="10.0.0.7",
    outcome="created",
    details={"table": str(TABLE)},
)
_FLEET_RESPONSES = {
    "overview": present_overview(_OVERVIEW, ()),
    "cost": {
        "since": NOON - timedelta(days=30),
        "until": NOON,
        "total": _COSTS,
        "by_day": {"2026-01-14": _COSTS},
        "by_action": {"compact": _COSTS},
        "by_table": {str(TABLE): _COSTS},
    },
    "locks": {"locks": [present_lock(_LOCK)]},
    "audit": {"entries": [_AUDIT_EVENT], "next_before": None},
}

_VERSION = {"version": 3, "changed_at": NOON, "changed_by": "key:platform"}
_EVERY_SIX_HOURS = ScheduleEntry(pattern=TablePattern.parse("*"), cron="0 */6 * * *")
_NIGHTLY = ScheduleEntry(
    pattern=TablePattern.parse("sales.orders"), cron="0 2 * * *", compaction={"strategy": "small_files"}
)
_IN_SIX_HOURS = Occurrence(*(NOON + timedelta(hours=6),) * 3)
_NEXT_NIGHT = Occurrence(*(NOON + timedelta(hours=14),) * 3)
_POLICY_CHANGE = PolicyChange(
    table=TABLE,
    settings={"enabled": (True, False)},
    before=RECOMMENDATION,
    after=replace(RECOMMENDATION, actions=(), skipped=()),
    estimated=False,
)
_SCHEDULE_CHANGE = ScheduleChange(
    table=TABLE,
    before=_EVERY_SIX_HOURS,
    after=_NIGHTLY,
    runs_before=28,
    runs_after=7,
    next_before=_IN_SIX_HOURS.due_at,
    next_after=_NEXT_NIGHT.due_at,
)
_OVERRIDE_RESPONSES = {
    "policies": {"base": {"snapshot_retention": "7d"}, "configured": [], "overrides": [POLICY_OVERRIDE], **_VERSION},
    "policy_preview": present_policy_preview(PolicyPreview(tables=1, changes=(_POLICY_CHANGE,))),
    "schedules": {
        "enabled": True,
        "default_schedule": "0 */6 * * *",
        "timezone": "UTC",
        "jitter": "0s",
        "configured": [],
        "overrides": [SCHEDULE_OVERRIDE],
        **_VERSION,
    },
    "schedule_preview": present_schedule_preview(
        SchedulePreview(
            enabled=True,
            since=NOON,
            until=NOON + timedelta(days=7),
            timezone="UTC",
            tables=1,
            changes=(_SCHEDULE_CHANGE,),
            runs=(UpcomingRun(table=TABLE, entry=_NIGHTLY, occurrence=_NEXT_NIGHT),),
            total=7,
        )
    ),
    "upcoming": {
        "enabled": True,
        "from": NOON,
        "until": NOON + timedelta(days=1),
        "timezone": "UTC",
        "runs": [present_upcoming_run(UpcomingRun(table=TABLE, entry=_EVERY_SIX_HOURS, occurrence=_IN_SIX_HOURS))],
        "total": 1,
        "by_hour": [{"hour": NOON + timedelta(hours=6), "runs": 1}],
    },
}

_SALES = (Scope.parse("lake.sales*"),)
KEY = ApiKey(
    id="0123456789abcdef",
    name="ci",
    role=Role.OPERATOR,
    scopes=_SALES,
    created_at=NOON,
    created_by="key:platform",
    expires_at=NOON + timedelta(days=90),
)
_IDENTITY = Identity(
    Principal(name="key:ci", grants=(Grant(Role.OPERATOR, _SALES),)), expires_at=NOON + timedelta(hours=12)
)
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
_ACCESS_RESPONSES = {
    "session": present_session(_IDENTITY, is_authentication_required=True),
    "keys": {"keys": [present_key(KEY, NOON)]},
    "key": {**present_key(KEY, NOON), "key": SECRET_KEY},
    "revoked": present_key(replace(KEY, revoked_at=NOON), NOON),
    "checks": _CHECKS,
    "settings": {
        "versions": {"icepack": "0.1.0", "python": "3.11.2", "iceberg": "1.12.0", "spark": "4.1.4"},
        "catalogs": [{"name": "lake", "type": "rest", "uri": "https://catalog.example.com", "warehouse": "s3://lake"}],
        "timezone": "UTC",
        "windows": ["22:00-06:00"],
        "budgets": [{"layer": "sales.*", "resource": "daily_budget", "limit": 5.0, "spent": 1.25}],
        "sections": {"scheduler": {"enabled": True, "default_schedule": "0 */6 * * *"}},
        "authentication": {"required": True, "oidc_issuer": None},
        "state": {"kind": "postgresql", "url": "postgresql://icepack:***@db.example.com/icepack"},
        "checkup": _CHECKS,
    },
    "health": {"status": "ok", "version": "0.1.0"},
    "ready": {
        "status": "degraded",
        "components": [
            {"name": "database", "status": "ok", "detail": "The state database is reachable."},
            {"name": "catalog", "status": "ok", "detail": "The table cache is up to date."},
            {"name": "engine", "status": "degraded", "detail": "The worker has ended and is started again."},
        ],
    },
}

RESPONSES: dict[str, Any] = to_plain_json(
    _JOB_RESPONSES | _TABLE_RESPONSES | _FLEET_RESPONSES | _OVERRIDE_RESPONSES | _ACCESS_RESPONSES
)
STREAM = f"id: 98\nevent: job\ndata: {json.dumps({**to_plain_json(JOB_EVENT), 'table_name': str(TABLE)})}\n\n"
