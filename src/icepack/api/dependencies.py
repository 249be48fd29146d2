"""The dependency of every route that is not open to all: who asks, from where, and whether their role is enough."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from icepack.api.auth.authenticator import Credentials, SignIn
from icepack.api.parts import Parts
from icepack.api.refusals import Forbidden, TooManyRequests, Unauthenticated
from icepack.domain.access import Principal, Role, Scopes, unlimited
from icepack.domain.ports.queue import AuditEvent
from icepack.domain.table import TableId
from icepack.errors import TableNotFound

COOKIE = "icepack_session"
_TRACE_PARENT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who may be here at all."""

    principal: Principal
    origin: str
    trace_context: str
    credentials: Credentials
    parts: Parts

    @property
    def name(self) -> str:
        return self.principal.name

    @property
    def sees(self) -> Scopes:
        return self.principal.scopes(Role.VIEWER)

    def must(self, role: Role, table: TableId) -> None:
        """Who may not even see the table is not told that it is there."""
        if not self.principal.may(Role.VIEWER, table):
            raise TableNotFound(f"No table matches '{table}'.", "Health sync finds new tables at its next round.")
        if not self.principal.may(role, table):
            self.note("denied", str(table), f"needs {role.value}", table=table)
            raise Forbidden(role, str(table))

    def must_everywhere(self, role: Role, action: str) -> None:
        if not unlimited(self.principal.scopes(role)):
            self.note("denied", action, f"needs {role.value} everywhere")
            raise Forbidden(role, "every catalog")

    def note(self, action: str, subject: str, outcome: str, *, table: TableId | None = None, **details: Any) -> None:
        """Who changed what, when, from where, and what came of it."""
        facts: Mapping[str, Any] = details if table is None else {"table": str(table), **details}
        self.parts.audit.record(
            AuditEvent(
                at=self.parts.clock(),
                actor=self.name,
                action=f"api.{action}",
                subject=subject,
                origin=self.origin,
                outcome=outcome,
                details=facts,
            )
        )


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


def credentials_of(request: Request) -> Credentials:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and text:
        return Credentials(bearer=text.strip())
    return Credentials(cookie=request.cookies.get(COOKIE))


def origin_of(request: Request) -> str:
    return request.client.host if request.client else ""


async def identify(request: Request) -> SignIn:
    """One who guesses keys soon has to wait, and so has one who asks too often."""
    parts, credentials, origin = parts_of(request), credentials_of(request), origin_of(request)
    known = parts.doorman.remembered(credentials)
    if known is None:
        parts.failures.check(origin)
        try:
            known = await run_in_threadpool(parts.doorman.identify, credentials)
        except Unauthenticated:
            if not credentials.are_none:
                parts.failures.take(origin)
            raise
    parts.limits.take(known.principal.name if parts.doorman.required else origin)
    return known


def need(role: Role) -> Callable[[Request], Awaitable[Caller]]:
    async def caller(request: Request) -> Caller:
        known = await identify(request)
        parent = request.headers.get("traceparent", "")
        trace = parent if _TRACE_PARENT.fullmatch(parent) else ""
        found = Caller(known.principal, origin_of(request), trace, credentials_of(request), parts_of(request))
        if not known.principal.scopes(role):
            if request.method != "GET":
                await run_in_threadpool(found.note, "denied", request.url.path, f"needs {role.value}")
            raise Forbidden(role)
        return found

    return caller


async def open_to_all(request: Request) -> None:
    """Probes need no key, but are counted."""
    try:
        parts_of(request).limits.take(f"open:{origin_of(request)}")
    except TooManyRequests:
        if not request.url.path.endswith("/health"):
            raise


Viewer = Annotated[Caller, Depends(need(Role.VIEWER))]
Operator = Annotated[Caller, Depends(need(Role.OPERATOR))]
Admin = Annotated[Caller, Depends(need(Role.ADMIN))]
Anybody = Depends(open_to_all)
