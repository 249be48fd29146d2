"""The audit log."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from contract.queue_harness import DAWN
from icepack.domain.ports.audit import AuditEvent
from icepack.store.admin.audit import SqlAuditLog

DAY = timedelta(days=1)


@pytest.fixture
def audit(engine: Engine) -> SqlAuditLog:
    return SqlAuditLog(engine)


def test_an_audit_entry_is_read_as_it_was_written(audit: SqlAuditLog) -> None:
    event = AuditEvent(
        at=datetime(2026, 11, 15, 12, tzinfo=UTC),
        actor="ann 雪",
        action="job.cancel",
        subject="lake.sales.orders",
        origin="10.0.0.7",
        outcome="done",
        details={"job": "7", "nul": "\0"},
    )
    written = audit.record(event)
    assert written == replace(event, number=written.number)
    assert audit.entries() == [written]


def test_audit_entries_are_filtered_and_read_newest_first(audit: SqlAuditLog) -> None:
    facts = [("ann", "cancel", "a"), ("bob", "cancel", "b"), ("ann", "submit", "b"), ("ann", "cancel", "b")]
    written = [
        audit.record(AuditEvent(at=DAWN + number * DAY, actor=actor, action=action, subject=subject))
        for number, (actor, action, subject) in enumerate(facts)
    ]
    first, second, third, fourth = written
    assert audit.entries() == [fourth, third, second, first]
    assert audit.entries(limit=2) == [fourth, third]
    assert audit.entries(before=third.number) == [second, first]
    assert audit.entries(actor="ann", action="cancel") == [fourth, first]
    assert audit.entries(subject="b", since=DAWN + 2 * DAY) == [fourth, third]
