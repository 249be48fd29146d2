"""The FastAPI application: its routes, its middleware, and the services that live as long as it does."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio.to_thread
from fastapi import FastAPI

from icepack import __version__
from icepack.api.auth.authenticator import Authenticator
from icepack.api.auth.oidc import OidcOptions, OidcVerifier
from icepack.api.dependencies import SESSION_COOKIE, Services
from icepack.api.doctor_runner import DoctorRunner
from icepack.api.errors import register_error_handlers
from icepack.api.middleware import LOOPBACK_NAMES, SecurityMiddleware, SecurityOptions
from icepack.api.overrides.policies import PolicyOverrides
from icepack.api.overrides.previews import OverridePreviews
from icepack.api.overrides.schedules import ScheduleOverrides
from icepack.api.presenters.settings import SettingsPresenter
from icepack.api.rate_limit import RateLimiter
from icepack.api.readiness import ReadinessCheck
from icepack.api.routes import (
    fleet,
    jobs,
    keys,
    policies,
    probes,
    schedules,
    session,
    settings,
    stream,
    submit,
    tables,
)
from icepack.api.schemas.errors import Problem
from icepack.api.sse import JobEventBroadcaster
from icepack.api.static_files import serve_page
from icepack.clock import utc_now
from icepack.config import CompactionConfig
from icepack.doctor import run_checks, run_fast_checks
from icepack.domain.access import Grant, Scope
from icepack.service.ttl_cache import TtlCache
from icepack.wiring import App, build_redactor

BASE_PATH = "/api/v1"
# No more than the database has connections. The threads share one interpreter lock, so more would only wait for it.
MAX_THREADS = 6
# Shorter than Python's default of 5 ms, so that the event loop does not wait so long for each worker thread.
SWITCH_INTERVAL_SECONDS = 0.001
METRICS_CACHE_SECONDS = 5.0
MAX_STREAM_SECONDS = 3600.0
# Limits of failed authentications for each client address.
FAILURES_PER_SECOND = 0.5
FAILURE_BURST = 20
# The stream comes before the jobs, because /jobs/{job_id} would match /jobs/stream.
ROUTE_MODULES = (probes, session, stream, jobs, submit, tables, fleet, policies, schedules, settings, keys)


def build_api(
    app: App,
    *,
    worker_state: Callable[[], str] | None = None,
    stream_seconds: float = MAX_STREAM_SECONDS,
) -> FastAPI:
    """Builds the application; it opens databases and connections only when it starts."""
    api = FastAPI(
        title="icepack",
        version=__version__,
        description="Keeps Apache Iceberg tables healthy.",
        openapi_url=f"{BASE_PATH}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_build_lifespan(app, worker_state),
        separate_input_output_schemas=True,
    )
    api.state.stream_seconds = stream_seconds
    register_error_handlers(api)
    for module in ROUTE_MODULES:
        api.include_router(module.router.api_router, prefix=BASE_PATH)
    api.include_router(probes.router.api_router, include_in_schema=False)
    serve_page(api)
    api.add_middleware(SecurityMiddleware, options=build_security_options(app.loaded.config))
    _extend_openapi(api)
    return api


def _build_lifespan(app: App, worker_state: Callable[[], str] | None) -> Any:
    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = MAX_THREADS
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        services = await anyio.to_thread.run_sync(lambda: build_services(app, worker_state))
        api.state.services = services
        with app.metric_export() or nullcontext():
            yield
        services.job_events.close()

    return lifespan


def build_services(app: App, worker_state: Callable[[], str] | None = None) -> Services:
    config, stores = app.loaded.config, app.stores
    # Fill the index now, so that the first request does not wait for it.
    app.table_index.listing()
    return Services(
        jobs=app.jobs,
        locks=app.locks,
        audit=app.audit,
        fleet_queries=stores.fleet_queries,
        table_index=app.table_index,
        submitter=app.job_submitter,
        statistics=app.fleet_statistics,
        policies=PolicyOverrides(
            config=config, store=stores.overrides, table_index=app.table_index, resolver=app.policies
        ),
        schedules=_build_schedules(app),
        previews=_build_previews(app),
        settings=SettingsPresenter(config, app.iceberg_version),
        doctor=_build_doctor(app),
        budgets=app.budgets,
        keys=stores.keys,
        authenticator=_build_authenticator(app),
        request_limiter=RateLimiter(config.server.requests_per_second),
        failure_limiter=RateLimiter(FAILURES_PER_SECOND, burst=FAILURE_BURST),
        job_events=JobEventBroadcaster(stores.fleet_queries),
        readiness=ReadinessCheck(
            jobs=app.jobs,
            fleet_queries=stores.fleet_queries,
            table_index=app.table_index,
            sync_interval=config.health_sync.interval,
            worker_state=worker_state,
        ),
        exposition=_build_exposition(app),
        clock=utc_now,
        secure_cookies=use_secure_cookies(config),
    )


def _build_exposition(app: App) -> Callable[[], tuple[bytes, str]]:
    """Caches the metrics: they are summed up from the store, which takes a while when it is large."""
    cache: TtlCache[tuple[bytes, str]] = TtlCache(METRICS_CACHE_SECONDS)
    return lambda: cache.get("metrics", app.exposition)


def _build_schedules(app: App) -> ScheduleOverrides:
    return ScheduleOverrides(
        config=app.loaded.config,
        store=app.stores.overrides,
        table_index=app.table_index,
        resolver=app.policies,
        scheduler=lambda: app.scheduler,
        clock=utc_now,
    )


def _build_previews(app: App) -> OverridePreviews:
    return OverridePreviews(
        config=app.loaded.config,
        overrides=app.stores.overrides,
        table_index=app.table_index,
        cache=app.stores.cache,
        history=app.stores.history,
        model=app.cost_model,
        clock=utc_now,
    )


def _build_doctor(app: App) -> DoctorRunner:
    return DoctorRunner(
        lambda: run_fast_checks(app),
        lambda: run_checks(app, start_spark=False),
        mask_secrets=build_redactor(app.loaded),
        clock=utc_now,
    )


def _build_authenticator(app: App) -> Authenticator:
    auth = app.loaded.config.auth
    return Authenticator(
        keys=app.stores.keys,
        sessions=app.stores.sessions,
        oidc=_build_oidc_verifier(app.loaded.config),
        required=auth.is_on,
        session_lifetime=auth.session_lifetime,
        clock=utc_now,
    )


def _build_oidc_verifier(config: CompactionConfig) -> OidcVerifier | None:
    oidc = config.auth.oidc
    if oidc.issuer is None or oidc.audience is None:
        return None
    grants = [(item.value, Grant(item.role, tuple(map(Scope.parse, item.scopes)))) for item in oidc.grants]
    options = OidcOptions(
        issuer=oidc.issuer,
        audience=oidc.audience,
        jwks_url=oidc.jwks_url,
        algorithms=oidc.algorithms,
        name_claim=oidc.name_claim,
        roles_claim=oidc.roles_claim,
        grants=grants,
    )
    return OidcVerifier(options)


def use_secure_cookies(config: CompactionConfig) -> bool:
    configured = config.server.secure_cookies
    return config.server.host not in LOOPBACK_NAMES if configured is None else configured


def build_security_options(config: CompactionConfig) -> SecurityOptions:
    """Allows any Host header if callers authenticate; otherwise only names that no foreign page can use."""
    server = config.server
    names = LOOPBACK_NAMES | {server.host.lower()} | {name.lower() for name in server.allowed_hosts}
    hosts = None if config.auth.is_on and not server.allowed_hosts else names
    return SecurityOptions(max_body_bytes=server.max_body, hosts=hosts, secure=use_secure_cookies(config))


def _extend_openapi(api: FastAPI) -> None:
    """Adds what the routes do not declare to the OpenAPI document: authentication, and the schema of problems."""
    generate = api.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        components = document.setdefault("components", {})
        components["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer", "description": "An API key or an OIDC token."},
            "session": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE},
        }
        schemas = components.setdefault("schemas", {})
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(problem.pop("$defs", {}))
        schemas["Problem"] = problem
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        return document

    api.openapi = openapi  # type: ignore[method-assign]
