"""Access control: roles, the tables they apply to, principals, API keys and sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from icepack.domain.table import TableId, join_name
from icepack.errors import InvalidOption

WILDCARD = "*"
_SCOPE_TEXT = re.compile(r"[^\s\x00]+")


class Role(StrEnum):
    """From the least to the most powerful; each role includes the rights of those before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return tuple(Role).index(self)

    def covers(self, other: Role) -> bool:
        return self.rank >= other.rank


def format_namespace(table: TableId) -> str:
    """Returns the namespace as scopes match it: dotted, with special parts in double quotes."""
    return join_name(table.namespace)


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """Selects tables by globs on catalog and namespace; `*` matches any text, `?` one character."""

    catalog: str = WILDCARD
    namespace: str = WILDCARD

    @classmethod
    def parse(cls, text: str) -> Scope:
        """Parses `catalog.namespace`; without a dot, the scope covers the whole catalog."""
        catalog, _, namespace = text.partition(".")
        if not catalog or not _SCOPE_TEXT.fullmatch(text) or text.endswith("."):
            raise InvalidOption(
                f"'{text}' is not a valid scope.", "Use the form catalog.namespace, with * and ? as wildcards."
            )
        return cls(catalog, namespace or WILDCARD)

    def __str__(self) -> str:
        return f"{self.catalog}.{self.namespace}"

    @property
    def is_everything(self) -> bool:
        return self.catalog == WILDCARD == self.namespace

    def covers(self, table: TableId) -> bool:
        return matches_glob(self.catalog, table.catalog) and matches_glob(self.namespace, format_namespace(table))


Scopes = tuple[Scope, ...]
ALL_TABLES: Scopes = (Scope(),)


def matches_glob(glob: str, text: str) -> bool:
    return glob == WILDCARD or _compile_glob(glob).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _compile_glob(glob: str) -> re.Pattern[str]:
    pieces = {"*": ".*", "?": "."}
    return re.compile("".join(pieces.get(character) or re.escape(character) for character in glob), re.DOTALL)


def is_unlimited(scopes: Iterable[Scope]) -> bool:
    return any(scope.is_everything for scope in scopes)


@dataclass(frozen=True, slots=True)
class Grant:
    """A role and the tables it applies to."""

    role: Role
    scopes: Scopes = ALL_TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated user or API key."""

    name: str
    grants: tuple[Grant, ...]

    def scopes(self, role: Role) -> Scopes:
        """Returns the scopes in which the principal has the role; empty means none."""
        found = {scope for grant in self.grants if grant.role.covers(role) for scope in grant.scopes}
        return ALL_TABLES if is_unlimited(found) else tuple(sorted(found))

    def has_role(self, role: Role, table: TableId) -> bool:
        return is_in_scope(self.scopes(role), table)

    @property
    def role(self) -> Role | None:
        """The highest role in any scope."""
        return max((grant.role for grant in self.grants), key=lambda role: role.rank, default=None)


def is_in_scope(scopes: Iterable[Scope], table: TableId) -> bool:
    return any(scope.covers(table) for scope in scopes)


# The principal of every request when no authentication is configured and the server listens on localhost only.
LOCAL_PRINCIPAL = Principal(name="local", grants=(Grant(Role.ADMIN),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """The stored record of an API key; the secret itself is shown once, at creation, and not stored."""

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
    """A signed-in browser session, identified by a cookie."""

    principal: Principal
    expires_at: datetime
    # The API key that was used to sign in; the session ends when the key does.
    key_id: str | None = None
