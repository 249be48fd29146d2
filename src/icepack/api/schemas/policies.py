"""Schemas of policies: overrides, their preview, and the effective layers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from icepack.api.schemas.base import JsonObject, Name, RequestModel, ResponseModel
from icepack.domain.actions import ActionKind
from icepack.domain.recommendation import Recommendation


class PolicyOverride(RequestModel):
    """Settings for every table that `match` selects, as under `policies` in icepack.yaml."""

    match: Name
    settings: Annotated[JsonObject, Field(min_length=1, max_length=50)]


class PutPolicies(RequestModel):
    overrides: Annotated[list[PolicyOverride], Field(max_length=1000)]
    # The version that the change is based on. If the current version differs, nothing is changed.
    version: Annotated[int, Field(ge=0, lt=2**31)] | None = None


class PolicyRuleView(ResponseModel):
    match: str
    settings: dict[str, Any]


class PoliciesView(ResponseModel):
    """The layers of policies, the later one wins: `base`, `configured`, `overrides`, the table's own properties."""

    base: dict[str, Any]
    configured: list[PolicyRuleView]
    overrides: list[PolicyRuleView]
    version: int
    changed_at: datetime | None
    changed_by: str


class SettingChange(ResponseModel):
    before: Any
    after: Any


class PolicyChangeView(ResponseModel):
    """A table whose effective policy would change, and how its recommendation would change."""

    table_name: str
    settings: dict[str, SettingChange]
    actions_before: list[ActionKind]
    actions_after: list[ActionKind]
    # Also true if the same action would be recommended with other parameters.
    recommendation_changes: bool
    before: Recommendation
    after: Recommendation
    # Whether the new settings also change which files count as small. If so, the recommendation is
    # only an estimate until the table is inspected again.
    estimated: bool


class PolicyPreviewView(ResponseModel):
    """What the policies would change; nothing was saved."""

    # The number of tables whose effective policy would change.
    tables: int
    # The number of tables in `changes` whose recommendation would change.
    recommendations: int
    # At most as many as the request's limit.
    changes: list[PolicyChangeView]
