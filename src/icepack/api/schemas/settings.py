"""Schemas of the service's settings and of its doctor checks."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from icepack.api.schemas.base import ResponseModel
from icepack.domain.fleet import Resource


class CatalogView(ResponseModel):
    name: str
    type: str
    uri: str | None
    warehouse: str | None


class StateView(ResponseModel):
    kind: Literal["sqlite", "postgresql"]
    url: str


class AuthenticationView(ResponseModel):
    required: bool
    oidc_issuer: str | None


class BudgetView(ResponseModel):
    """A daily budget, shared by all tables that get it from the same policy layer."""

    layer: str
    resource: Resource
    # In dollars, or in core-seconds.
    limit: float
    # Since midnight: the cost of finished runs plus the estimated cost of queued and running jobs.
    spent: float


class CheckView(ResponseModel):
    name: str
    ok: bool
    found: str
    remedy: str
    checked_at: datetime


class ChecksView(ResponseModel):
    # Whether the slow checks are running.
    running: bool
    checks: list[CheckView]


class SettingsView(ResponseModel):
    """The service's settings; `state` and `checkup` are null unless the caller is an admin of every catalog."""

    versions: dict[str, str]
    catalogs: list[CatalogView]
    timezone: str
    # The maintenance windows of tables that have none of their own; empty means any time.
    windows: list[str]
    budgets: list[BudgetView]
    # Sections of the configuration, with secrets masked.
    sections: dict[str, Any]
    authentication: AuthenticationView
    state: StateView | None
    checkup: ChecksView | None
