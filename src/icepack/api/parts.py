"""All that the routes speak to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from icepack.api.auth.authenticator import Doorman
from icepack.api.doctor_runner import Checkup
from icepack.api.overrides.policies import Agenda
from icepack.api.overrides.previews import Previews
from icepack.api.presenters.settings import SettingsView
from icepack.api.rate_limit import Limits
from icepack.api.readiness import ReadinessCheck
from icepack.api.sse import News
from icepack.domain.ports.access import Board, KeyStore
from icepack.domain.ports.queue import AuditLog, JobStore, TableLocks
from icepack.service.fleet.budgets import Budgets
from icepack.service.submission import Intake
from icepack.service.views.overview import Figures
from icepack.service.views.table_index import Directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    jobs: JobStore
    locks: TableLocks
    audit: AuditLog
    board: Board
    directory: Directory
    intake: Intake
    figures: Figures
    agenda: Agenda
    previews: Previews
    settings: SettingsView
    checkup: Checkup
    budgets: Budgets
    keys: KeyStore
    doorman: Doorman
    limits: Limits
    failures: Limits
    """Of those who bring wrong keys."""
    news: News
    readiness: ReadinessCheck
    exposition: Callable[[], tuple[bytes, str]]
    clock: Callable[[], datetime]
    secure_cookies: bool
