"""Bad input of every kind gets a clear 4xx and leaves no trace in the state."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import select

from icepack.api.app import BASE
from icepack.store.schema import metadata

from .service import Service

GOOD = {"catalog": "lake", "namespace": "sales", "table": "orders", "strategy": "small_files", "options": {}}
BODIES: list[Any] = [
    None,
    [],
    "orders",
    7,
    {},
    {**GOOD, "table": 7},
    {**GOOD, "table": None},
    {**GOOD, "table": ""},
    {**GOOD, "table": "x" * 3000},
    {**GOOD, "table": "no\0table"},
    {**GOOD, "table": "half \ud800 a pair"},
    {**GOOD, "table": "../../etc/passwd"},
    {**GOOD, "table": "orders; DROP TABLE jobs"},
    {**GOOD, "table": 'a"b'},
    {**GOOD, "namespace": "sales.", "table": "orders"},
    {**GOOD, "catalog": "no-such"},
    {**GOOD, "catalog": "lake.sales.orders"},
    {**GOOD, "namespace": ["sales"]},
    {**GOOD, "strategy": "fast"},
    {**GOOD, "strategy": {"$ne": ""}},
    {**GOOD, "unknown": 1},
    {**GOOD, "options": {"unknown": 1}},
    {**GOOD, "options": {"target_file_size": "-1GB"}},
    {**GOOD, "options": {"target_file_size": "0B"}},
    {**GOOD, "options": {"target_file_size": "9" * 40 + "TB"}},
    {**GOOD, "options": {"target_file_size": 512}},
    {**GOOD, "options": {"max_cost": -1}},
    {**GOOD, "options": {"max_cost": "cheap"}},
    {**GOOD, "options": {"max_cost": 1e400}},
    {**GOOD, "options": {"partition_filter": "día = 1; DROP TABLE runs"}},
    {**GOOD, "options": {"partition_filter": "1=1 UNION SELECT * FROM api_keys"}},
    {**GOOD, "options": {"partition_filter": "día = 'x' OR (SELECT 1)"}},
    {**GOOD, "options": {"partition_filter": "día = '"}},
    {**GOOD, "options": {"partition_filter": "(" * 500}},
    {**GOOD, "options": {"partition_filter": "día = 1\0"}},
    {**GOOD, "options": {"columns": "a"}},
    {**GOOD, "options": {"min_input_files": 0}},
    {**GOOD, "priority": 2**70},
    {**GOOD, "priority": 1.5},
    {**GOOD, "not_before": "tomorrow"},
    {**GOOD, "not_before": "2099-01-01T00:00:00"},
    {**GOOD, "max_attempts": 0},
]
RAW = [
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


def state(service: Service) -> dict[str, list[str]]:
    with service.stores.engine.connect() as connection:
        return {table.name: sorted(map(repr, connection.execute(select(table)))) for table in metadata.sorted_tables}


def refused(answer: Any) -> None:
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:300])
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["type"].startswith("urn:icepack:problem:")
    assert document["detail"]


def test_no_body_that_does_not_fit_changes_anything(service: Service) -> None:
    before = state(service)
    for body in BODIES:
        content = json.dumps(body).encode()
        refused(service.client.post(f"{BASE}/compact", content=content, headers={"Content-Type": "application/json"}))
    assert state(service) == before


def test_no_broken_body_changes_anything(service: Service) -> None:
    before = state(service)
    for content in RAW:
        for path in ("/compact", "/maintain"):
            headers = {"Content-Type": "application/json"}
            refused(service.client.post(BASE + path, content=content, headers=headers))
    assert state(service) == before


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("rest", ["", "/plan", "/actions/rewrite_manifests"])
def test_tricks_in_a_name_lead_nowhere(service: Service, path: str, rest: str) -> None:
    before = state(service)
    method = "POST" if "actions" in rest else "GET"
    answer = service.client.request(method, f"{BASE}/tables/{path}{rest}")
    if path == "..":
        assert answer.status_code in (200, 404, 405)
    else:
        refused(answer)
        assert state(service) == before


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
def test_a_query_that_does_not_fit_is_refused(service: Service, query: str) -> None:
    refused(service.client.get(f"{BASE}/jobs?{query}"))


@pytest.mark.parametrize("cursor", ["x", "W10=", "WzEsMl0=", "A" * 4000, "é", "bnVsbA=="])
def test_a_cursor_that_is_none_is_refused(service: Service, cursor: str) -> None:
    refused(service.get("/tables", params={"cursor": cursor}))


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "\x7f"])
def test_a_key_that_is_none_is_refused(service: Service, key: str) -> None:
    before = state(service)
    refused(service.post("/compact", GOOD, headers={"Idempotency-Key": key}))
    assert state(service) == before


@pytest.mark.parametrize("job_id", ["1", "x" * 100, "550e8400-e29b-41d4-a716-44665544000g", "%00"])
def test_a_job_that_is_none(service: Service, job_id: str) -> None:
    refused(service.client.get(f"{BASE}/jobs/{job_id}"))
    refused(service.client.post(f"{BASE}/jobs/{job_id}/cancel"))


def test_the_offending_field_is_named(service: Service) -> None:
    answer = service.post("/compact", {**GOOD, "options": {"target_file_size": "many"}})
    assert answer.json()["field"] == "options.target_file_size"
    assert "512MB" in answer.json()["detail"]


def test_a_method_that_is_none(service: Service) -> None:
    answer = service.client.delete(f"{BASE}/tables")
    refused(answer)
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]
