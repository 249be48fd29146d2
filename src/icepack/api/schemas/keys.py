"""Schemas of API keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from icepack.api.schemas.base import DurationText, Name, RequestModel, ResponseModel
from icepack.domain.access import Role, Scope
from icepack.domain.units import parse_duration
from icepack.errors import InvalidOption

MAX_LIFETIME = timedelta(days=36_500)


def _check_scope(text: str) -> str:
    try:
        return str(Scope.parse(text))
    except InvalidOption as exc:
        raise PydanticCustomError("scope", "should be catalog.namespace, with * and ? as wildcards") from exc


def _check_lifetime(text: str) -> str:
    if not timedelta(0) < parse_duration(text) <= MAX_LIFETIME:
        raise PydanticCustomError("life", "should be greater than 0s and at most 36500d")
    return text


ScopeText = Annotated[str, Field(max_length=500, examples=["lake.sales*"]), AfterValidator(_check_scope)]


class KeyRequest(RequestModel):
    """A key to create."""

    name: Annotated[Name, Field(max_length=200)]
    role: Role = Role.VIEWER
    # The tables that the key gives access to, as globs; `*` is all tables.
    scopes: Annotated[list[ScopeText], Field(min_length=1, max_length=100)] = Field(default=["*"])
    # The lifetime of the key; if omitted, the key is valid until it is revoked.
    expires_in: Annotated[DurationText, AfterValidator(_check_lifetime)] | None = None


class KeyView(ResponseModel):
    """A key without its secret."""

    id: str
    name: str
    role: Role
    scopes: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    state: Literal["valid", "expired", "revoked"]


class CreatedKey(KeyView):
    """A new key with its secret, which is shown only once: the service stores only a digest."""

    key: str


class KeysView(ResponseModel):
    # The oldest first.
    keys: list[KeyView]
