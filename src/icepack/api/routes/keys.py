"""API keys: made, listed, revoked; for admins of every catalog."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Body, Path
from starlette.responses import Response

from icepack.api.auth.api_keys import new_key
from icepack.api.dependencies import Admin
from icepack.api.responses import Place, send
from icepack.api.schemas import examples
from icepack.api.schemas.keys import KeyMade, KeyRequest, KeysView, KeyView
from icepack.domain.access import ApiKey, Role, Scope
from icepack.domain.ports.access import KeyNotFound
from icepack.domain.units import parse_duration

place = Place("keys")
KeyId = Annotated[
    str,
    Path(max_length=200, description="The key's id.", openapi_examples={"key": {"value": examples.KEY["id"]}}),
]


@place.get("/keys", KeysView, examples.ANSWERS["keys"], role=Role.ADMIN, summary="Keys, never what they are")
def list_keys(caller: Admin) -> Response:
    """The oldest first, those that ended too."""
    caller.must_everywhere(Role.ADMIN, "keys")
    now = caller.parts.clock()
    return send({"keys": [shown(key, now) for key in caller.parts.keys.list_keys()]})


@place.post("/keys", KeyMade, examples.ANSWERS["key"], role=Role.ADMIN, status=201, summary="Make a key")
def create_key(
    caller: Admin, asked: Annotated[KeyRequest, Body(openapi_examples={"key": {"value": examples.REQUESTS["key"]}})]
) -> Response:
    """It is in this answer and never again: only a digest of it is kept."""
    caller.must_everywhere(Role.ADMIN, "keys")
    made, now = new_key(), caller.parts.clock()
    key = ApiKey(
        id=made.id,
        name=asked.name,
        role=asked.role,
        scopes=tuple(Scope.parse(text) for text in asked.scopes),
        created_at=now,
        created_by=caller.name,
        expires_at=now + parse_duration(asked.expires_in) if asked.expires_in else None,
    )
    caller.parts.keys.add(key, made.digest)
    caller.note("keys.create", key.name, f"{key.role} on {', '.join(map(str, key.scopes))}", key_id=key.id)
    return send({**shown(key, now), "key": made.text}, 201, {"Cache-Control": "no-store"})


@place.route("DELETE", "/keys/{key_id}", KeyView, examples.ANSWERS["revoked"], role=Role.ADMIN, summary="Revoke a key")
def revoke_key(caller: Admin, key_id: KeyId) -> Response:
    """Its sessions end with it; other processes heed it within seconds."""
    caller.must_everywhere(Role.ADMIN, "keys")
    keys, now = caller.parts.keys, caller.parts.clock()
    if keys.find(key_id) is None:
        raise KeyNotFound(key_id)
    key = keys.revoke(key_id, now)
    caller.parts.doorman.forget()
    caller.note("keys.revoke", key.name, "revoked", key_id=key.id)
    return send(shown(key, now))


def shown(key: ApiKey, now: datetime) -> dict[str, Any]:
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
