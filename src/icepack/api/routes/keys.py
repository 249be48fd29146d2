"""API keys: create, list and revoke; only for admins of every catalog."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from icepack.api.auth.api_keys import generate_key
from icepack.api.dependencies import Admin, example_body
from icepack.api.presenters.access import present_key
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import KEY, RESPONSES
from icepack.api.schemas.keys import CreatedKey, KeyRequest, KeysView, KeyView
from icepack.domain.access import ApiKey, Role, Scope
from icepack.domain.ports.access import KeyNotFound
from icepack.domain.units import parse_duration

router = Router("keys")
KeyId = Annotated[
    str,
    Path(max_length=200, description="The id of the key.", openapi_examples={"key": {"value": KEY.id}}),
]


@router.get("/keys", KeysView, RESPONSES["keys"], role=Role.ADMIN, summary="List keys")
def list_keys(caller: Admin) -> Response:
    """Returns all keys without their secrets, the oldest first, including expired and revoked ones."""
    caller.require_role_everywhere(Role.ADMIN, "keys")
    now = caller.services.clock()
    return json_response({"keys": [present_key(key, now) for key in caller.services.keys.list_keys()]})


@router.post("/keys", CreatedKey, RESPONSES["key"], role=Role.ADMIN, status=201, summary="Create a key")
def create_key(caller: Admin, body: Annotated[KeyRequest, example_body("key")]) -> Response:
    """Returns the secret once: the service stores only a digest of it."""
    caller.require_role_everywhere(Role.ADMIN, "keys")
    created, now = generate_key(), caller.services.clock()
    key = ApiKey(
        id=created.id,
        name=body.name,
        role=body.role,
        scopes=tuple(Scope.parse(text) for text in body.scopes),
        created_at=now,
        created_by=caller.name,
        expires_at=now + parse_duration(body.expires_in) if body.expires_in else None,
    )
    caller.services.keys.add(key, created.digest)
    caller.record_audit("keys.create", key.name, f"{key.role} on {', '.join(map(str, key.scopes))}", key_id=key.id)
    return json_response({**present_key(key, now), "key": created.text}, 201, {"Cache-Control": "no-store"})


@router.delete("/keys/{key_id}", KeyView, RESPONSES["revoked"], role=Role.ADMIN, summary="Revoke a key")
def revoke_key(caller: Admin, key_id: KeyId) -> Response:
    """Also ends its sessions; takes effect within seconds in other processes."""
    caller.require_role_everywhere(Role.ADMIN, "keys")
    keys, now = caller.services.keys, caller.services.clock()
    if keys.find(key_id) is None:
        raise KeyNotFound(key_id)
    key = keys.revoke(key_id, now)
    caller.services.authenticator.clear_cache()
    caller.record_audit("keys.revoke", key.name, "revoked", key_id=key.id)
    return json_response(present_key(key, now))
