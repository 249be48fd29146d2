"""Routes that submit jobs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from api.service import ITEMS, LOG, ODD, ORDERS, Service
from icepack.domain.actions import Compact, ExpireSnapshots, Strategy
from icepack.domain.table import TableId
from icepack.domain.units import GIB
from icepack.domain.verification import ProofLevel

REQUEST = {"catalog": "lake", "namespace": "sales", "table": "orders", "strategy": "small_files"}


def action_of(service: Service, response: Any) -> Any:
    return service.stores.jobs.get(UUID(response.json()["job_id"])).action


class TestCompact:
    def test_compaction_is_queued_with_an_estimate(self, service: Service, audited: Any) -> None:
        options = {"target_file_size": "1GB", "max_cost": 10.0, "partition_filter": "día = 1", "proof": "full"}
        response = service.post("/compact", {**REQUEST, "options": options})
        assert response.status_code == 202, response.text
        body = response.json()
        assert (body["status"], body["outcome"], body["table_name"]) == ("queued", "created", str(ORDERS))
        assert body["estimated_duration_seconds"] > 0
        action = action_of(service, response)
        assert isinstance(action, Compact)
        assert (action.strategy, action.target_file_bytes, action.max_cost_dollars, action.partition_filter) == (
            Strategy.SMALL_FILES,
            GIB,
            10.0,
            "día = 1",
        )
        assert action.proof is ProofLevel.FULL
        assert audited() == [("api.jobs.submit", "created")]
        assert service.stores.jobs.get(UUID(body["job_id"])).requester == "local"

    @pytest.mark.parametrize(
        ("body", "table"),
        [
            ({"table": "orders"}, ORDERS),
            ({"table": "sales.items"}, ITEMS),
            ({"namespace": "sales", "table": "items"}, ITEMS),
            ({"catalog": "lake", "table": "log"}, LOG),
            ({"catalog": "lake", "table": "ops.log"}, LOG),
            ({"catalog": "other", "namespace": '"a.b".c', "table": ODD.name}, ODD),
            ({"table": str(ODD)}, ODD),
        ],
    )
    def test_unambiguous_parts_may_be_omitted(self, service: Service, body: dict[str, str], table: TableId) -> None:
        response = service.post("/compact", body)
        assert response.status_code == 202, response.text
        assert response.json()["table_name"] == str(table)

    def test_dashes_equal_underscores(self, service: Service) -> None:
        response = service.post("/compact", {**REQUEST, "strategy": "time-series"})
        assert action_of(service, response).strategy is Strategy.TIME_SERIES

    def test_estimate_over_max_cost_is_refused(self, service: Service, audited: Any) -> None:
        response = service.post("/compact", {**REQUEST, "options": {"max_cost": 0.0}})
        assert response.status_code == 422
        body = response.json()
        assert (body["type"], body["field"]) == ("urn:icepack:problem:cost-limit", "options.max_cost")
        assert body["estimate"]["dollars"] > 0
        assert audited() == []

    def test_priority_and_start_time_are_applied(self, service: Service) -> None:
        later = datetime(2099, 1, 1, tzinfo=UTC)
        body = {**REQUEST, "priority": 7, "not_before": later.isoformat(), "max_attempts": 1}
        job = service.stores.jobs.get(UUID(service.post("/compact", body).json()["job_id"]))
        assert (job.priority, job.not_before, job.max_attempts) == (7, later, 1)

    def test_trace_context_is_stored(self, service: Service) -> None:
        parent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
        response = service.post("/compact", REQUEST, headers={"traceparent": parent})
        assert service.stores.jobs.get(UUID(response.json()["job_id"])).trace_context == parent


class TestIdempotency:
    def test_twenty_threads_with_one_key_get_one_job(self, service: Service) -> None:
        def submit(_: int) -> tuple[int, str]:
            response = service.post("/compact", REQUEST, headers={"Idempotency-Key": "k1"})
            return response.status_code, response.json()["job_id"]

        with ThreadPoolExecutor(20) as pool:
            assert len(set(pool.map(submit, range(20)))) == 1

    def test_key_returns_the_same_job_after_it_finished(self, service: Service) -> None:
        headers = {"Idempotency-Key": "k1"}
        first = service.post("/compact", {**REQUEST, "priority": 9}, headers=headers).json()
        assert str(service.finish_next()) == first["job_id"]
        again = service.post("/compact", {**REQUEST, "priority": 9}, headers=headers).json()
        assert (again["job_id"], again["outcome"], again["status"]) == (first["job_id"], "repeated", "succeeded")

    def test_key_of_another_request_is_rejected(self, service: Service) -> None:
        headers = {"Idempotency-Key": "k1"}
        service.post("/compact", REQUEST, headers=headers)
        response = service.post("/compact", {**REQUEST, "strategy": "delete_files"}, headers=headers)
        assert response.status_code == 422
        assert response.json()["type"] == "urn:icepack:problem:idempotency-key-reused"

    def test_maintain_with_the_same_key_returns_the_same_jobs(self, service: Service) -> None:
        headers = {"Idempotency-Key": "k1"}
        first = service.post("/maintain", {"tables": ["lake.*"]}, headers=headers).json()["jobs"]
        again = service.post("/maintain", {"tables": ["lake.*"]}, headers=headers).json()["jobs"]
        assert [job["job_id"] for job in again] == [job["job_id"] for job in first] != []


class TestActions:
    def test_other_action_is_queued(self, service: Service) -> None:
        body = {"options": {"older_than": "3d", "retain_last": 2}}
        response = service.post("/tables/orders/actions/expire_snapshots", body)
        assert response.status_code == 202, response.text
        action = action_of(service, response)
        assert isinstance(action, ExpireSnapshots)
        assert (action.older_than, action.retain_last) == (timedelta(days=3), 2)

    def test_policy_decides_without_a_body(self, service: Service) -> None:
        response = service.client.post("/api/v1/tables/orders/actions/remove_orphan_files")
        assert response.status_code == 202, response.text

    def test_option_of_another_action_is_rejected(self, service: Service) -> None:
        response = service.post("/tables/orders/actions/rewrite_manifests", {"options": {"older_than": "3d"}})
        assert response.status_code == 422
        assert "rewrite_manifests has no option 'older_than'" in response.json()["detail"]

    def test_maintain_submits_the_recommended_actions(self, service: Service, audited: Any) -> None:
        wanted = service.post("/maintain", {"tables": ["lake.sales.*"], "dry_run": True}).json()
        assert wanted["jobs"] == []
        done = service.post("/maintain", {"tables": ["lake.sales.*"]}).json()
        assert done["recommended"] == wanted["recommended"]
        submitted = {(job["table_name"], job["action"]) for job in done["jobs"]}
        assert submitted == {(item["table_name"], kind) for item in wanted["recommended"] for kind in item["actions"]}
        assert len(audited()) == len(done["jobs"])

    def test_maintain_can_be_limited_to_actions(self, service: Service) -> None:
        done = service.post("/maintain", {"tables": ["lake.*"], "actions": ["compute_stats"]}).json()
        assert (done["jobs"], done["recommended"]) == ([], [])
