"""What the API shows."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest

from contract.observed import cached
from icepack.api.schemas.fleet import TableView
from icepack.api.schemas.jobs import JobView
from icepack.domain.job import JobProgress, JobState
from icepack.domain.serialization import to_json

from .service import ITEMS, LEASE, LOG, ODD, ORDERS, TABLES, Service


class TestJobs:
    def test_a_job_has_the_names_of_the_contract_and_of_the_command_line(self, service: Service) -> None:
        job_id = service.submit(estimated_seconds=300.0)
        answer = service.get(f"/jobs/{job_id}").json()
        assert (answer["job_id"], answer["status"], answer["estimated_duration_seconds"]) == (
            str(job_id),
            "queued",
            300.0,
        )
        plain = to_json(service.stores.jobs.get(job_id))
        assert {name: answer[name] for name in plain} == plain
        JobView.model_validate(answer)

    def test_progress_and_the_estimated_end_are_shown(self, service: Service) -> None:
        for _ in TABLES:
            service.end()
        service.submit()
        claim = service.stores.jobs.claim("w", LEASE)
        assert claim is not None
        progress = JobProgress(partitions_completed=5, partitions_total=10, files_processed=150)
        service.stores.jobs.progress(claim, progress)
        answer = service.get(f"/jobs/{claim.job_id}").json()
        assert answer["progress"] == to_json(progress)
        assert answer["estimated_completion"] > answer["started_at"]

    def test_pages_and_filters(self, service: Service) -> None:
        for _ in range(2):
            service.end(JobState.FAILED)
        page = service.get("/jobs", params={"limit": 3}).json()
        rest = service.get("/jobs", params={"limit": 3, "before": page["next_before"]}).json()
        assert len(page["jobs"]) == 3
        assert rest["next_before"] is None
        numbers = [job["number"] for job in [*page["jobs"], *rest["jobs"]]]
        assert numbers == sorted(numbers, reverse=True)
        failed = service.get("/jobs", params={"state": "failed"}).json()["jobs"]
        assert {job["state"] for job in failed} == {"failed"}
        assert len(failed) == 2
        of_table = service.get("/jobs", params={"table": "orders"}).json()["jobs"]
        assert {job["table_name"] for job in of_table} == {str(ORDERS)}
        assert service.get("/jobs", params={"action": "compact"}).json()["jobs"] == []
        assert service.get("/jobs", params={"catalog": "other"}).json()["jobs"][0]["table_name"] == str(ODD)

    def test_a_jobs_story(self, service: Service) -> None:
        job_id = service.end()
        kinds = [event["kind"] for event in service.get(f"/jobs/{job_id}/events").json()["events"]]
        assert kinds == ["submitted", "claimed", "succeeded"]

    def test_an_unknown_job_is_a_problem(self, service: Service) -> None:
        answer = service.get("/jobs/550e8400-e29b-41d4-a716-446655440000")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"] == "urn:icepack:problem:job-not-found"
        assert answer.json()["field"] == "job_id"


class TestTables:
    def test_the_sickest_come_first_page_by_page(self, service: Service) -> None:
        seen, cursor = [], None
        while True:
            page = service.get("/tables", params={"limit": 3, "cursor": cursor} if cursor else {"limit": 3}).json()
            seen += page["tables"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert page["total"] == len(TABLES)
        assert {table["table_name"] for table in seen} == {str(table) for table in TABLES}
        assert [table["score"] for table in seen] == sorted(table["score"] for table in seen)

    @pytest.mark.parametrize("sort", ["score", "-score", "name"])
    def test_every_order_has_every_table_once(self, service: Service, sort: str) -> None:
        seen, cursor = [], ""
        while cursor is not None:
            query = {"limit": 1, "sort": sort} | ({"cursor": cursor} if cursor else {})
            page = service.get("/tables", params=query).json()
            seen += [table["table_name"] for table in page["tables"]]
            cursor = page["next_cursor"]
        assert sorted(seen) == sorted(str(table) for table in TABLES)

    def test_a_search_finds_parts_of_names(self, service: Service) -> None:
        found = service.get("/tables", params={"search": "NÄME"}).json()["tables"]
        assert [table["table_name"] for table in found] == [str(ODD)]
        assert service.get("/tables", params={"catalog": "lake"}).json()["total"] == 3

    @pytest.mark.parametrize("name", ["lake.sales.orders", "sales.orders", "orders"])
    def test_a_table_by_any_clear_name(self, service: Service, name: str) -> None:
        answer = service.get(f"/tables/{name}").json()
        assert answer["table_name"] == str(ORDERS)
        assert answer["health"] == to_json(cached(ORDERS, 40).health)
        assert (answer["status"]["partitions"], answer["status"]["snapshots"]["entries"]) == ([], [])
        TableView.model_validate(answer)

    @pytest.mark.parametrize("rest", ["", "/plan", "/history", "/snapshots", "/files/histogram", "/partitions"])
    def test_an_odd_name_is_a_name_like_any_other(self, service: Service, rest: str) -> None:
        answer = service.get(f"/tables/{quote(str(ODD), safe='')}{rest}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["table_name"] == str(ODD)

    def test_the_plan_is_estimated_by_partition(self, service: Service) -> None:
        plan = service.get("/tables/orders/plan").json()["compaction"]
        assert plan["estimated"] is True
        assert [group["partition"]["path"] for group in plan["groups"]] == ["día=1"]
        assert plan["cost"]["dollars"] > 0

    def test_partitions_are_paged(self, service: Service) -> None:
        page = service.get("/tables/orders/partitions", params={"limit": 1}).json()
        assert (page["total"], page["next_offset"]) == (1, None)
        assert 0 < page["partitions"][0]["score"] <= 1
        assert service.get("/tables/orders/partitions", params={"offset": 5}).json()["partitions"] == []

    def test_history_has_runs_and_points(self, service: Service) -> None:
        found = service.get("/tables/orders/history").json()
        assert [run["state"] for run in found["runs"]] == ["succeeded"]
        assert found["points"][0]["totals"]["data_files"] == 40

    def test_a_new_generation_is_seen(self, service: Service) -> None:
        cache = service.stores.cache
        generation = cache.begin("tests", LEASE)
        cache.remove(generation, [LOG])
        cache.swap(generation)
        service.app.directory._looked_at = -10.0
        assert service.get("/tables").json()["total"] == len(TABLES) - 1
        assert service.get(f"/tables/{LOG}").status_code == 404


class TestFleet:
    def test_the_overview_adds_up(self, service: Service) -> None:
        found = service.get("/overview").json()
        assert found["tables"]["count"] == len(TABLES)
        assert found["tables"]["data_files"] == 40 + 41 + 42 + 43
        assert found["jobs"] == {"queued": 4, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
        assert found["cache"]["generation"] == 1
        assert len(found["sickest"]) == len(TABLES)

    def test_costs_have_estimates_beside_what_was_measured(self, service: Service) -> None:
        found = service.get("/cost").json()
        assert found["total"]["runs"] == len(TABLES)
        assert found["total"]["realised_seconds"] == 12.0
        assert found["total"]["realised_dollars"] > 0
        assert list(found["by_action"]) == ["compact"]
        assert set(found["by_table"]) == {str(table) for table in TABLES}

    def test_locks_are_listed(self, service: Service) -> None:
        service.stores.locks.acquire(ITEMS, "me", timedelta(minutes=1), "a look")
        (lock,) = service.get("/locks").json()["locks"]
        assert (lock["table_name"], lock["owner"], lock["purpose"]) == (str(ITEMS), "me", "a look")

    def test_what_comes_next(self, service: Service) -> None:
        found = service.get("/schedule/upcoming", params={"hours": 24}).json()
        assert found["total"] == 4 * len(TABLES)
        assert {run["schedule"] for run in found["runs"]} == {"0 */6 * * *"}
        assert service.get("/schedule/upcoming", params={"table": "orders", "limit": 1}).json()["total"] == 4


class TestProbes:
    @pytest.mark.parametrize("base", ["", "/api/v1"])
    def test_they_answer_at_the_root_too(self, service: Service, base: str) -> None:
        assert service.client.get(f"{base}/health").json()["status"] == "ok"
        assert service.client.get(f"{base}/health/ready").json()["status"] == "ready"
        answer = service.client.get(f"{base}/metrics")
        assert "compaction_jobs_total" in answer.text
        assert answer.headers["content-type"].startswith("text/plain")

    def test_without_a_database_it_is_not_ready(self, service: Service) -> None:
        service.stores.engine.dispose()
        broken = service.app.stores.jobs
        original = broken.now

        def lost() -> None:
            from icepack.errors import EnvironmentFault

            raise EnvironmentFault("postgresql://secret@host could not be used")

        broken.now = lost  # type: ignore[method-assign]
        try:
            answer = service.get("/health/ready")
        finally:
            broken.now = original  # type: ignore[method-assign]
        assert answer.status_code == 503
        assert "secret" not in answer.text
