"""Authenticates requests by API key, OIDC token or session cookie, and caches the result for a few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from icepack.api.auth.api_keys import compute_digest, generate_session_token, matches_digest, parse_key
from icepack.api.auth.oidc import OidcVerifier
from icepack.api.errors import Unauthenticated
from icepack.domain.access import LOCAL_PRINCIPAL, Principal, Session
from icepack.domain.ports.access import KeyStore, SessionStore

# A revoked key keeps working for at most this long.
CACHE_SECONDS = 5.0
MAX_CACHED = 10_000
# The same for all reasons, so that a response does not reveal which key ids exist.
_INVALID_KEY = "The API key is invalid, expired or revoked."


@dataclass(frozen=True, slots=True)
class Credentials:
    """The bearer token or session cookie of a request."""

    bearer: str | None = None
    cookie: str | None = None

    @property
    def text(self) -> str:
        return f"b:{self.bearer}" if self.bearer is not None else f"c:{self.cookie}"

    @property
    def are_missing(self) -> bool:
        return self.bearer is None and self.cookie is None


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated principal, and until when the authentication is valid."""

    principal: Principal
    expires_at: datetime | None = None
    key_id: str | None = None


class Authenticator:
    def __init__(
        self,
        *,
        keys: KeyStore,
        sessions: SessionStore,
        oidc: OidcVerifier | None,
        required: bool,
        session_lifetime: timedelta,
        clock: Callable[[], datetime],
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.required = required
        self._keys = keys
        self._sessions = sessions
        self._oidc = oidc
        self._session_lifetime = session_lifetime
        self._clock = clock
        self._elapsed_seconds = elapsed_seconds
        self._cache: dict[str, tuple[Identity, float]] = {}

    def get_cached(self, credentials: Credentials) -> Identity | None:
        """Returns the cached identity without reading the database, or None if there is no fresh one."""
        if not self.required:
            return Identity(LOCAL_PRINCIPAL)
        cached = self._cache.get(compute_digest(credentials.text))
        if cached is None or self._elapsed_seconds() - cached[1] > CACHE_SECONDS:
            return None
        expires_at = cached[0].expires_at
        return cached[0] if expires_at is None or self._clock() < expires_at else None

    def authenticate(self, credentials: Credentials) -> Identity:
        """Verifies the credentials; raises Unauthenticated."""
        if not self.required:
            return Identity(LOCAL_PRINCIPAL)
        identity = self._verify(credentials)
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        self._cache[compute_digest(credentials.text)] = (identity, self._elapsed_seconds())
        return identity

    def open_session(self, bearer: str) -> tuple[str, Identity]:
        """Exchanges an API key or an OIDC token for a session; returns the session token and its identity."""
        identity = self._verify_bearer(bearer)
        now = self._clock()
        limits = [now + self._session_lifetime, *([identity.expires_at] if identity.expires_at else [])]
        token = generate_session_token()
        session = Session(principal=identity.principal, expires_at=min(limits), key_id=identity.key_id)
        self._sessions.open(compute_digest(token), session, now)
        return token, Identity(session.principal, session.expires_at, session.key_id)

    def end_session(self, token: str) -> None:
        self._sessions.end(compute_digest(token))
        self._cache.pop(compute_digest(Credentials(cookie=token).text), None)

    def clear_cache(self) -> None:
        """Makes the revocation of a key take effect immediately in this process."""
        self._cache = {}

    def _verify(self, credentials: Credentials) -> Identity:
        if credentials.bearer is not None:
            return self._verify_bearer(credentials.bearer)
        if credentials.cookie is None:
            raise Unauthenticated
        session = self._sessions.find(compute_digest(credentials.cookie), self._clock())
        if session is None:
            raise Unauthenticated("The session has ended.")
        return Identity(session.principal, session.expires_at, session.key_id)

    def _verify_bearer(self, bearer: str) -> Identity:
        parts = parse_key(bearer)
        if parts is not None:
            return self._verify_key(*parts)
        if self._oidc is None:
            raise Unauthenticated(_INVALID_KEY)
        principal, expires_at = self._oidc.verify(bearer)
        return Identity(principal, expires_at)

    def _verify_key(self, key_id: str, secret: str) -> Identity:
        found = self._keys.find(key_id)
        if found is None or not matches_digest(secret, found[1]) or not found[0].is_valid(self._clock()):
            raise Unauthenticated(_INVALID_KEY)
        key = found[0]
        return Identity(key.principal, key.expires_at, key.id)
