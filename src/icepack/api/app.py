"""The application: routes behind the gate, and what lives as long as it does."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio.to_thread
from fastapi import FastAPI

from icepack import __version__
from icepack.api import errors
from icepack.api.auth.authenticator import Doorman
from icepack.api.auth.oidc import Oidc, OidcTerms
from icepack.api.doctor_runner import Checkup
from icepack.api.middleware import LOOPBACK_NAMES, Gate, GateTerms
from icepack.api.overrides.policies import Agenda
from icepack.api.overrides.previews import Previews
from icepack.api.parts import Parts
from icepack.api.presenters.settings import SettingsView
from icepack.api.rate_limit import Limits
from icepack.api.readiness import ReadinessCheck
from icepack.api.routes import fleet, jobs, keys, policies, probes, session, settings, stream, submit, tables
from icepack.api.schemas.jobs import Problem
from icepack.api.sse import News
from icepack.api.static_files import serve_page
from icepack.config import CompactionConfig, cost_model
from icepack.doctor import checks, quick_checks
from icepack.domain.access import Grant, Scope
from icepack.service.maintenance import utc_now
from icepack.service.ttl_cache import Remembered
from icepack.wiring import App, cleaner

BASE = "/api/v1"
THREADS = 6
"""No more than there are connections to the database; they share one interpreter, so more would only wait for it."""
SWITCH_SECONDS = 0.001
SCRAPE_SECONDS = 5.0
STREAM_SECONDS = 3600.0
WRONG_KEYS_PER_SECOND, WRONG_KEYS_AT_ONCE = 0.5, 20
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def build_api(
    app: App,
    *,
    worker_state: Callable[[], str] | None = None,
    stream_seconds: float = STREAM_SECONDS,
) -> FastAPI:
    """Nothing is opened before it starts."""
    api = FastAPI(
        title="icepack",
        version=__version__,
        description="Keeps Apache Iceberg tables healthy.",
        openapi_url=f"{BASE}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(app, worker_state),
        separate_input_output_schemas=True,
    )
    api.state.stream_seconds = stream_seconds
    errors.register(api)
    for place in (probes, session, stream, jobs, submit, tables, fleet, policies, settings, keys):
        api.include_router(place.place.router, prefix=BASE)
    api.include_router(probes.place.router, include_in_schema=False)
    serve_page(api)
    api.add_middleware(Gate, terms=gate_terms(app.loaded.config))
    _describe(api)
    return api


def _lifespan(app: App, worker_state: Callable[[], str] | None) -> Any:
    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        # The loop must not wait five milliseconds for each of them to let go of the interpreter.
        sys.setswitchinterval(SWITCH_SECONDS)
        parts = await anyio.to_thread.run_sync(lambda: build_parts(app, worker_state))
        api.state.parts = parts
        with app.figure_export() or nullcontext():
            yield
        parts.news.close()

    return lifespan


def build_parts(app: App, worker_state: Callable[[], str] | None = None) -> Parts:
    config, stores = app.loaded.config, app.stores
    app.directory.listing()
    return Parts(
        jobs=app.jobs,
        locks=app.locks,
        audit=app.audit,
        board=stores.board,
        directory=app.directory,
        intake=app.intake,
        figures=app.fleet_figures,
        agenda=_agenda(app),
        previews=_previews(app),
        settings=SettingsView(config, app.iceberg_version),
        checkup=_checkup(app),
        budgets=app.budgets,
        keys=stores.keys,
        doorman=_doorman(app),
        limits=Limits(config.server.requests_per_second),
        failures=Limits(WRONG_KEYS_PER_SECOND, burst=WRONG_KEYS_AT_ONCE),
        news=News(stores.board),
        readiness=ReadinessCheck(
            jobs=app.jobs,
            board=stores.board,
            directory=app.directory,
            sync_interval=config.health_sync.interval,
            worker_state=worker_state,
        ),
        exposition=_exposition(app),
        clock=utc_now,
        secure_cookies=secure(config),
    )


def _exposition(app: App) -> Callable[[], tuple[bytes, str]]:
    """Added up from the store, which takes a while when it is large: several who scrape share one answer."""
    remembered: Remembered[tuple[bytes, str]] = Remembered(SCRAPE_SECONDS)
    return lambda: remembered.get("metrics", app.exposition)


def _agenda(app: App) -> Agenda:
    return Agenda(
        config=app.loaded.config,
        overrides=app.stores.overrides,
        directory=app.directory,
        policies=app.policies,
        scheduler=lambda: app.scheduler,
        clock=utc_now,
    )


def _previews(app: App) -> Previews:
    return Previews(
        config=app.loaded.config,
        overrides=app.stores.overrides,
        directory=app.directory,
        cache=app.stores.cache,
        past=app.stores.history,
        model=cost_model(app.loaded.config),
        clock=utc_now,
    )


def _checkup(app: App) -> Checkup:
    return Checkup(
        lambda: quick_checks(app),
        lambda: checks(app, start_spark=False),
        clean=cleaner(app.loaded),
        clock=utc_now,
    )


def _doorman(app: App) -> Doorman:
    auth = app.loaded.config.auth
    return Doorman(
        keys=app.stores.keys,
        sessions=app.stores.sessions,
        oidc=_oidc(app.loaded.config),
        required=auth.is_on,
        lifetime=auth.session_lifetime,
        clock=utc_now,
    )


def _oidc(config: CompactionConfig) -> Oidc | None:
    oidc = config.auth.oidc
    if oidc.issuer is None or oidc.audience is None:
        return None
    grants = [(item.value, Grant(item.role, tuple(map(Scope.parse, item.scopes)))) for item in oidc.grants]
    terms = OidcTerms(
        issuer=oidc.issuer,
        audience=oidc.audience,
        jwks_url=oidc.jwks_url,
        algorithms=oidc.algorithms,
        name_claim=oidc.name_claim,
        roles_claim=oidc.roles_claim,
        grants=grants,
    )
    return Oidc(terms)


def secure(config: CompactionConfig) -> bool:
    given = config.server.secure_cookies
    return config.server.host not in LOOPBACK if given is None else given


def gate_terms(config: CompactionConfig) -> GateTerms:
    """Who has to show a key may come by any name; who has not, only by one that no foreign page can take."""
    server = config.server
    names = LOOPBACK_NAMES | {server.host.lower()} | {name.lower() for name in server.allowed_hosts}
    hosts = None if config.auth.is_on and not server.allowed_hosts else names
    return GateTerms(max_body_bytes=server.max_body, hosts=hosts, secure=secure(config))


def _describe(api: FastAPI) -> None:
    """Adds to the OpenAPI document what the routes do not say: how to sign in, and what problems look like."""
    plain = api.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        components = document.setdefault("components", {})
        components["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer", "description": "An API key, or an OIDC token."},
            "session": {"type": "apiKey", "in": "cookie", "name": "icepack_session"},
        }
        shapes = components.setdefault("schemas", {})
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        shapes.update(problem.pop("$defs", {}))
        shapes["Problem"] = problem
        for name in ("HTTPValidationError", "ValidationError"):
            shapes.pop(name, None)
        return document

    api.openapi = openapi  # type: ignore[method-assign]
