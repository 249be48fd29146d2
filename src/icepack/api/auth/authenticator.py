"""Who is asking: a key, a token or a session, each looked up at most every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from icepack.api.auth.api_keys import digest_of, matches, new_token, split_key
from icepack.api.auth.oidc import Oidc
from icepack.api.refusals import Unauthenticated
from icepack.domain.access import LOCAL, Principal, Session
from icepack.domain.ports.access import KeyStore, SessionStore

TRUSTED_SECONDS = 5.0
"""How long somebody is believed without another look: a key that is revoked works that much longer at most."""
MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request brings along."""

    bearer: str | None = None
    cookie: str | None = None

    @property
    def text(self) -> str:
        return f"b:{self.bearer}" if self.bearer is not None else f"c:{self.cookie}"

    @property
    def are_none(self) -> bool:
        return self.bearer is None and self.cookie is None


@dataclass(frozen=True, slots=True)
class SignIn:
    principal: Principal
    expires_at: datetime | None = None
    key_id: str | None = None


class Doorman:
    def __init__(
        self,
        *,
        keys: KeyStore,
        sessions: SessionStore,
        oidc: Oidc | None,
        required: bool,
        lifetime: timedelta,
        clock: Callable[[], datetime],
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.required = required
        self._keys = keys
        self._sessions = sessions
        self._oidc = oidc
        self._lifetime = lifetime
        self._clock = clock
        self._elapsed_seconds = elapsed_seconds
        self._known: dict[str, tuple[SignIn, float]] = {}

    def remembered(self, credentials: Credentials) -> SignIn | None:
        """Without a look at the database; None when that is needed."""
        if not self.required:
            return SignIn(LOCAL)
        found = self._known.get(digest_of(credentials.text))
        if found is None or self._elapsed_seconds() - found[1] > TRUSTED_SECONDS:
            return None
        expires_at = found[0].expires_at
        return found[0] if expires_at is None or self._clock() < expires_at else None

    def identify(self, credentials: Credentials) -> SignIn:
        """Raises Unauthenticated."""
        if not self.required:
            return SignIn(LOCAL)
        sign_in = self._look_up(credentials)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[digest_of(credentials.text)] = (sign_in, self._elapsed_seconds())
        return sign_in

    def open_session(self, text: str) -> tuple[str, SignIn]:
        """Trades a key, or a token, for a session: what the cookie holds, and who it stands for."""
        sign_in = self._by_bearer(text)
        now = self._clock()
        ends = [now + self._lifetime, *([sign_in.expires_at] if sign_in.expires_at else [])]
        token = new_token()
        session = Session(principal=sign_in.principal, expires_at=min(ends), key_id=sign_in.key_id)
        self._sessions.open(digest_of(token), session, now)
        return token, SignIn(session.principal, session.expires_at, session.key_id)

    def end_session(self, token: str) -> None:
        self._sessions.end(digest_of(token))
        self._known.pop(digest_of(Credentials(cookie=token).text), None)

    def forget(self) -> None:
        """After a key has ended, everybody is looked at anew."""
        self._known = {}

    def _look_up(self, credentials: Credentials) -> SignIn:
        if credentials.bearer is not None:
            return self._by_bearer(credentials.bearer)
        if credentials.cookie is None:
            raise Unauthenticated
        session = self._sessions.find(digest_of(credentials.cookie), self._clock())
        if session is None:
            raise Unauthenticated("The session has ended.")
        return SignIn(session.principal, session.expires_at, session.key_id)

    def _by_bearer(self, text: str) -> SignIn:
        parts = split_key(text)
        if parts is not None:
            return self._by_key(*parts)
        if self._oidc is None:
            raise Unauthenticated("The key is not valid.")
        principal, expires_at = self._oidc.verify(text)
        return SignIn(principal, expires_at)

    def _by_key(self, key_id: str, secret: str) -> SignIn:
        found = self._keys.find(key_id)
        if found is None or not matches(secret, found[1]) or not found[0].is_valid(self._clock()):
            raise Unauthenticated("The key is not valid.")
        key = found[0]
        return SignIn(key.principal, key.expires_at, key.id)
