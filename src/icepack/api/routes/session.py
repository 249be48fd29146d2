"""Sessions: a key is traded for a cookie that scripts cannot read and other sites cannot use."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Request
from starlette.responses import Response

from icepack.api.auth.authenticator import SignIn
from icepack.api.dependencies import COOKIE, Caller, Viewer, credentials_of, origin_of, parts_of
from icepack.api.refusals import Unauthenticated
from icepack.api.responses import Place, send
from icepack.api.schemas import examples
from icepack.api.schemas.jobs import SessionRequest, SessionView
from icepack.domain.access import LOCAL, Role

place = Place("session")


@place.post("/session", SessionView, examples.ANSWERS["session"], role=None, summary="Sign in with a key")
def open_session(
    request: Request,
    asked: Annotated[
        SessionRequest | None, Body(openapi_examples={"key": {"value": examples.REQUESTS["session"]}})
    ] = None,
) -> Response:
    """The key in the body, or in the Authorization header; the answer sets an HttpOnly, SameSite cookie."""
    parts, origin = parts_of(request), origin_of(request)
    text = (asked.key if asked else None) or credentials_of(request).bearer
    if not parts.doorman.required:
        return send(_view(SignIn(LOCAL), authentication=False))
    parts.failures.check(origin)
    try:
        token, sign_in = parts.doorman.open_session(text or "")
    except Unauthenticated:
        parts.failures.take(origin)
        raise
    _note(request, sign_in)
    answer = send(_view(sign_in, authentication=True))
    answer.set_cookie(
        COOKIE,
        token,
        expires=sign_in.expires_at,
        httponly=True,
        samesite="strict",
        secure=parts.secure_cookies,
        path="/",
    )
    return answer


@place.get("/session", SessionView, examples.ANSWERS["session"], role=Role.VIEWER, summary="Who is signed in")
def get_session(caller: Viewer) -> Response:
    """And in which role."""
    doorman = caller.parts.doorman
    known = doorman.remembered(caller.credentials) or SignIn(caller.principal)
    return send(_view(known, authentication=doorman.required))


@place.route("DELETE", "/session", None, "", role=Role.VIEWER, status=204, summary="Sign out")
def end_session(caller: Viewer) -> Response:
    """The cookie is worth nothing afterwards."""
    if caller.credentials.cookie is not None:
        caller.parts.doorman.end_session(caller.credentials.cookie)
        caller.note("session.end", caller.name, "ended")
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=caller.parts.secure_cookies)
    return answer


def _note(request: Request, sign_in: SignIn) -> None:
    parts = parts_of(request)
    caller = Caller(sign_in.principal, origin_of(request), "", credentials_of(request), parts)
    caller.note("session.open", caller.name, "opened")


def _view(sign_in: SignIn, *, authentication: bool) -> dict[str, Any]:
    principal = sign_in.principal
    return {
        "name": principal.name,
        "role": principal.role,
        "grants": [
            {"role": grant.role, "scopes": [str(scope) for scope in grant.scopes]} for grant in principal.grants
        ],
        "expires_at": sign_in.expires_at,
        "authentication": authentication,
    }
