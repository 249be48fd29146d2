"""How far the schedulers are: the newest entry of its kind in the audit log says it for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from icepack.domain.ports.queue import AuditEvent, AuditLog
from icepack.domain.scheduling.schedule import Occurrence
from icepack.domain.table import TableId

ACTOR = "scheduler"
PASS = "schedule.pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An occurrence that has come due and could not be seen to yet."""

    occurrence: Occurrence
    again_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Everything due until then was seen to, but for what is pending."""

    until: datetime
    pending: Mapping[TableId, Pending] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Ticks of a table that are not made up for, the latest of them, and why."""

    table: TableId
    tick: datetime
    reason: str
    count: int = 1


class ScheduleLog:
    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def read(self) -> Mark | None:
        newest = self._audit.entries(actor=ACTOR, action=PASS, limit=1)
        return _mark(newest[0].details) if newest else None

    def write(self, mark: Mark, *, counts: Mapping[str, int], skipped: Sequence[Skipped], at: datetime) -> None:
        details = {
            "until": mark.until.isoformat(),
            "pending": [_pending_json(table, pending) for table, pending in sorted(mark.pending.items())],
            "skipped": [_skipped_json(item) for item in skipped],
            **counts,
        }
        outcome = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        self._audit.record(AuditEvent(at=at, actor=ACTOR, action=PASS, outcome=outcome, details=details))


def _mark(details: Mapping[str, Any]) -> Mark:
    pending = {TableId.parse(item["table"]): _pending(item) for item in details["pending"]}
    return Mark(until=datetime.fromisoformat(details["until"]), pending=pending)


def _skipped_json(item: Skipped) -> dict[str, Any]:
    return {"table": str(item.table), "tick": item.tick.isoformat(), "count": item.count, "reason": item.reason}


def _pending_json(table: TableId, pending: Pending) -> dict[str, str]:
    occurrence = pending.occurrence
    return {
        "table": str(table),
        "tick": occurrence.tick.isoformat(),
        "opens_at": occurrence.opens_at.isoformat(),
        "due_at": occurrence.due_at.isoformat(),
        "again_at": pending.again_at.isoformat(),
    }


def _pending(item: Mapping[str, str]) -> Pending:
    read = {key: datetime.fromisoformat(item[key]) for key in ("tick", "opens_at", "due_at", "again_at")}
    return Pending(occurrence=Occurrence(read["due_at"], read["tick"], read["opens_at"]), again_at=read["again_at"])
