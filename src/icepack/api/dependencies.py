"""Dependencies of the routes: the shared services, the authenticated caller, and common parameters."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Depends, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from icepack.api.auth.authenticator import Authenticator, Credentials, Identity
from icepack.api.doctor_runner import DoctorRunner
from icepack.api.errors import Forbidden, TooManyRequests, Unauthenticated
from icepack.api.overrides.policies import PolicyOverrides
from icepack.api.overrides.previews import OverridePreviews
from icepack.api.overrides.schedules import ScheduleOverrides
from icepack.api.presenters.settings import SettingsPresenter
from icepack.api.rate_limit import RateLimiter
from icepack.api.readiness import ReadinessCheck
from icepack.api.schemas.examples.records import JOB_ID, TABLE
from icepack.api.schemas.examples.requests import REQUESTS
from icepack.api.sse import JobEventBroadcaster
from icepack.domain.access import Principal, Role, Scopes, is_unlimited
from icepack.domain.ports.access import KeyStore
from icepack.domain.ports.audit import AuditEvent, AuditLog
from icepack.domain.ports.locks import TableLocks
from icepack.domain.ports.queries import FleetQueries
from icepack.domain.ports.queue import JobStore
from icepack.domain.table import TableId
from icepack.errors import TableNotFound
from icepack.service.fleet.budgets import Budgets
from icepack.service.submission import JobSubmitter
from icepack.service.views.overview import FleetStatistics
from icepack.service.views.table_index import TableIndex

SESSION_COOKIE = "icepack_session"
_TRACE_PARENT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything that the routes use; built once, when the application starts."""

    jobs: JobStore
    locks: TableLocks
    audit: AuditLog
    fleet_queries: FleetQueries
    table_index: TableIndex
    submitter: JobSubmitter
    statistics: FleetStatistics
    policies: PolicyOverrides
    schedules: ScheduleOverrides
    previews: OverridePreviews
    settings: SettingsPresenter
    doctor: DoctorRunner
    budgets: Budgets
    keys: KeyStore
    authenticator: Authenticator
    request_limiter: RateLimiter
    # Limits failed authentications by client address, against guessing.
    failure_limiter: RateLimiter
    job_events: JobEventBroadcaster
    readiness: ReadinessCheck
    exposition: Callable[[], tuple[bytes, str]]
    clock: Callable[[], datetime]
    secure_cookies: bool


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller with at least one role."""

    principal: Principal
    origin: str
    trace_context: str
    credentials: Credentials
    services: Services

    @property
    def name(self) -> str:
        return self.principal.name

    @property
    def visible_scopes(self) -> Scopes:
        return self.principal.scopes(Role.VIEWER)

    def require_role(self, role: Role, table: TableId) -> None:
        """Raises Forbidden, or TableNotFound so that nobody learns of tables that they may not see."""
        if not self.principal.has_role(Role.VIEWER, table):
            raise TableNotFound(f"No table matches '{table}'.", "Health sync adds new tables the next time it runs.")
        if not self.principal.has_role(role, table):
            self.record_audit("denied", str(table), f"needs {role.value}", table=table)
            raise Forbidden(role, str(table))

    def require_role_everywhere(self, role: Role, action: str) -> None:
        if not is_unlimited(self.principal.scopes(role)):
            self.record_audit("denied", action, f"needs {role.value} everywhere")
            raise Forbidden(role, "every catalog")

    def record_audit(
        self, action: str, subject: str, outcome: str, *, table: TableId | None = None, **details: Any
    ) -> None:
        all_details: Mapping[str, Any] = details if table is None else {"table": str(table), **details}
        self.services.audit.record(
            AuditEvent(
                at=self.services.clock(),
                actor=self.name,
                action=f"api.{action}",
                subject=subject,
                origin=self.origin,
                outcome=outcome,
                details=all_details,
            )
        )


def get_services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def read_credentials(request: Request) -> Credentials:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and text:
        return Credentials(bearer=text.strip())
    return Credentials(cookie=request.cookies.get(SESSION_COOKIE))


def get_client_address(request: Request) -> str:
    return request.client.host if request.client else ""


async def authenticate(request: Request) -> Identity:
    """Identifies the caller and applies the rate limits, for requests and for failed authentications."""
    services, credentials = get_services(request), read_credentials(request)
    authenticator, address = services.authenticator, get_client_address(request)
    identity = authenticator.get_cached(credentials)
    if identity is None:
        services.failure_limiter.check(address)
        try:
            identity = await run_in_threadpool(authenticator.authenticate, credentials)
        except Unauthenticated:
            if not credentials.are_missing:
                services.failure_limiter.acquire(address)
            raise
    services.request_limiter.acquire(identity.principal.name if authenticator.required else address)
    return identity


def require_role(role: Role) -> Callable[[Request], Awaitable[Caller]]:
    """Returns a dependency that yields the caller if it has the role for any table, and raises Forbidden otherwise."""

    async def get_caller(request: Request) -> Caller:
        identity = await authenticate(request)
        parent = request.headers.get("traceparent", "")
        trace = parent if _TRACE_PARENT.fullmatch(parent) else ""
        credentials, services = read_credentials(request), get_services(request)
        caller = Caller(identity.principal, get_client_address(request), trace, credentials, services)
        if not identity.principal.scopes(role):
            if request.method != "GET":
                await run_in_threadpool(caller.record_audit, "denied", request.url.path, f"needs {role.value}")
            raise Forbidden(role)
        return caller

    return get_caller


async def limit_anonymous(request: Request) -> None:
    """Applies the rate limit to routes without authentication; the liveness probe always succeeds."""
    try:
        get_services(request).request_limiter.acquire(f"open:{get_client_address(request)}")
    except TooManyRequests:
        if not request.url.path.endswith("/health"):
            raise


def example_body(name: str) -> Any:
    """Returns the body parameter of a request, documented with its example."""
    return Body(openapi_examples={name: {"value": REQUESTS[name]}})


Viewer = Annotated[Caller, Depends(require_role(Role.VIEWER))]
Operator = Annotated[Caller, Depends(require_role(Role.OPERATOR))]
Admin = Annotated[Caller, Depends(require_role(Role.ADMIN))]
Anonymous = Depends(limit_anonymous)

TableName = Annotated[
    str,
    Path(
        max_length=2000,
        description="`catalog.namespace.table`; leading parts may be omitted if the rest is unambiguous.",
        openapi_examples={"table": {"value": str(TABLE)}},
    ),
]
JobId = Annotated[UUID, Path(description="The id of the job.", openapi_examples={"job": {"value": str(JOB_ID)}})]
Limit = Annotated[int, Query(ge=1, le=500, description="The maximum number of results.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A request that is repeated with the same key has no further effect.",
    ),
]
