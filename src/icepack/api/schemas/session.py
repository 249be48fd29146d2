"""Schemas of sessions: sign-in and the signed-in caller."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from icepack.api.schemas.base import RequestModel, ResponseModel
from icepack.domain.access import Role


class SessionRequest(RequestModel):
    """An API key, unless it is sent in the Authorization header."""

    key: Annotated[str, Field(max_length=500)] | None = None


class GrantView(ResponseModel):
    role: Role
    scopes: list[str]


class SessionView(ResponseModel):
    """The authenticated caller."""

    name: str
    role: Role | None
    grants: list[GrantView]
    expires_at: datetime | None = None
    # Whether the service requires authentication.
    authentication: bool
