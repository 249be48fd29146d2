"""Verifies bearer tokens of an OpenID Connect issuer and maps their roles claim to grants."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import httpx
import jwt

from icepack.api.errors import Unauthenticated
from icepack.domain.access import Grant, Principal
from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)

LEEWAY_SECONDS = 30
JWKS_CACHE_SECONDS = 300
REQUEST_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcOptions:
    issuer: str
    audience: str
    jwks_url: str | None = None
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    name_claim: str = "sub"
    roles_claim: str = "roles"
    # The grant for each value of the roles claim.
    grants: Sequence[tuple[str, Grant]] = ()


class OidcVerifier:
    def __init__(self, options: OidcOptions) -> None:
        self._options = options
        self._lock = Lock()
        self._jwks_client: jwt.PyJWKClient | None = None

    def verify(self, token: str) -> tuple[Principal, datetime]:
        """Returns the token's principal and expiry; raises Unauthenticated if the token is invalid."""
        try:
            claims = self._decode(token)
        except jwt.PyJWKClientConnectionError as exc:
            raise EnvironmentFault("Cannot fetch the signing keys of the OIDC issuer.") from exc
        except jwt.PyJWTError as exc:
            log.info("rejected an OIDC token: %s", type(exc).__name__)
            raise Unauthenticated("The token is invalid or has expired.") from exc
        grants = self._find_grants(claims)
        principal = Principal(name=f"oidc:{claims.get(self._options.name_claim, '')}", grants=grants)
        return principal, datetime.fromtimestamp(claims["exp"], UTC)

    def _decode(self, token: str) -> Mapping[str, Any]:
        key = self._get_jwks_client().get_signing_key_from_jwt(token)
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=list(self._options.algorithms),
            audience=self._options.audience,
            issuer=self._options.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud"]},
        )
        return claims

    def _get_jwks_client(self) -> jwt.PyJWKClient:
        with self._lock:
            if self._jwks_client is None:
                url = self._options.jwks_url or _discover_jwks_url(self._options.issuer)
                self._jwks_client = jwt.PyJWKClient(
                    url, lifespan=JWKS_CACHE_SECONDS, timeout=int(REQUEST_TIMEOUT_SECONDS)
                )
            return self._jwks_client

    def _find_grants(self, claims: Mapping[str, Any]) -> tuple[Grant, ...]:
        """Reads the roles claim, which may be a list, a text or nested, as in `realm_access.roles`."""
        claim: Any = claims
        for part in self._options.roles_claim.split("."):
            claim = claim.get(part) if isinstance(claim, Mapping) else None
        values = claim if isinstance(claim, list) else str(claim or "").split()
        return tuple(grant for value, grant in self._options.grants if value in values)


def _discover_jwks_url(issuer: str) -> str:
    url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        response = httpx.get(url, timeout=REQUEST_TIMEOUT_SECONDS)
        return str(response.raise_for_status().json()["jwks_uri"])
    except (httpx.HTTPError, ValueError, KeyError) as exc:
        raise EnvironmentFault(
            "Cannot read the discovery document of the OIDC issuer.",
            "Check auth.oidc.issuer, or set auth.oidc.jwks_url.",
        ) from exc
