"""Who may do what to which tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from icepack.domain.table import TableId, join_name
from icepack.errors import InvalidOption

ANYTHING = "*"
_SCOPE_TEXT = re.compile(r"[^\s\x00]+")


class Role(StrEnum):
    """From the least to the most; each may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return tuple(Role).index(self)

    def covers(self, other: Role) -> bool:
        return self.rank >= other.rank


def namespace_text(table: TableId) -> str:
    """The namespace as scopes are matched with it: dotted, odd parts in double quotes."""
    return join_name(table.namespace)


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """Tables by the globs of their catalog and namespace; `*` stands for any text, `?` for one character."""

    catalog: str = ANYTHING
    namespace: str = ANYTHING

    @classmethod
    def parse(cls, text: str) -> Scope:
        """From `catalog.namespace`; without a dot, all of a catalog."""
        catalog, _, namespace = text.partition(".")
        if not catalog or not _SCOPE_TEXT.fullmatch(text) or (text.endswith(".")):
            raise InvalidOption(f"'{text}' is no scope.", "Write catalog.namespace, with * and ? as wildcards.")
        return cls(catalog, namespace or ANYTHING)

    def __str__(self) -> str:
        return f"{self.catalog}.{self.namespace}"

    @property
    def is_everything(self) -> bool:
        return self.catalog == ANYTHING == self.namespace

    def covers(self, table: TableId) -> bool:
        return fits(self.catalog, table.catalog) and fits(self.namespace, namespace_text(table))


Scopes = tuple[Scope, ...]
EVERYTHING: Scopes = (Scope(),)


def fits(glob: str, text: str) -> bool:
    return glob == ANYTHING or _pattern(glob).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    pieces = {"*": ".*", "?": "."}
    return re.compile("".join(pieces.get(character) or re.escape(character) for character in glob), re.DOTALL)


def unlimited(scopes: Iterable[Scope]) -> bool:
    return any(scope.is_everything for scope in scopes)


@dataclass(frozen=True, slots=True)
class Grant:
    """A role over some tables."""

    role: Role
    scopes: Scopes = EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Whoever asks."""

    name: str
    grants: tuple[Grant, ...]

    def scopes(self, role: Role) -> Scopes:
        """Where this one may act in the role; empty is nowhere."""
        found = {scope for grant in self.grants if grant.role.covers(role) for scope in grant.scopes}
        return EVERYTHING if unlimited(found) else tuple(sorted(found))

    def may(self, role: Role, table: TableId) -> bool:
        return covered(self.scopes(role), table)

    @property
    def role(self) -> Role | None:
        """The highest that is held anywhere."""
        return max((grant.role for grant in self.grants), key=lambda role: role.rank, default=None)


def covered(scopes: Iterable[Scope], table: TableId) -> bool:
    return any(scope.covers(table) for scope in scopes)


LOCAL = Principal(name="local", grants=(Grant(Role.ADMIN),))
"""Everybody, where no authentication is configured and only this machine is listened to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What is kept of a key; the key itself is shown once and never again."""

    id: str
    name: str
    role: Role
    scopes: Scopes
    created_at: datetime
    created_by: str = ""
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def principal(self) -> Principal:
        return Principal(name=f"key:{self.name}", grants=(Grant(self.role, self.scopes),))

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def state(self, now: datetime) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "valid" if self.is_valid(now) else "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A sign-in that a cookie stands for."""

    principal: Principal
    expires_at: datetime
    key_id: str | None = None
    """The key it was traded for: with that key it ends."""
