"""Presents tables as JSON: list items, health explanations, snapshots and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import orjson

from icepack.api.responses import encode_json
from icepack.domain.health import HealthReport
from icepack.domain.health_explanation import estimate_gains, estimate_score, explain_health
from icepack.domain.plan.explanation import PartitionExplanation
from icepack.domain.plan.score import PartitionScore
from icepack.domain.ports.queries import Committer, Document, RunningJob, TableDocument
from icepack.domain.ports.table_cache import TableSummary
from icepack.domain.recommendation import Recommendation
from icepack.domain.serialization import from_json
from icepack.domain.status import PartitionStatus
from icepack.domain.table import TableId
from icepack.service.views.table_index import TableListEntry


def present_summary(summary: TableSummary) -> Document:
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


def present_running_job(job: RunningJob) -> Document:
    return {"job_id": job.job_id, "action": job.kind, "started_at": job.started_at, "progress": job.progress}


def render_list_entry(entry: TableListEntry, is_native_disabled: bool, job: RunningJob | None) -> orjson.Fragment:
    """Renders a table of a list as JSON; all but the last two fields are rendered once per listing."""
    if not entry.text:
        entry.text = encode_json(present_summary(entry.summary)).decode()
    tail: Document = {"native_disabled": is_native_disabled}
    if job is not None:
        tail["running"] = present_running_job(job)
    return orjson.Fragment(b"%s,%s" % (entry.text[:-1].encode(), encode_json(tail)[1:]))


def present_table(table: TableId, document: TableDocument) -> Document:
    """Presents a cached table, without the partitions and snapshots of its status: they have their own pages."""
    snapshots = {**document.status["snapshots"], "entries": []}
    return {
        "table": table,
        "table_name": str(table),
        "status": {**document.status, "partitions": [], "snapshots": snapshots},
        "health": document.health,
        "recommendation": document.recommendation,
        **explain_score(document),
    }


def explain_score(document: TableDocument) -> Document:
    """Explains the health score, and what the recommended actions should add to it."""
    health = from_json(HealthReport, document.health)
    recommendation = from_json(Recommendation, document.recommendation) if document.recommendation else None
    return {
        "reasons": explain_health(health),
        "gains": estimate_gains(health, recommendation),
        "expected_score": estimate_score(health, recommendation),
    }


def collect_job_ids(snapshots: Iterable[Mapping[str, Any]]) -> list[UUID]:
    """Returns the ids of the icepack runs that committed the snapshots."""
    return [job_id for snapshot in snapshots if (job_id := _parse_job_id(snapshot)) is not None]


def _parse_job_id(snapshot: Mapping[str, Any]) -> UUID | None:
    """Returns None also for an invalid id: any writer may set the summary property."""
    try:
        return UUID(snapshot["job_id"]) if snapshot.get("job_id") else None
    except ValueError:
        return None


def present_snapshots(status: Document, committers: Mapping[UUID, Committer]) -> list[Document]:
    """Presents each snapshot with the branches and tags that point to it, and the run that committed it."""
    refs: dict[int, list[str]] = {}
    for ref in status["snapshots"]["refs"]:
        refs.setdefault(ref["snapshot_id"], []).append(ref["name"])
    entries = status["snapshots"]["entries"]
    return [_present_snapshot(entry, status["snapshot_id"], refs, committers) for entry in entries]


def _present_snapshot(
    snapshot: Document, current: int | None, refs: Mapping[int, list[str]], committers: Mapping[UUID, Committer]
) -> Document:
    job_id = _parse_job_id(snapshot)
    committer = committers.get(job_id) if job_id else None
    parent = snapshot["parent_id"]
    return {
        **snapshot,
        "id": str(snapshot["snapshot_id"]),
        "parent": None if parent is None else str(parent),
        "current": snapshot["snapshot_id"] == current,
        "refs": refs.get(snapshot["snapshot_id"], []),
        "action": committer.action if committer else None,
        "has_job": committer is not None and committer.has_job,
    }


def present_partition(partition: PartitionStatus, score: PartitionScore, why: PartitionExplanation) -> Document:
    return {
        "partition": partition,
        "score": score.total,
        "parts": score,
        "planned": why.planned,
        "reason": why.reason,
    }
