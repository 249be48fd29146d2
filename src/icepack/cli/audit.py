"""Records what commands change in the audit log."""

from __future__ import annotations

import getpass
import socket
from datetime import UTC, datetime

from icepack.domain.ports.audit import AuditEvent
from icepack.wiring import App


def current_actor() -> str:
    """Returns the user and host that the audit log and jobs name as their author."""
    return f"cli:{getpass.getuser()}@{socket.gethostname()}"


def record_audit_event(app: App, action: str, subject: str, outcome: str) -> None:
    now = datetime.now(UTC)
    app.audit.record(AuditEvent(at=now, actor=current_actor(), action=action, subject=subject, outcome=outcome))
