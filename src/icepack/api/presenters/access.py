"""Presents API keys and sessions as JSON, without secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from icepack.api.auth.authenticator import Identity
from icepack.domain.access import ApiKey


def present_key(key: ApiKey, now: datetime) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "role": key.role,
        "scopes": [str(scope) for scope in key.scopes],
        "created_at": key.created_at,
        "created_by": key.created_by,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "state": key.state(now),
    }


def present_session(identity: Identity, *, is_authentication_required: bool) -> dict[str, Any]:
    principal = identity.principal
    return {
        "name": principal.name,
        "role": principal.role,
        "grants": [
            {"role": grant.role, "scopes": [str(scope) for scope in grant.scopes]} for grant in principal.grants
        ],
        "expires_at": identity.expires_at,
        "authentication": is_authentication_required,
    }
