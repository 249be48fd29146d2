"""What the API changes, and that each change is told in the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from icepack.domain.actions import Compact, ExpireSnapshots, Strategy
from icepack.domain.job import JobState
from icepack.domain.table import TableId
from icepack.domain.units import GIB
from icepack.domain.verification import ProofLevel

from .service import ITEMS, LOG, ODD, ORDERS, Service, serving

REQUEST = {"catalog": "lake", "namespace": "sales", "table": "orders", "strategy": "small_files"}


@pytest.fixture
def deeds(service: Service) -> Any:
    return lambda: [(entry.action, entry.outcome) for entry in reversed(service.stores.audit.entries())]


def action_of(service: Service, answer: Any) -> Any:
    return service.stores.jobs.get(UUID(answer.json()["job_id"])).action


class TestCompact:
    def test_it_is_queued_with_an_estimate(self, service: Service, deeds: Any) -> None:
        options = {"target_file_size": "1GB", "max_cost": 10.0, "partition_filter": "día = 1", "proof": "full"}
        answer = service.post("/compact", {**REQUEST, "options": options})
        assert answer.status_code == 202, answer.text
        told = answer.json()
        assert (told["status"], told["outcome"], told["table_name"]) == ("queued", "created", str(ORDERS))
        assert told["estimated_duration_seconds"] > 0
        action = action_of(service, answer)
        assert isinstance(action, Compact)
        assert (action.strategy, action.target_file_bytes, action.max_cost_dollars, action.partition_filter) == (
            Strategy.SMALL_FILES,
            GIB,
            10.0,
            "día = 1",
        )
        assert action.proof is ProofLevel.FULL
        assert deeds() == [("api.jobs.submit", "created")]
        assert service.stores.jobs.get(UUID(told["job_id"])).requester == "local"

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
    def test_what_is_clear_may_be_left_out(self, service: Service, body: dict[str, str], table: TableId) -> None:
        answer = service.post("/compact", body)
        assert answer.status_code == 202, answer.text
        assert answer.json()["table_name"] == str(table)

    def test_dashes_are_as_good_as_underscores(self, service: Service) -> None:
        answer = service.post("/compact", {**REQUEST, "strategy": "time-series"})
        assert action_of(service, answer).strategy is Strategy.TIME_SERIES

    def test_too_dear_is_refused_with_the_estimate(self, service: Service, deeds: Any) -> None:
        answer = service.post("/compact", {**REQUEST, "options": {"max_cost": 0.0}})
        assert answer.status_code == 422
        told = answer.json()
        assert (told["type"], told["field"]) == ("urn:icepack:problem:cost-limit", "options.max_cost")
        assert told["estimate"]["dollars"] > 0
        assert deeds() == []

    def test_a_job_can_wait_and_go_first(self, service: Service) -> None:
        later = datetime(2099, 1, 1, tzinfo=UTC)
        body = {**REQUEST, "priority": 7, "not_before": later.isoformat(), "max_attempts": 1}
        job = service.stores.jobs.get(UUID(service.post("/compact", body).json()["job_id"]))
        assert (job.priority, job.not_before, job.max_attempts) == (7, later, 1)

    def test_a_trace_is_carried_along(self, service: Service) -> None:
        parent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
        answer = service.post("/compact", REQUEST, headers={"traceparent": parent})
        assert service.stores.jobs.get(UUID(answer.json()["job_id"])).trace_context == parent


class TestIdempotency:
    def test_twenty_threads_get_one_job(self, service: Service) -> None:
        def submit(_: int) -> tuple[int, str]:
            answer = service.post("/compact", REQUEST, headers={"Idempotency-Key": "k1"})
            return answer.status_code, answer.json()["job_id"]

        with ThreadPoolExecutor(20) as pool:
            assert len(set(pool.map(submit, range(20)))) == 1

    def test_the_same_key_means_the_same_also_when_it_has_ended(self, service: Service) -> None:
        headers = {"Idempotency-Key": "k1"}
        first = service.post("/compact", {**REQUEST, "priority": 9}, headers=headers).json()
        assert str(service.end()) == first["job_id"]
        again = service.post("/compact", {**REQUEST, "priority": 9}, headers=headers).json()
        assert (again["job_id"], again["outcome"], again["status"]) == (first["job_id"], "repeated", "succeeded")

    def test_another_request_with_the_key_is_refused(self, service: Service) -> None:
        headers = {"Idempotency-Key": "k1"}
        service.post("/compact", REQUEST, headers=headers)
        answer = service.post("/compact", {**REQUEST, "strategy": "delete_files"}, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["type"] == "urn:icepack:problem:idempotency-key-reused"

    def test_maintain_repeats_what_it_did(self, service: Service) -> None:
        headers = {"Idempotency-Key": "k1"}
        first = service.post("/maintain", {"tables": ["lake.*"]}, headers=headers).json()["jobs"]
        again = service.post("/maintain", {"tables": ["lake.*"]}, headers=headers).json()["jobs"]
        assert [job["job_id"] for job in again] == [job["job_id"] for job in first] != []


class TestActions:
    def test_another_action(self, service: Service) -> None:
        body = {"options": {"older_than": "3d", "retain_last": 2}}
        answer = service.post("/tables/orders/actions/expire_snapshots", body)
        assert answer.status_code == 202, answer.text
        action = action_of(service, answer)
        assert isinstance(action, ExpireSnapshots)
        assert (action.older_than, action.retain_last) == (timedelta(days=3), 2)

    def test_without_a_body_the_policy_decides(self, service: Service) -> None:
        answer = service.client.post("/api/v1/tables/orders/actions/remove_orphan_files")
        assert answer.status_code == 202, answer.text

    def test_an_option_of_another_action_is_refused(self, service: Service) -> None:
        answer = service.post("/tables/orders/actions/rewrite_manifests", {"options": {"older_than": "3d"}})
        assert answer.status_code == 422
        assert "rewrite_manifests has no option 'older_than'" in answer.json()["detail"]

    def test_maintain_submits_what_is_recommended(self, service: Service, deeds: Any) -> None:
        wanted = service.post("/maintain", {"tables": ["lake.sales.*"], "dry_run": True}).json()
        assert wanted["jobs"] == []
        done = service.post("/maintain", {"tables": ["lake.sales.*"]}).json()
        assert done["recommended"] == wanted["recommended"]
        submitted = {(job["table_name"], job["action"]) for job in done["jobs"]}
        assert submitted == {(item["table_name"], kind) for item in wanted["recommended"] for kind in item["actions"]}
        assert len(deeds()) == len(done["jobs"])

    def test_maintain_can_be_narrowed(self, service: Service) -> None:
        done = service.post("/maintain", {"tables": ["lake.*"], "actions": ["compute_stats"]}).json()
        assert (done["jobs"], done["recommended"]) == ([], [])


class TestJobs:
    def test_a_queued_job_is_cancelled_at_once(self, service: Service, deeds: Any) -> None:
        job_id = service.submit()
        assert service.client.post(f"/api/v1/jobs/{job_id}/cancel").json()["status"] == "cancelled"
        assert deeds() == [("api.jobs.cancel", "cancelled")]

    def test_a_finished_job_cannot_be_cancelled(self, service: Service, deeds: Any) -> None:
        answer = service.client.post(f"/api/v1/jobs/{service.end()}/cancel")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:icepack:problem:job-state")
        assert deeds() == []

    def test_a_finished_job_is_asked_for_again(self, service: Service, deeds: Any) -> None:
        job_id = service.end(JobState.FAILED)
        answer = service.client.post(f"/api/v1/jobs/{job_id}/retry")
        assert answer.status_code == 202
        assert str(service.stores.jobs.get(UUID(answer.json()["job_id"])).retry_of) == str(job_id)
        assert [action for action, _ in deeds()] == ["api.jobs.retry"]

    def test_a_queued_job_is_not(self, service: Service) -> None:
        assert service.client.post(f"/api/v1/jobs/{service.submit()}/retry").status_code == 409


class TestAgenda:
    @pytest.fixture
    def configured(self, tmp_path: Path) -> Iterator[Service]:
        tables = [{"name": "sales.orders", "schedule": "0 2 * * *", "strategy": "small_files"}]
        policies = [{"match": "ops.*", "target_file_size": "64MB"}]
        with serving(tmp_path, tables=tables, policies=policies) as found:
            yield found

    def test_policies_are_set_and_heeded(self, configured: Service) -> None:
        before = configured.get("/policies").json()
        assert before["configured"] == [
            {"match": "ops.*", "settings": {"target_file_size": "64MB"}},
            {"match": "sales.orders", "settings": {"strategy": "small_files"}},
        ]
        override = {"match": "sales.*", "settings": {"target_file_size": "128MB", "windows": ["22:00-06:00"]}}
        answer = configured.put("/policies", {"overrides": [override], "version": 0})
        assert answer.status_code == 200, answer.text
        assert answer.json()["overrides"] == [override]
        assert (answer.json()["version"], answer.json()["changed_by"]) == (1, "local")
        rules = configured.app.policies.rules
        rules._remembered._entries.clear()  # type: ignore[attr-defined]
        policy = configured.app.policies.policy_for(ITEMS, {})
        assert policy.target_file_size == 128 * 2**20
        assert [entry.action for entry in configured.stores.audit.entries()] == ["api.policies.put"]

    def test_an_old_version_changes_nothing(self, configured: Service) -> None:
        configured.put("/policies", {"overrides": []})
        answer = configured.put("/policies", {"overrides": [], "version": 0})
        assert (answer.status_code, answer.json()["field"]) == (409, "version")

    @pytest.mark.parametrize(
        "settings",
        [
            {"target_file_size": "many"},
            {"no_such": 1},
            {"max_orphan_share": 7},
            {"partition_filter": "x = 1; drop table y"},
            {"match": "x"},
            {"strategy": "fast"},
        ],
    )
    def test_what_is_a_mistake_in_the_file_is_one_here(self, configured: Service, settings: dict[str, Any]) -> None:
        answer = configured.put("/policies", {"overrides": [{"match": "sales.*", "settings": settings}]})
        assert answer.status_code == 422, answer.text
        assert configured.stores.overrides.read("policies").version == 0

    def test_schedules_are_set_and_heeded(self, configured: Service) -> None:
        assert configured.get("/schedules").json()["configured"] == [
            {"match": "sales.orders", "schedule": "0 2 * * *", "options": {"strategy": "small_files"}}
        ]
        override = {"match": "ops.log", "schedule": "*/30 * * * *", "options": {}}
        assert configured.put("/schedules", {"overrides": [override]}).json()["overrides"] == [override]
        runs = configured.get("/schedule/upcoming", params={"table": "ops.log"}).json()
        assert (runs["total"], runs["runs"][0]["schedule"]) == (48, "*/30 * * * *")

    def test_a_bad_cron_line_is_refused(self, configured: Service) -> None:
        answer = configured.put("/schedules", {"overrides": [{"match": "x", "schedule": "daily"}]})
        assert answer.status_code == 422
        assert "cron line" in answer.json()["detail"]
