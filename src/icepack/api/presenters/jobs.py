"""Jobs as the API shows them: all that the command line's JSON has, and the names of the contract beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from icepack.domain.job import Job, JobState
from icepack.domain.ports.access import JobText
from icepack.domain.serialization import to_json
from icepack.service.submission import Accepted


def named(document: dict[str, Any], now: datetime) -> dict[str, Any]:
    return {
        "job_id": document["id"],
        "status": document["state"],
        "created_at": document["submitted_at"],
        "estimated_duration_seconds": document["estimated_seconds"],
        "estimated_completion": _completion(document, now),
        **document,
    }


def listed_text(job: JobText, now: datetime) -> str:
    """The same for a list, as JSON."""
    ends_at = None
    if job.state is JobState.RUNNING:
        facts = {"state": job.state, "started_at": job.started_at, "estimated_seconds": job.estimated_seconds}
        ends_at = _completion({**facts, "progress": json.loads(job.progress)}, now)
    end = "null" if ends_at is None else f'"{ends_at.isoformat()}"'
    seconds = "null" if job.estimated_seconds is None else repr(job.estimated_seconds)
    return (
        f'{{"job_id":"{job.job_id}","status":"{job.state}","created_at":{job.submitted_at},'
        f'"estimated_duration_seconds":{seconds},"estimated_completion":{end},{job.text}}}'
    )


def shown(job: Job, now: datetime) -> dict[str, Any]:
    """With the times as times, since an estimate is made from them."""
    document = to_json(job) | {"table_name": str(job.table), "started_at": job.started_at}
    return named(document, now) | {"phases": list(phases(job, now))}


def phases(job: Job, now: datetime) -> Iterator[dict[str, Any]]:
    """Each lasts until the next begins; the last one of a job that has ended, until then."""
    marks = job.progress.phases
    ends = [*(mark.started_at for mark in marks[1:]), job.finished_at][: len(marks)]
    for mark, ended_at in zip(marks, ends, strict=True):
        seconds = max(((ended_at or now) - mark.started_at).total_seconds(), 0.0)
        yield {"phase": mark.phase, "started_at": mark.started_at, "ended_at": ended_at, "seconds": seconds}


def _completion(document: dict[str, Any], now: datetime) -> datetime | None:
    """By what is done so far; before there is anything, by the estimate."""
    started: datetime | None = document["started_at"]
    if document["state"] != JobState.RUNNING or started is None:
        return None
    progress: dict[str, int] = document["progress"]
    done, total = progress["partitions_completed"], progress["partitions_total"]
    if done and total:
        return started + (now - started) * (total / done)
    seconds: float | None = document["estimated_seconds"]
    return None if seconds is None else max(started + timedelta(seconds=seconds), now)


def accepted(found: Accepted) -> dict[str, Any]:
    job, estimate = found.submission.job, found.estimate
    return {
        "job_id": str(job.id),
        "status": job.state.value,
        "created_at": job.submitted_at,
        "estimated_duration_seconds": job.estimated_seconds,
        "estimated_cost": estimate,
        "outcome": found.submission.outcome.value,
        "table_name": str(job.table),
        "action": job.kind.value,
    }
