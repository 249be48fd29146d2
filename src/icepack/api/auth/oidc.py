"""Bearer tokens of an OpenID Connect issuer: signature, issuer, audience and times are checked, then roles read."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import httpx
import jwt

from icepack.api.refusals import Unauthenticated
from icepack.domain.access import Grant, Principal
from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)

LEEWAY_SECONDS = 30
KEYS_LAST_SECONDS = 300
FETCH_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcTerms:
    issuer: str
    audience: str
    jwks_url: str | None = None
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    name_claim: str = "sub"
    roles_claim: str = "roles"
    grants: Sequence[tuple[str, Grant]] = ()
    """By value of the roles claim."""


class Oidc:
    def __init__(self, terms: OidcTerms) -> None:
        self._terms = terms
        self._lock = Lock()
        self._keys: jwt.PyJWKClient | None = None

    def verify(self, token: str) -> tuple[Principal, datetime]:
        """Who the token is for and until when it holds; raises Unauthenticated."""
        try:
            claims = self._claims(token)
        except jwt.PyJWKClientConnectionError as exc:
            raise EnvironmentFault("The issuer's keys could not be fetched.") from exc
        except jwt.PyJWTError as exc:
            log.info("a token was refused: %s", type(exc).__name__)
            raise Unauthenticated("The token is not valid.") from exc
        grants = self._grants(claims)
        principal = Principal(name=f"oidc:{claims.get(self._terms.name_claim, '')}", grants=grants)
        return principal, datetime.fromtimestamp(claims["exp"], UTC)

    def _claims(self, token: str) -> Mapping[str, Any]:
        key = self._client().get_signing_key_from_jwt(token)
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=list(self._terms.algorithms),
            audience=self._terms.audience,
            issuer=self._terms.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud"]},
        )
        return claims

    def _client(self) -> jwt.PyJWKClient:
        with self._lock:
            if self._keys is None:
                url = self._terms.jwks_url or _discovered(self._terms.issuer)
                self._keys = jwt.PyJWKClient(url, lifespan=KEYS_LAST_SECONDS, timeout=int(FETCH_SECONDS))
            return self._keys

    def _grants(self, claims: Mapping[str, Any]) -> tuple[Grant, ...]:
        """The claim may be a list, a text, or lie deeper: `realm_access.roles`."""
        held: Any = claims
        for part in self._terms.roles_claim.split("."):
            held = held.get(part) if isinstance(held, Mapping) else None
        values = held if isinstance(held, list) else str(held or "").split()
        return tuple(grant for value, grant in self._terms.grants if value in values)


def _discovered(issuer: str) -> str:
    try:
        answer = httpx.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=FETCH_SECONDS)
        return str(answer.raise_for_status().json()["jwks_uri"])
    except (httpx.HTTPError, ValueError, KeyError) as exc:
        raise EnvironmentFault(
            "The issuer's discovery document could not be read.", "Or set auth.oidc.jwks_url."
        ) from exc
