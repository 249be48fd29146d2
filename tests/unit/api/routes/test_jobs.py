"""Routes of jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from api.service import LEASE, ODD, ORDERS, TABLES, Service
from contract.sample_runs import NOON, VALUE_PROOF
from icepack.api.schemas.jobs import JobView
from icepack.domain.job import Claim, JobOutcome, JobProgress, JobState, PhaseMark
from icepack.domain.observability.trace import Phase, Span, TraceContext
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId


class TestListAndGet:
    def test_job_has_the_fields_of_the_api_and_of_the_command_line(self, service: Service) -> None:
        job_id = service.submit(estimated_seconds=300.0)
        response = service.get(f"/jobs/{job_id}").json()
        assert (response["job_id"], response["status"], response["estimated_duration_seconds"]) == (
            str(job_id),
            "queued",
            300.0,
        )
        plain = to_json(service.stores.jobs.get(job_id))
        assert {name: response[name] for name in plain} == plain
        JobView.model_validate(response)

    def test_running_job_has_progress_and_estimated_completion(self, service: Service) -> None:
        for _ in TABLES:
            service.finish_next()
        service.submit()
        claim = service.stores.jobs.claim("w", LEASE)
        assert claim is not None
        progress = JobProgress(partitions_completed=5, partitions_total=10, files_processed=150)
        service.stores.jobs.progress(claim, progress)
        response = service.get(f"/jobs/{claim.job_id}").json()
        assert response["progress"] == to_json(progress)
        assert response["estimated_completion"] > response["started_at"]

    def test_jobs_are_paginated_and_filtered(self, service: Service) -> None:
        for _ in range(2):
            service.finish_next(JobState.FAILED)
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

    def test_events_of_a_job(self, service: Service) -> None:
        job_id = service.finish_next()
        kinds = [event["kind"] for event in service.get(f"/jobs/{job_id}/events").json()["events"]]
        assert kinds == ["submitted", "claimed", "succeeded"]

    def test_unknown_job_returns_404(self, service: Service) -> None:
        response = service.get("/jobs/550e8400-e29b-41d4-a716-446655440000")
        assert response.status_code == 404
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["type"] == "urn:icepack:problem:job-not-found"
        assert response.json()["field"] == "job_id"


class TestProgressAndPlan:
    def claim(self, service: Service) -> Claim:
        claim = service.stores.jobs.claim("worker", LEASE)
        assert claim is not None
        return claim

    def test_running_job_has_its_phases_and_current_partitions(self, service: Service) -> None:
        claim, started_at = self.claim(service), datetime.now(UTC)
        marks = (
            PhaseMark(phase=Phase.PLANNING, started_at=started_at - timedelta(seconds=9)),
            PhaseMark(phase=Phase.EXECUTION, started_at=started_at - timedelta(seconds=7)),
        )
        progress = JobProgress(partitions_completed=3, partitions_total=8, working_on=("día=1",), phases=marks)
        service.stores.jobs.progress(claim, progress)
        found = service.get(f"/jobs/{claim.job_id}").json()
        assert found["progress"]["working_on"] == ["día=1"]
        planning, execution = found["phases"]
        assert (planning["phase"], planning["seconds"]) == ("planning", 2.0)
        assert planning["ended_at"] == execution["started_at"]
        assert (execution["ended_at"], execution["seconds"] >= 7) == (None, True)
        service.stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED))
        ended = service.get(f"/jobs/{claim.job_id}").json()
        assert ended["phases"][-1]["ended_at"] == ended["finished_at"]

    def test_job_without_reported_phases_has_none(self, service: Service) -> None:
        claim = self.claim(service)
        assert service.get(f"/jobs/{claim.job_id}").json()["phases"] == []
        service.stores.jobs.finish(claim, JobOutcome(state=JobState.CANCELLED))
        assert service.get(f"/jobs/{claim.job_id}").json()["phases"] == []

    def test_spans_are_among_the_events(self, service: Service) -> None:
        claim, now = self.claim(service), datetime.now(UTC)
        context = TraceContext(trace_id="1" * 32, span_id="2" * 16)
        span = Span(name="planning", context=context, parent_id=None, started_at=now, ended_at=now, failure="no way")
        service.stores.jobs.trace(claim, [span])
        event = service.get(f"/jobs/{claim.job_id}/events").json()["events"][-1]
        assert (event["kind"], event["details"]["name"], event["details"]["failure"]) == ("span", "planning", "no way")

    def test_plan_explains_the_selected_partitions(self, service: Service) -> None:
        job_id = service.submit()
        found = service.get(f"/jobs/{job_id}/plan").json()
        assert [group["partition"]["path"] for group in found["compaction"]["groups"]] == ["día=1"]
        (partition,) = found["partitions"]
        assert (partition["path"], partition["planned"]) == ("día=1", True)
        assert not found["looked_at_since"]
        other = service.stores.jobs.list_jobs(limit=10).jobs[-1]
        assert service.get(f"/jobs/{other.id}/plan").json()["compaction"] is None

    def test_plan_of_an_unknown_table_returns_404(self, service: Service) -> None:
        job_id = service.submit(TableId("lake", ("sales",), "dropped"))
        assert service.get(f"/jobs/{job_id}/plan").status_code == 404


class TestCancelAndRetry:
    def test_queued_job_is_cancelled_immediately(self, service: Service, audited: Any) -> None:
        job_id = service.submit()
        assert service.client.post(f"/api/v1/jobs/{job_id}/cancel").json()["status"] == "cancelled"
        assert audited() == [("api.jobs.cancel", "cancelled")]

    def test_finished_job_cannot_be_cancelled(self, service: Service, audited: Any) -> None:
        response = service.client.post(f"/api/v1/jobs/{service.finish_next()}/cancel")
        assert (response.status_code, response.json()["type"]) == (409, "urn:icepack:problem:job-state")
        assert audited() == []

    def test_finished_job_is_retried(self, service: Service, audited: Any) -> None:
        job_id = service.finish_next(JobState.FAILED)
        response = service.client.post(f"/api/v1/jobs/{job_id}/retry")
        assert response.status_code == 202
        assert str(service.stores.jobs.get(UUID(response.json()["job_id"])).retry_of) == str(job_id)
        assert [action for action, _ in audited()] == ["api.jobs.retry"]

    def test_queued_job_cannot_be_retried(self, service: Service) -> None:
        assert service.client.post(f"/api/v1/jobs/{service.submit()}/retry").status_code == 409


class TestValueProof:
    def test_job_details_contain_the_value_proof(self, service: Service) -> None:
        claim = service.stores.jobs.claim("worker", LEASE)
        assert claim is not None
        record = RunRecord(
            job_id=claim.job_id,
            table=claim.table,
            action=claim.job.action,
            state=RunState.SUCCEEDED,
            started_at=NOON,
            value_proof=VALUE_PROOF,
        )
        service.stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED, details=to_json(record)))
        details = service.get(f"/jobs/{claim.job_id}").json()["details"]
        assert details["value_proof"] == to_json(VALUE_PROOF)
