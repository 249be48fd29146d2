"""How far the schedulers have come: the latest entry of its kind in the audit log counts for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from icepack.domain.ports.audit import AuditEvent, AuditLog
from icepack.domain.scheduling.schedule import Occurrence
from icepack.domain.table import TableId

ACTOR = "scheduler"
# The action of the audit events that hold the checkpoints.
PASS = "schedule.pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTick:
    """An occurrence that is due and could not be processed yet."""

    occurrence: Occurrence
    retry_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCheckpoint:
    """Everything that was due until then has been processed, except for the pending ticks."""

    until: datetime
    pending: Mapping[TableId, PendingTick] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedTicks:
    """How many ticks of a table were skipped, the latest of them, and why."""

    table: TableId
    tick: datetime
    reason: str
    count: int = 1


class ScheduleLog:
    """Reads and writes checkpoints in the audit log."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def read(self) -> ScheduleCheckpoint | None:
        newest = self._audit.entries(actor=ACTOR, action=PASS, limit=1)
        return _parse_checkpoint(newest[0].details) if newest else None

    def write(
        self,
        checkpoint: ScheduleCheckpoint,
        *,
        counts: Mapping[str, int],
        skipped: Sequence[SkippedTicks],
        at: datetime,
    ) -> None:
        details = {
            "until": checkpoint.until.isoformat(),
            "pending": [_pending_json(table, pending) for table, pending in sorted(checkpoint.pending.items())],
            "skipped": [_skipped_json(item) for item in skipped],
            **counts,
        }
        outcome = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        self._audit.record(AuditEvent(at=at, actor=ACTOR, action=PASS, outcome=outcome, details=details))


def _parse_checkpoint(details: Mapping[str, Any]) -> ScheduleCheckpoint:
    pending = {TableId.parse(item["table"]): _parse_pending(item) for item in details["pending"]}
    return ScheduleCheckpoint(until=datetime.fromisoformat(details["until"]), pending=pending)


def _skipped_json(item: SkippedTicks) -> dict[str, Any]:
    return {"table": str(item.table), "tick": item.tick.isoformat(), "count": item.count, "reason": item.reason}


def _pending_json(table: TableId, pending: PendingTick) -> dict[str, str]:
    occurrence = pending.occurrence
    return {
        "table": str(table),
        "tick": occurrence.tick.isoformat(),
        "opens_at": occurrence.opens_at.isoformat(),
        "due_at": occurrence.due_at.isoformat(),
        "again_at": pending.retry_at.isoformat(),
    }


def _parse_pending(item: Mapping[str, str]) -> PendingTick:
    times = {key: datetime.fromisoformat(item[key]) for key in ("tick", "opens_at", "due_at", "again_at")}
    occurrence = Occurrence(times["due_at"], times["tick"], times["opens_at"])
    return PendingTick(occurrence=occurrence, retry_at=times["again_at"])
