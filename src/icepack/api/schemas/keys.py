"""What goes over the wire about keys and settings."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from icepack.api.schemas.jobs import Asked, DurationText, Name, Wire
from icepack.domain.access import Role, Scope
from icepack.domain.fleet import Resource
from icepack.domain.units import parse_duration
from icepack.errors import InvalidOption

LONGEST_LIFE = timedelta(days=36_500)


def _scope(text: str) -> str:
    try:
        return str(Scope.parse(text))
    except InvalidOption as exc:
        raise PydanticCustomError("scope", "should be catalog.namespace, with * and ? as wildcards") from exc


def _life(text: str) -> str:
    if not timedelta(0) < parse_duration(text) <= LONGEST_LIFE:
        raise PydanticCustomError("life", "should be more than nothing and at most 36500d")
    return text


ScopeText = Annotated[str, Field(max_length=500, examples=["lake.sales*"]), AfterValidator(_scope)]


class KeyRequest(Asked):
    """A key to be made."""

    name: Annotated[Name, Field(max_length=200)]
    role: Role = Role.VIEWER
    scopes: Annotated[list[ScopeText], Field(min_length=1, max_length=100)] = Field(default=["*"])
    """Only these tables, by globs; `*` is all."""
    expires_in: Annotated[DurationText, AfterValidator(_life)] | None = None
    """How long it is valid; else until it is revoked."""


class KeyView(Wire):
    """A key, never what it is."""

    id: str
    name: str
    role: Role
    scopes: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    state: Literal["valid", "expired", "revoked"]


class KeyMade(KeyView):
    key: str
    """Shown this once; only a digest of it is kept."""


class KeysView(Wire):
    keys: list[KeyView]
    """The oldest first."""


class CatalogView(Wire):
    name: str
    type: str
    uri: str | None
    warehouse: str | None


class StateView(Wire):
    kind: Literal["sqlite", "postgresql"]
    url: str


class AuthenticationView(Wire):
    required: bool
    oidc_issuer: str | None


class BudgetView(Wire):
    """What may be spent in a day by all tables that have it from the same layer."""

    layer: str
    resource: Resource
    limit: float
    """Dollars, or core-seconds."""
    spent: float
    """Since midnight: what runs took, and what jobs that wait or run should take."""


class CheckView(Wire):
    name: str
    ok: bool
    found: str
    remedy: str
    checked_at: datetime


class ChecksView(Wire):
    running: bool
    """Whether the slow ones are under way."""
    checks: list[CheckView]


class SettingsShown(Wire):
    """`state` and `checkup` are for admins of every catalog, and null for others."""

    versions: dict[str, str]
    catalogs: list[CatalogView]
    timezone: str
    windows: list[str]
    """Of every table that has none of its own; empty is at any time."""
    budgets: list[BudgetView]
    sections: dict[str, Any]
    """Blocks of the configuration, secrets masked."""
    authentication: AuthenticationView
    state: StateView | None
    checkup: ChecksView | None
