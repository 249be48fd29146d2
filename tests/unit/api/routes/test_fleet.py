"""Routes of the whole fleet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from api.service import ITEMS, LOG, ORDERS, SALES, TABLES, Service
from contract.sample_runs import NOON, totals
from icepack.domain.access import Role
from icepack.domain.job import JobState
from icepack.domain.observability.fleet_trend import sum_by_namespace
from icepack.domain.ports.audit import AuditEvent


class TestFleet:
    def test_overview_adds_up(self, service: Service) -> None:
        found = service.get("/overview").json()
        assert found["tables"]["count"] == len(TABLES)
        assert found["tables"]["data_files"] == 40 + 41 + 42 + 43
        assert found["jobs"] == {"queued": 4, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
        assert found["cache"]["generation"] == 1
        assert len(found["sickest"]) == len(TABLES)

    def test_costs_have_estimated_and_realised_values(self, service: Service) -> None:
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


class TestOverview:
    def test_every_table_is_in_one_score_band(self, service: Service) -> None:
        found = service.get("/overview").json()["tables"]
        bands = found["by_score"]
        assert (bands[0]["min_score"], bands[-1]["max_score"]) == (0, 100)
        assert all(one["max_score"] + 1 == other["min_score"] for one, other in pairwise(bands))
        assert sum(band["tables"] for band in bands) == len(TABLES)
        for band in bands:
            query = {"min_score": band["min_score"], "max_score": band["max_score"]}
            assert service.get("/tables", params=query).json()["total"] == band["tables"]

    def test_every_namespace_is_listed(self, service: Service) -> None:
        found = {(it["catalog"], it["namespace"]): it for it in service.get("/overview").json()["tables"]["namespaces"]}
        assert {place: it["tables"] for place, it in found.items()} == {
            ("lake", "ops"): 1,
            ("lake", "sales"): 2,
            ("other", '"a.b".c'): 1,
        }

    def test_jobs_of_the_last_day_are_counted(self, service: Service) -> None:
        service.finish_next(JobState.FAILED)
        service.finish_next()
        found = service.get("/overview").json()["jobs_last_day"]
        assert found == {"succeeded": 1, "failed": 1, "cancelled": 0}

    def test_trend_covers_visible_tables_only(self, secured: Service) -> None:
        today = datetime.now(UTC).date()
        history = secured.stores.history
        history.save_day(today, sum_by_namespace({ORDERS: totals(1, 10), LOG: totals(1, 90)}))
        history.save_day(today - timedelta(days=40), sum_by_namespace({ORDERS: totals(1, 10)}))
        of_all = secured.get("/overview", headers=secured.key(Role.VIEWER)).json()["trend"]
        assert [(point["day"], point["data_files"]) for point in of_all] == [(today.isoformat(), 100)]
        mine = secured.get("/overview", headers=secured.key(Role.VIEWER, SALES)).json()["trend"]
        assert [point["data_files"] for point in mine] == [10]

    def test_overview_has_the_cost_of_maintenance(self, service: Service) -> None:
        found = service.get("/overview").json()["maintenance"]
        assert (found["runs"], found["realised_seconds"]) == (len(TABLES), 12.0)
        assert {"files_removed", "estimated_files_removed", "bytes_removed", "bytes_deleted"} <= set(found)


class TestAudit:
    def test_pages_are_filled_for_an_admin_of_some_tables(self, secured: Service) -> None:
        for number in range(40):
            table = ORDERS if number % 10 == 0 else LOG
            event = AuditEvent(at=NOON, actor="ann", action="api.x", details={"table": str(table)})
            secured.stores.audit.record(event)
        mine = secured.key(Role.ADMIN, SALES)
        page = secured.get("/audit", params={"limit": 3}, headers=mine).json()
        rest = secured.get("/audit", params={"limit": 3, "before": page["next_before"]}, headers=mine).json()
        assert (len(page["entries"]), len(rest["entries"]), rest["next_before"]) == (3, 1, None)
        assert {entry["details"]["table"] for entry in page["entries"]} == {str(ORDERS)}
