"""All that the routes speak to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from icepack.api.agenda import Agenda
from icepack.api.checkup import Checkup
from icepack.api.doorman import Doorman
from icepack.api.limits import Limits
from icepack.api.news import News
from icepack.api.previews import Previews
from icepack.api.readiness import ReadinessCheck
from icepack.api.settings_view import SettingsView
from icepack.domain.access_ports import Board, KeyStore
from icepack.domain.queue_ports import AuditLog, JobStore, TableLocks
from icepack.service.budgets import Budgets
from icepack.service.directory import Directory
from icepack.service.intake import Intake
from icepack.service.overview import Figures


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
