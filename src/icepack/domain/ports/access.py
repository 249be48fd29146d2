"""Ports to API keys and browser sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from icepack.domain.access import ApiKey, Session
from icepack.errors import UsageError


class KeyNotFound(UsageError):
    """No valid API key has the name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no key '{name}'.", "`icepack keys list` lists all keys.")


class KeyExists(UsageError):
    """A valid API key already has the name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"A valid key named '{name}' already exists.", "Revoke it first, or choose another name.")


class KeyStore(Protocol):
    """Looks up keys by id; a secret is compared by its digest."""

    def add(self, key: ApiKey, digest: str) -> None: ...

    def find(self, key_id: str) -> tuple[ApiKey, str] | None:
        """Returns the key and its digest, even if the key is no longer valid."""
        ...

    def list_keys(self) -> list[ApiKey]: ...

    def revoke(self, name: str, at: datetime) -> ApiKey:
        """Revokes the valid key with this name or id, and ends every session that was opened with it."""
        ...


class SessionStore(Protocol):
    """Browser sessions, looked up by the digest of their token."""

    def open(self, digest: str, session: Session, now: datetime) -> None: ...

    def find(self, digest: str, now: datetime) -> Session | None:
        """Returns None if the session, or the key that it was opened with, has ended."""
        ...

    def end(self, digest: str) -> None: ...
