"""The OpenAPI document is complete, its examples are valid, and every response matches it (Schemathesis)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from pydantic import TypeAdapter
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from icepack.api.app import ROUTE_MODULES, build_api
from icepack.api.auth.api_keys import generate_key
from icepack.api.schemas.examples.requests import REQUESTS
from icepack.api.schemas.jobs import CompactRequest, MaintainRequest, RunActionRequest
from icepack.api.schemas.keys import KeyRequest
from icepack.api.schemas.policies import PutPolicies
from icepack.api.schemas.schedules import PutSchedules
from icepack.api.schemas.session import SessionRequest
from icepack.config import load_config
from icepack.domain.access import ApiKey, Role, Scope
from icepack.wiring import build_app

from .server_thread import run_server

_NOWHERE = Path("/nonexistent")
API = build_api(build_app(load_config(environ={"HOME": str(_NOWHERE)}, cwd=_NOWHERE), environ={}))
DOCUMENT = API.openapi()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
FEW = schemathesis.openapi.from_dict(DOCUMENT)
FEW.config.phases.coverage.enabled = False
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
BRIEF = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.fixture(scope="module")
def secured_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    with (
        pytest.MonkeyPatch.context() as patch,
        run_server(tmp_path_factory.mktemp("service"), stream_seconds=0.05, auth={"enabled": True}) as (url, app),
    ):
        # Invented keys would exceed the rate limit, and then nothing else would be tested.
        patch.setattr("icepack.api.rate_limit.RateLimiter.acquire", lambda *_: None)
        patch.setattr("icepack.api.rate_limit.RateLimiter.check", lambda *_: None)
        made = generate_key()
        key = ApiKey(id=made.id, name="all", role=Role.ADMIN, scopes=(Scope(),), created_at=datetime.now(UTC))
        app.stores.keys.add(key, made.digest)
        yield url, {"Authorization": f"Bearer {made.text}"}


@SCHEMA.parametrize()
@BRIEF
def test_every_response_matches_its_schema(case: Any, secured_url: tuple[str, dict[str, str]]) -> None:
    url, headers = secured_url
    response = case.call(base_url=url, headers=headers)
    case.validate_response(response, checks=CHECKS)


@FEW.parametrize()
@settings(BRIEF, max_examples=4)
def test_every_rejection_matches_its_schema(case: Any, secured_url: tuple[str, dict[str, str]]) -> None:
    response = case.call(base_url=secured_url[0], headers={"Authorization": ""}, cookies={})
    case.validate_response(response, checks=CHECKS)
    if case.operation.definition.raw["x-icepack-role"] != "anybody":
        assert response.status_code in (400, 401, 404, 405), response.status_code


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


OPERATIONS = dict(operations())


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_a_summary_and_an_example(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation["summary"]
    assert operation["description"]
    good = next(response for code, response in operation["responses"].items() if code.startswith("2"))
    if name != "DELETE /api/v1/session":
        assert any("example" in content for content in good["content"].values())
    for content in operation.get("requestBody", {}).get("content", {}).values():
        assert content["examples"]


ROUTES = [route for module in ROUTE_MODULES for route in module.router.api_router.routes if route.response_model]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{'/'.join(route.methods)} {route.path}")
def test_every_response_example_matches_its_schema(route: Any) -> None:
    example = next(iter(route.responses[route.status_code]["content"].values()))["example"]
    TypeAdapter(route.response_model).validate_python(example)


def test_every_request_example_matches_its_schema() -> None:
    models = {
        "compact": CompactRequest,
        "action": RunActionRequest,
        "maintain": MaintainRequest,
        "session": SessionRequest,
        "key": KeyRequest,
        "policies": PutPolicies,
        "schedules": PutSchedules,
    }
    assert set(models) == set(REQUESTS)
    for name, model in models.items():
        model.model_validate(REQUESTS[name])
