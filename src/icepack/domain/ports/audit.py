"""Port to the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from icepack.domain.access import ALL_TABLES, Scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """Who did what, when, from where, and with what outcome."""

    at: datetime
    actor: str
    action: str
    subject: str = ""
    origin: str = ""
    outcome: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0


class AuditLog(Protocol):
    """Stores audit events."""

    def record(self, event: AuditEvent) -> AuditEvent: ...

    def entries(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        before: int | None = None,
        scopes: Scopes = ALL_TABLES,
    ) -> list[AuditEvent]:
        """Returns events, newest first; with scopes, only those about tables that the scopes cover."""
        ...

    def close(self) -> None: ...
