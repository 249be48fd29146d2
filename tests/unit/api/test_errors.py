"""Invalid input of every kind returns a 4xx problem and changes nothing in the database."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import select

from icepack.api.app import BASE_PATH
from icepack.store.schema import metadata

from .service import Service

VALID = {"catalog": "lake", "namespace": "sales", "table": "orders", "strategy": "small_files", "options": {}}
BODIES: list[Any] = [
    None,
    [],
    "orders",
    7,
    {},
    {**VALID, "table": 7},
    {**VALID, "table": None},
    {**VALID, "table": ""},
    {**VALID, "table": "x" * 3000},
    {**VALID, "table": "no\0table"},
    {**VALID, "table": "half \ud800 a pair"},
    {**VALID, "table": "../../etc/passwd"},
    {**VALID, "table": "orders; DROP TABLE jobs"},
    {**VALID, "table": 'a"b'},
    {**VALID, "namespace": "sales.", "table": "orders"},
    {**VALID, "catalog": "no-such"},
    {**VALID, "catalog": "lake.sales.orders"},
    {**VALID, "namespace": ["sales"]},
    {**VALID, "strategy": "fast"},
    {**VALID, "strategy": {"$ne": ""}},
    {**VALID, "unknown": 1},
    {**VALID, "options": {"unknown": 1}},
    {**VALID, "options": {"target_file_size": "-1GB"}},
    {**VALID, "options": {"target_file_size": "0B"}},
    {**VALID, "options": {"target_file_size": "9" * 40 + "TB"}},
    {**VALID, "options": {"target_file_size": 512}},
    {**VALID, "options": {"max_cost": -1}},
    {**VALID, "options": {"max_cost": "cheap"}},
    {**VALID, "options": {"max_cost": 1e400}},
    {**VALID, "options": {"partition_filter": "día = 1; DROP TABLE runs"}},
    {**VALID, "options": {"partition_filter": "1=1 UNION SELECT * FROM api_keys"}},
    {**VALID, "options": {"partition_filter": "día = 'x' OR (SELECT 1)"}},
    {**VALID, "options": {"partition_filter": "día = '"}},
    {**VALID, "options": {"partition_filter": "(" * 500}},
    {**VALID, "options": {"partition_filter": "día = 1\0"}},
    {**VALID, "options": {"columns": "a"}},
    {**VALID, "options": {"min_input_files": 0}},
    {**VALID, "priority": 2**70},
    {**VALID, "priority": 1.5},
    {**VALID, "not_before": "tomorrow"},
    {**VALID, "not_before": "2099-01-01T00:00:00"},
    {**VALID, "max_attempts": 0},
]
MALFORMED = [
    b"",
    b"{",
    b"\xff\xfe",
    b'{"table": NaN}',
    b"[" * 100_000,
    b'{"priority": ' + b"9" * 5000 + b', "table": "orders"}',
    b'{"table": "\\ud800"}',
]
PATHS = [
    "..%2f..%2fetc%2fpasswd",
    "..",
    "lake.sales.orders%00",
    "%00",
    "lake.sales.%ff",
    quote("lake.sales.orders'; DROP TABLE jobs --"),
    quote('"unclosed'),
    quote("lake..orders"),
    "x" * 3000,
    quote("𝕝𝕒𝕜𝕖.sales.orders"),
    quote("lake.sales.orders\u202e"),
    quote("lake.sales.*"),
]


def read_database(service: Service) -> dict[str, list[str]]:
    with service.stores.engine.connect() as connection:
        return {table.name: sorted(map(repr, connection.execute(select(table)))) for table in metadata.sorted_tables}


def assert_rejected(response: Any) -> None:
    assert 400 <= response.status_code < 500, (response.status_code, response.text[:300])
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == response.status_code
    assert document["type"].startswith("urn:icepack:problem:")
    assert document["detail"]


def test_invalid_bodies_are_rejected_and_change_nothing(service: Service) -> None:
    before = read_database(service)
    for body in BODIES:
        content = json.dumps(body).encode()
        assert_rejected(
            service.client.post(f"{BASE_PATH}/compact", content=content, headers={"Content-Type": "application/json"})
        )
    assert read_database(service) == before


def test_malformed_bodies_are_rejected_and_change_nothing(service: Service) -> None:
    before = read_database(service)
    for content in MALFORMED:
        for path in ("/compact", "/maintain"):
            headers = {"Content-Type": "application/json"}
            assert_rejected(service.client.post(BASE_PATH + path, content=content, headers=headers))
    assert read_database(service) == before


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("rest", ["", "/plan", "/actions/rewrite_manifests"])
def test_malicious_table_names_are_rejected(service: Service, path: str, rest: str) -> None:
    before = read_database(service)
    method = "POST" if "actions" in rest else "GET"
    response = service.client.request(method, f"{BASE_PATH}/tables/{path}{rest}")
    if path == "..":
        assert response.status_code in (200, 404, 405)
    else:
        assert_rejected(response)
        assert read_database(service) == before


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=501",
        "limit=ten",
        "before=-1",
        "before=99999999999999999999",
        "state=odd",
        "table=%00",
        "catalog=%00",
        "action=drop",
    ],
)
def test_invalid_query_is_rejected(service: Service, query: str) -> None:
    assert_rejected(service.client.get(f"{BASE_PATH}/jobs?{query}"))


@pytest.mark.parametrize("cursor", ["x", "W10=", "WzEsMl0=", "A" * 4000, "é", "bnVsbA=="])
def test_invalid_cursor_is_rejected(service: Service, cursor: str) -> None:
    assert_rejected(service.get("/tables", params={"cursor": cursor}))


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "\x7f"])
def test_invalid_idempotency_key_is_rejected(service: Service, key: str) -> None:
    before = read_database(service)
    assert_rejected(service.post("/compact", VALID, headers={"Idempotency-Key": key}))
    assert read_database(service) == before


@pytest.mark.parametrize("job_id", ["1", "x" * 100, "550e8400-e29b-41d4-a716-44665544000g", "%00"])
def test_invalid_job_id_is_rejected(service: Service, job_id: str) -> None:
    assert_rejected(service.client.get(f"{BASE_PATH}/jobs/{job_id}"))
    assert_rejected(service.client.post(f"{BASE_PATH}/jobs/{job_id}/cancel"))


def test_invalid_field_is_named(service: Service) -> None:
    response = service.post("/compact", {**VALID, "options": {"target_file_size": "many"}})
    assert response.json()["field"] == "options.target_file_size"
    assert "512MB" in response.json()["detail"]


def test_unsupported_method_is_rejected(service: Service) -> None:
    response = service.client.delete(f"{BASE_PATH}/tables")
    assert_rejected(response)
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]
