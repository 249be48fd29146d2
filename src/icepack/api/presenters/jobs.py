"""Presents jobs as JSON: the fields of the command line's JSON, plus the API's own names for some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import orjson

from icepack.api.responses import encode_json
from icepack.domain.job import Job, JobState
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.plan.explanation import PartitionExplanation
from icepack.domain.plan.files import PartitionKey
from icepack.domain.ports.queries import JobListItem
from icepack.domain.ports.table_cache import CachedTable
from icepack.domain.serialization import to_json
from icepack.service.submission import AcceptedJob

MAX_PARTITIONS = 1000


def present_job(job: Job, now: datetime) -> dict[str, Any]:
    document = to_json(job)
    completes_at = estimate_completion(job.state, job.started_at, document["progress"], job.estimated_seconds, now)
    return {
        "job_id": document["id"],
        "status": document["state"],
        "created_at": document["submitted_at"],
        "estimated_duration_seconds": document["estimated_seconds"],
        "estimated_completion": completes_at,
        **document,
        "table_name": str(job.table),
        "phases": list(present_phases(job, now)),
    }


def render_list_item(job: JobListItem, now: datetime) -> orjson.Fragment:
    """Renders a job of a list as JSON; the store has rendered most of it already."""
    completes_at = None
    if job.state is JobState.RUNNING:
        progress = orjson.loads(job.progress)
        completes_at = estimate_completion(job.state, job.started_at, progress, job.estimated_seconds, now)
    head = encode_json(
        {
            "job_id": job.job_id,
            "status": job.state,
            "created_at": orjson.Fragment(job.submitted_at),
            "estimated_duration_seconds": job.estimated_seconds,
            "estimated_completion": completes_at,
        }
    )
    return orjson.Fragment(b"%s,%s}" % (head[:-1], job.text.encode()))


def present_phases(job: Job, now: datetime) -> Iterator[dict[str, Any]]:
    """Yields the phases; each ends when the next starts, and the last one when the job finishes."""
    marks = job.progress.phases
    ends = [*(mark.started_at for mark in marks[1:]), job.finished_at][: len(marks)]
    for mark, ended_at in zip(marks, ends, strict=True):
        seconds = max(((ended_at or now) - mark.started_at).total_seconds(), 0.0)
        yield {"phase": mark.phase, "started_at": mark.started_at, "ended_at": ended_at, "seconds": seconds}


def estimate_completion(
    state: JobState,
    started_at: datetime | None,
    progress: Mapping[str, int],
    estimated_seconds: float | None,
    now: datetime,
) -> datetime | None:
    """Extrapolates from the progress of a running job, or from its estimate as long as there is no progress."""
    if state is not JobState.RUNNING or started_at is None:
        return None
    completed, total = progress["partitions_completed"], progress["partitions_total"]
    if completed and total:
        return started_at + (now - started_at) * (total / completed)
    return None if estimated_seconds is None else max(started_at + timedelta(seconds=estimated_seconds), now)


def present_accepted_job(accepted: AcceptedJob) -> dict[str, Any]:
    job = accepted.submission.job
    return {
        "job_id": str(job.id),
        "status": job.state.value,
        "created_at": job.submitted_at,
        "estimated_duration_seconds": job.estimated_seconds,
        "estimated_cost": accepted.estimate,
        "outcome": accepted.submission.outcome.value,
        "table_name": str(job.table),
        "action": job.kind.value,
    }


def present_job_plan(
    job: Job,
    cached: CachedTable,
    plan: CompactionPlan | None,
    explanations: Mapping[PartitionKey, PartitionExplanation],
) -> dict[str, Any]:
    ordered = sorted(explanations.items(), key=lambda item: (not item[1].planned, item[0]))[:MAX_PARTITIONS]
    observed_at = cached.status.observed_at
    return {
        "job_id": job.id,
        "table_name": str(job.table),
        "observed_at": observed_at,
        "looked_at_since": job.started_at is not None and observed_at > job.started_at,
        "compaction": plan,
        "partitions": [{"path": key.path, "spec_id": key.spec_id, **asdict(why)} for key, why in ordered],
        "partitions_total": len(explanations),
    }
