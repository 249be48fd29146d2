"""Tests every role on every operation, against the role matrix of the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from generator import api as pages

from icepack.domain.access import Role

from .service import LOG, SALES, Service, serve

TABLE = "lake.sales.orders"
CALLERS = ("anonymous", "viewer", "operator", "admin")
BODIES = {
    "POST /compact": {"table": TABLE},
    "POST /maintain": {"tables": [TABLE]},
    "POST /policies/preview": {"overrides": []},
    "POST /schedules/preview": {"overrides": []},
    "POST /keys": {"name": "made", "role": "viewer"},
    "PUT /policies": {"overrides": []},
    "PUT /schedules": {"overrides": []},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("roles")
    with serve(folder, auth={"enabled": True}) as found:
        yield found


@pytest.fixture(scope="module")
def keys(service: Service) -> dict[str, dict[str, str]]:
    made = {role.value: service.key(role, name=role.value) for role in Role}
    return {
        **made,
        "anonymous": {},
        **{f"sales {role}": service.key(role, SALES, name=f"sales-{role}") for role in Role},
    }


def create_key_id(service: Service) -> str:
    service.key(Role.VIEWER)
    return service.stores.keys.list_keys()[-1].id


def with_new_name(body: dict[str, Any] | None) -> dict[str, Any] | None:
    """Only one valid key may have a name."""
    return body and {**body, **({"name": uuid4().hex} if "name" in body else {})}


def send(service: Service, name: str, headers: dict[str, str], table: str = TABLE) -> int:
    method, _, path = name.partition(" ")
    job_id = str(service.submit())
    filled = path.replace("{table}", table).replace("{action}", "rewrite_manifests").replace("{job_id}", job_id)
    filled = filled.replace("{key_id}", create_key_id(service))
    body = with_new_name(BODIES.get(name)) if method in ("POST", "PUT") else None
    if name.endswith("/retry"):
        service.stores.jobs.cancel(next(iter(service.stores.jobs.list_jobs(limit=1).jobs)).id)
    service.client.cookies.clear()
    return service.client.request(method, f"/api/v1{filled}", json=body, headers=headers).status_code


@pytest.mark.parametrize(("name", "caller"), product(pages.operations(), CALLERS))
def test_role_matrix(service: Service, keys: dict[str, dict[str, str]], name: str, caller: str) -> None:
    status = send(service, name, keys[caller])
    if pages.allowed(name, caller):
        assert status < 300 or name == "POST /session", (name, caller, status)
        assert status not in (401, 403) or name == "POST /session"
    else:
        assert status == (401 if caller == "anonymous" else 403)


@pytest.mark.parametrize(("name", "role"), product([name for name in pages.operations() if "{table}" in name], Role))
def test_role_has_no_effect_outside_its_scopes(
    service: Service, keys: dict[str, dict[str, str]], name: str, role: Role
) -> None:
    """Uses a key for the namespace of another team."""
    assert send(service, name, keys[f"sales {role}"], table=str(LOG)) in (403, 404)


def test_matrix_covers_every_operation() -> None:
    assert len(list(pages.operations())) >= 30
