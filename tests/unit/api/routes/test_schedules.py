"""Routes of schedules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api.service import TABLES, Service, serve


class TestSchedules:
    @pytest.fixture
    def configured(self, tmp_path: Path) -> Iterator[Service]:
        tables = [{"name": "sales.orders", "schedule": "0 2 * * *", "strategy": "small_files"}]
        policies = [{"match": "ops.*", "target_file_size": "64MB"}]
        with serve(tmp_path, tables=tables, policies=policies) as found:
            yield found

    def test_schedules_are_replaced_and_applied(self, configured: Service) -> None:
        assert configured.get("/schedules").json()["configured"] == [
            {"match": "sales.orders", "schedule": "0 2 * * *", "options": {"strategy": "small_files"}}
        ]
        override = {"match": "ops.log", "schedule": "*/30 * * * *", "options": {}}
        assert configured.put("/schedules", {"overrides": [override]}).json()["overrides"] == [override]
        runs = configured.get("/schedule/upcoming", params={"table": "ops.log"}).json()
        assert (runs["total"], runs["runs"][0]["schedule"]) == (48, "*/30 * * * *")

    def test_invalid_cron_expression_is_rejected(self, configured: Service) -> None:
        response = configured.put("/schedules", {"overrides": [{"match": "x", "schedule": "daily"}]})
        assert response.status_code == 422
        assert "cron expression" in response.json()["detail"]


class TestSchedulePreview:
    def test_preview_lists_runs_and_saves_nothing(self, service: Service) -> None:
        body = {"overrides": [{"match": "lake.sales.orders", "schedule": "30 2 * * *"}]}
        found = service.post("/schedules/preview", body).json()
        (change,) = found["changes"]
        assert (change["schedule_before"], change["schedule_after"]) == ("0 */6 * * *", "30 2 * * *")
        assert (change["runs_before"], change["runs_after"], found["total"]) == (28, 7, 7)
        assert [run["tick"][11:16] for run in found["runs"]] == ["02:30"] * 7
        assert found["runs"][0]["due_at"] == change["next_after"]
        assert service.get("/schedules").json()["version"] == 0

    def test_error_names_its_field(self, service: Service) -> None:
        override = {"match": "x", "schedule": "daily", "options": {"min_input_files": "many"}}
        response = service.post("/schedules/preview", {"overrides": [override]})
        assert response.status_code == 422
        fields = {error["field"] for error in response.json()["errors"]}
        assert fields == {"overrides.0.schedule", "overrides.0.options.min_input_files"}


class TestUpcoming:
    def test_upcoming_runs(self, service: Service) -> None:
        found = service.get("/schedule/upcoming", params={"hours": 24}).json()
        assert found["total"] == 4 * len(TABLES)
        assert {run["schedule"] for run in found["runs"]} == {"0 */6 * * *"}
        assert service.get("/schedule/upcoming", params={"table": "orders", "limit": 1}).json()["total"] == 4

    def test_hours_count_every_run(self, service: Service) -> None:
        found = service.get("/schedule/upcoming", params={"hours": 168, "limit": 1}).json()
        assert sum(hour["runs"] for hour in found["by_hour"]) == found["total"] == 28 * len(TABLES)
        assert {hour["runs"] for hour in found["by_hour"]} == {len(TABLES)}
