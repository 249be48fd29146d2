"""Middleware that rejects unsafe requests before routing and adds security headers to every response.

It is plain ASGI, because Starlette's BaseHTTPMiddleware would buffer the event stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.exceptions import HTTPException

from icepack.api.errors import RequestRejected, render_error

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
# Only the trusted-types policy `icepack-views` may turn text into markup; the page uses it for its own files.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types icepack-views"
)
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
class SecurityOptions:
    max_body_bytes: int = 1024 * 1024
    # The allowed values of the Host header; None allows any.
    hosts: frozenset[str] | None = None
    secure: bool = False
    headers: dict[str, str] = field(default_factory=lambda: dict(SECURITY_HEADERS))


class SecurityMiddleware:
    def __init__(self, app: Application, options: SecurityOptions) -> None:
        self._app = app
        self._options = options
        headers = options.headers | (STRICT_TRANSPORT if options.secure else {})
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send_with_headers = self._add_headers(send)
        try:
            self._check(scope)
        except RequestRejected as exc:
            await render_error(exc, _escape_path(scope["path"]))(scope, receive, send_with_headers)
            return
        await self._app(scope, self._limit_body(receive), send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if "\0" in scope["path"] or b"\0" in unquote_to_bytes(scope["query_string"]):
            raise RequestRejected(400, "bad-request", "The URL contains a NUL character.")
        if not _is_valid_text(scope["path"]):
            raise RequestRejected(400, "bad-request", "The URL is not valid UTF-8.")
        self._check_host(headers.get("host", ""))
        self._check_content_length(headers.get("content-length"))
        if scope["method"] not in SAFE_METHODS:
            _check_same_site(headers)
            _check_media_type(headers)

    def _check_host(self, host: str) -> None:
        """Prevents DNS rebinding: without authentication, only the Host header keeps foreign pages out."""
        hosts = self._options.hosts
        if hosts is not None and _parse_host(host) not in hosts:
            raise RequestRejected(
                403, "foreign-host", "The Host header is not an allowed name. Add it to server.allowed_hosts."
            )

    def _check_content_length(self, announced: str | None) -> None:
        if announced is not None and announced.isdecimal() and int(announced) > self._options.max_body_bytes:
            raise RequestRejected(413, "too-large", self._too_large)

    @property
    def _too_large(self) -> str:
        return f"The request body exceeds {self._options.max_body_bytes:,} bytes (server.max_body)."

    def _limit_body(self, receive: Receive) -> Receive:
        received_bytes = 0

        async def receive_limited() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self._options.max_body_bytes:
                raise HTTPException(413, self._too_large)
            return message

        return receive_limited

    def _add_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message.get("headers", [])}
                added = [header for header in self._headers if header[0] not in present]
                if b"cache-control" not in present:
                    added.append((b"cache-control", b"no-store"))
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        return send_with_headers


def _parse_host(host: str) -> str:
    return (urlsplit(f"//{host}").hostname or "").lower() if host.count("@") == 0 else ""


def _is_valid_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return "\ufffd" not in path


def _escape_path(path: str) -> str:
    return path.encode("ascii", "backslashreplace").decode().replace("\0", "\\0")


def _check_same_site(headers: dict[str, str]) -> None:
    """Prevents cross-site request forgery: browsers announce where a request comes from."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    is_foreign = site is not None and site not in ("same-origin", "none")
    if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        is_foreign = True
    if is_foreign:
        raise RequestRejected(403, "cross-site", "Pages of other sites may not send this request.")


def _check_media_type(headers: dict[str, str]) -> None:
    """Rejects the forms of other sites, which cannot send JSON."""
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        raise RequestRejected(415, "media-type", "The request body must have the content type application/json.")
