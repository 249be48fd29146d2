"""Sessions: a key is exchanged for a cookie that scripts cannot read and other sites cannot use."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from icepack.api.auth.authenticator import Identity
from icepack.api.dependencies import (
    SESSION_COOKIE,
    Caller,
    Viewer,
    example_body,
    get_client_address,
    get_services,
    read_credentials,
)
from icepack.api.errors import Unauthenticated
from icepack.api.presenters.access import present_session
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import RESPONSES
from icepack.api.schemas.session import SessionRequest, SessionView
from icepack.domain.access import LOCAL_PRINCIPAL, Role

router = Router("session")


@router.post("/session", SessionView, RESPONSES["session"], role=None, summary="Sign in with a key")
def open_session(request: Request, body: Annotated[SessionRequest | None, example_body("session")] = None) -> Response:
    """Takes the key from the body or the Authorization header, and sets an HttpOnly, SameSite cookie."""
    services, address = get_services(request), get_client_address(request)
    key = (body.key if body else None) or read_credentials(request).bearer
    if not services.authenticator.required:
        return json_response(present_session(Identity(LOCAL_PRINCIPAL), is_authentication_required=False))
    services.failure_limiter.check(address)
    try:
        token, identity = services.authenticator.open_session(key or "")
    except Unauthenticated:
        services.failure_limiter.acquire(address)
        raise
    _record_sign_in(request, identity)
    response = json_response(present_session(identity, is_authentication_required=True))
    response.set_cookie(
        SESSION_COOKIE,
        token,
        expires=identity.expires_at,
        httponly=True,
        samesite="strict",
        secure=services.secure_cookies,
        path="/",
    )
    return response


@router.get("/session", SessionView, RESPONSES["session"], role=Role.VIEWER, summary="The signed-in caller")
def get_session(caller: Viewer) -> Response:
    """Returns the name, the roles and their scopes."""
    authenticator = caller.services.authenticator
    identity = authenticator.get_cached(caller.credentials) or Identity(caller.principal)
    return json_response(present_session(identity, is_authentication_required=authenticator.required))


@router.delete("/session", None, "", role=Role.VIEWER, status=204, summary="Sign out")
def end_session(caller: Viewer) -> Response:
    """Ends the session and deletes its cookie."""
    services = caller.services
    if caller.credentials.cookie is not None:
        services.authenticator.end_session(caller.credentials.cookie)
        caller.record_audit("session.end", caller.name, "ended")
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict", secure=services.secure_cookies)
    return response


def _record_sign_in(request: Request, identity: Identity) -> None:
    address, credentials = get_client_address(request), read_credentials(request)
    caller = Caller(identity.principal, address, "", credentials, get_services(request))
    caller.record_audit("session.open", caller.name, "opened")
