"""The gate in front of every route: what no honest client sends is turned away, and every answer is marked safe.

Written as plain ASGI: it also stands before the event stream, which must not be held back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.exceptions import HTTPException

from icepack.api.errors import from_error
from icepack.api.refusals import NotAllowed

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types icepack-views"
)
"""Text becomes markup by one policy only, which the page has for its own files."""
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
STRICT_TRANSPORT = {"Strict-Transport-Security": "max-age=31536000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTerms:
    max_body_bytes: int = 1024 * 1024
    hosts: frozenset[str] | None = None
    """Names under which it may be reached; None is any."""
    secure: bool = False
    headers: dict[str, str] = field(default_factory=lambda: dict(SECURITY_HEADERS))


class Gate:
    def __init__(self, app: Application, terms: GateTerms) -> None:
        self._app = app
        self._terms = terms
        marks = terms.headers | (STRICT_TRANSPORT if terms.secure else {})
        self._marks = [(name.lower().encode(), value.encode()) for name, value in marks.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        marked = self._marking(scope, send)
        try:
            self._check(scope)
        except NotAllowed as exc:
            await from_error(exc, _shown(scope["path"]))(scope, receive, marked)
            return
        await self._app(scope, self._limited(receive), marked)

    def _check(self, scope: Scope) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if "\0" in scope["path"] or b"\0" in unquote_to_bytes(scope["query_string"]):
            raise NotAllowed(400, "bad-request", "The address has a NUL character in it.")
        if not _is_text(scope["path"]):
            raise NotAllowed(400, "bad-request", "The address is not text.")
        self._check_host(headers.get("host", ""))
        self._check_size(headers.get("content-length"))
        if scope["method"] not in SAFE_METHODS:
            _check_site(headers)
            _check_media_type(headers)

    def _check_host(self, host: str) -> None:
        """Without authentication the name in the address is all that keeps foreign pages out (DNS rebinding)."""
        hosts = self._terms.hosts
        if hosts is not None and _name(host) not in hosts:
            raise NotAllowed(403, "foreign-host", "The service is not known by this name; see server.allowed_hosts.")

    def _check_size(self, announced: str | None) -> None:
        if announced is not None and announced.isdecimal() and int(announced) > self._terms.max_body_bytes:
            raise NotAllowed(413, "too-large", f"A body may have {self._terms.max_body_bytes:,} bytes.")

    def _limited(self, receive: Receive) -> Receive:
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._terms.max_body_bytes:
                raise HTTPException(413, f"A body may have {self._terms.max_body_bytes:,} bytes.")
            return message

        return limited

    def _marking(self, scope: Scope, send: Send) -> Send:
        async def marking(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message.get("headers", [])}
                more = [mark for mark in self._marks if mark[0] not in known]
                if b"cache-control" not in known:
                    more.append((b"cache-control", b"no-store"))
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        return marking


def _name(host: str) -> str:
    return (urlsplit(f"//{host}").hostname or "").lower() if host.count("@") == 0 else ""


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return "\ufffd" not in path


def _shown(path: str) -> str:
    return path.encode("ascii", "backslashreplace").decode().replace("\0", "\\0")


def _check_site(headers: dict[str, str]) -> None:
    """A browser says where a request comes from; a page of another site may not change anything here."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    foreign = site is not None and site not in ("same-origin", "none")
    if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        foreign = True
    if foreign:
        raise NotAllowed(403, "cross-site", "The request comes from a page of another site.")


def _check_media_type(headers: dict[str, str]) -> None:
    """Forms of other sites cannot send JSON, and nothing else is read."""
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        raise NotAllowed(415, "media-type", "A body must be application/json.")
