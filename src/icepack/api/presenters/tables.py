"""A table as the API shows it: its documents, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from icepack.domain.health import HealthReport
from icepack.domain.health_explanation import expected_score, explain, gains
from icepack.domain.plan.score import PartitionScore
from icepack.domain.plan.why import PartitionVerdict
from icepack.domain.ports.access import Committer, Document, TableDocument
from icepack.domain.recommendation.recommend import Recommendation
from icepack.domain.serialization import from_json
from icepack.domain.status import PartitionStatus


def explained(document: TableDocument) -> Document:
    health = from_json(HealthReport, document.health)
    advice = from_json(Recommendation, document.recommendation) if document.recommendation else None
    return {
        "reasons": explain(health),
        "gains": gains(health, advice),
        "expected_score": expected_score(health, advice),
    }


def stamps(entries: Iterable[Mapping[str, Any]]) -> list[UUID]:
    """The runs that say they committed these; what is no id, somebody else has written."""
    return [job_id for entry in entries if (job_id := _job_id(entry)) is not None]


def _job_id(entry: Mapping[str, Any]) -> UUID | None:
    try:
        return UUID(entry["job_id"]) if entry.get("job_id") else None
    except ValueError:
        return None


def timeline(status: Document, known: Mapping[UUID, Committer]) -> list[Document]:
    """Each snapshot with what points at it and who made it."""
    refs: dict[int, list[str]] = {}
    for ref in status["snapshots"]["refs"]:
        refs.setdefault(ref["snapshot_id"], []).append(ref["name"])
    return [_snapshot(entry, status["snapshot_id"], refs, known) for entry in status["snapshots"]["entries"]]


def _snapshot(
    entry: Document, current: int | None, refs: Mapping[int, list[str]], known: Mapping[UUID, Committer]
) -> Document:
    job_id = _job_id(entry)
    committer = known.get(job_id) if job_id else None
    parent = entry["parent_id"]
    return {
        **entry,
        "id": str(entry["snapshot_id"]),
        "parent": None if parent is None else str(parent),
        "current": entry["snapshot_id"] == current,
        "refs": refs.get(entry["snapshot_id"], []),
        "action": committer.action if committer else None,
        "has_job": committer is not None and committer.has_job,
    }


def shown_partition(partition: PartitionStatus, score: PartitionScore, why: PartitionVerdict) -> Document:
    return {
        "partition": partition,
        "score": score.total,
        "parts": score,
        "planned": why.planned,
        "reason": why.reason,
    }
