"""The client has a method for every operation and parses the real responses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from generator import api as pages

from icepack.client import ApiProblem, Client, JobTimeout
from icepack.errors import EnvironmentFault

from .service import ITEMS, ORDERS, Service

CALLS = {
    "GET /health": lambda client, _: client.health(),
    "GET /health/ready": lambda client, _: client.ready(),
    "GET /metrics": lambda client, _: client.metrics(),
    "POST /session": lambda client, _: client.open_session("x"),
    "GET /session": lambda client, _: client.session(),
    "DELETE /session": lambda client, _: client.end_session(),
    "GET /jobs": lambda client, _: client.jobs(limit=2, state=["queued"]),
    "GET /jobs/{job_id}": lambda client, job: client.job(job),
    "GET /jobs/{job_id}/events": lambda client, job: client.job_events(job),
    "POST /jobs/{job_id}/cancel": lambda client, job: client.cancel(job),
    "POST /jobs/{job_id}/retry": lambda client, job: (client.cancel(job), client.retry(job)),
    "POST /compact": lambda client, _: client.compact("orders", strategy="small_files", idempotency_key="k"),
    "POST /tables/{table}/actions/{action}": lambda client, _: client.act(str(ORDERS), "rewrite_manifests"),
    "POST /maintain": lambda client, _: client.maintain(["lake.sales.*"], dry_run=True),
    "GET /tables": lambda client, _: client.tables(search="orders"),
    "GET /tables/{table}": lambda client, _: client.table(str(ITEMS)),
    "GET /tables/{table}/plan": lambda client, _: client.plan("orders"),
    "GET /tables/{table}/history": lambda client, _: client.history("orders"),
    "GET /tables/{table}/snapshots": lambda client, _: client.snapshots("orders"),
    "GET /tables/{table}/files/histogram": lambda client, _: client.histogram("orders"),
    "GET /tables/{table}/partitions": lambda client, _: client.partitions("orders"),
    "GET /overview": lambda client, _: client.overview(),
    "GET /cost": lambda client, _: client.cost(),
    "GET /locks": lambda client, _: client.locks(),
    "GET /audit": lambda client, _: client.audit(limit=5),
    "GET /policies": lambda client, _: client.policies(),
    "PUT /policies": lambda client, _: client.put_policies([{"match": "a.*", "settings": {"enabled": True}}]),
    "POST /policies/preview": lambda client, _: client.preview_policies(
        [{"match": "sales.*", "settings": {"enabled": False}}]
    ),
    "POST /schedules/preview": lambda client, _: client.preview_schedules(
        [{"match": "sales.*", "schedule": "0 2 * * *", "options": {"strategy": "small_files"}}]
    ),
    "GET /settings": lambda client, _: client.settings(),
    "POST /settings/checks": lambda client, _: client.start_checks(),
    "GET /keys": lambda client, _: client.keys(),
    "POST /keys": lambda client, _: client.create_key("ci", role="operator", scopes=["lake.sales*"], expires_in="90d"),
    "DELETE /keys/{key_id}": lambda client, _: client.revoke_key(client.create_key("gone").id),
    "GET /jobs/{job_id}/plan": lambda client, job_id: client.job_plan(job_id),
    "GET /schedules": lambda client, _: client.schedules(),
    "PUT /schedules": lambda client, _: client.put_schedules([{"match": "a.*", "schedule": "0 2 * * *"}], version=0),
    "GET /schedule/upcoming": lambda client, _: client.upcoming("orders"),
}


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    found = Client("http://127.0.0.1", transport=httpx.MockTransport(lambda request: _forward(service, request)))
    yield found
    found.close()


def _forward(service: Service, request: httpx.Request) -> httpx.Response:
    response = service.client.request(
        request.method, str(request.url), content=request.content or None, headers=dict(request.headers)
    )
    return httpx.Response(response.status_code, headers=dict(response.headers), content=response.content)


def test_every_operation_has_a_method() -> None:
    assert set(CALLS) == set(pages.operations()) - {"GET /jobs/stream"}


@pytest.mark.parametrize("name", CALLS)
def test_every_response_is_parsed(client: Client, service: Service, name: str) -> None:
    CALLS[name](client, service.submit())


def test_problem_is_raised_with_its_details(client: Client) -> None:
    with pytest.raises(ApiProblem, match="No table matches 'nothing'") as caught:
        client.table("nothing")
    assert (caught.value.status, caught.value.problem.field) == (404, "table")


def test_wait_ends_with_the_job_or_the_timeout(client: Client, service: Service) -> None:
    job_id = service.submit()
    with pytest.raises(JobTimeout):
        client.wait(job_id, seconds=0)
    client.cancel(job_id)
    assert client.wait(job_id).state == "cancelled"


def test_unreachable_service(tmp_path: Path) -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(EnvironmentFault, match="Cannot reach the API"):
        client.health()


def test_a_missing_http_library_is_named_with_its_extra() -> None:
    code = "import sys; sys.modules['httpx'] = None; import icepack.client"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "pip install 'icepack[client]'" in answer.stderr
