"""Callers only see and change the tables in their scopes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from api.service import LOG, ODD, ORDERS, SALES, Service
from icepack.api.app import BASE_PATH
from icepack.domain.access import Role, Scope


class TestScopes:
    @pytest.fixture
    def headers(self, secured: Service) -> dict[str, str]:
        return secured.key(Role.ADMIN, SALES, name="sales")

    def test_lists_contain_visible_tables_only(self, secured: Service, headers: dict[str, str]) -> None:
        own = {"lake.sales.orders", "lake.sales.items"}
        tables = secured.get("/tables", headers=headers).json()
        assert {table["table_name"] for table in tables["tables"]} == own
        assert tables["total"] == 2
        assert {job["table_name"] for job in secured.get("/jobs", headers=headers).json()["jobs"]} == own
        overview = secured.get("/overview", headers=headers).json()
        assert (overview["tables"]["count"], overview["jobs"]["queued"]) == (2, 2)
        assert set(secured.get("/cost", headers=headers).json()["by_table"]) == own
        upcoming = secured.get("/schedule/upcoming", headers=headers).json()
        assert {run["table"] for run in upcoming["runs"]} == own

    @pytest.mark.parametrize("rest", ["", "/plan", "/history", "/snapshots", "/files/histogram", "/partitions"])
    def test_invisible_tables_return_404(self, secured: Service, headers: dict[str, str], rest: str) -> None:
        other = secured.get(f"/tables/{LOG}{rest}", headers=headers)
        missing = secured.get(f"/tables/lake.ops.missing{rest}", headers=headers)
        assert (other.status_code, missing.status_code) == (404, 404)
        assert other.json()["detail"].replace("log", "missing") == missing.json()["detail"]

    def test_jobs_of_invisible_tables_return_404(self, secured: Service, headers: dict[str, str]) -> None:
        job_id = secured.submit(LOG)
        assert secured.get(f"/jobs/{job_id}", headers=headers).status_code == 404
        assert secured.get(f"/jobs/{job_id}/events", headers=headers).status_code == 404
        assert secured.client.post(f"{BASE_PATH}/jobs/{job_id}/cancel", headers=headers).status_code == 404
        assert secured.stores.jobs.get(job_id).state == "queued"

    def test_invisible_tables_cannot_be_changed(self, secured: Service, headers: dict[str, str]) -> None:
        before = secured.stores.jobs.counts()
        assert secured.post("/compact", {"table": str(LOG)}, headers=headers).status_code == 404
        assert secured.post("/maintain", {"tables": ["lake.ops.*"]}, headers=headers).status_code == 404
        everything = secured.post("/maintain", {"tables": ["*"], "dry_run": True}, headers=headers).json()
        assert {item["table_name"] for item in everything["recommended"]} <= {"lake.sales.orders", "lake.sales.items"}
        assert secured.stores.jobs.counts() == before

    def test_locks_and_audit_cover_visible_tables_only(self, secured: Service, headers: dict[str, str]) -> None:
        for table in (ORDERS, LOG):
            secured.stores.locks.acquire(table, "me", timedelta(minutes=1))
        assert [lock["table_name"] for lock in secured.get("/locks", headers=headers).json()["locks"]] == [str(ORDERS)]
        everywhere = secured.key(Role.ADMIN, name="all")
        for table in ("lake.sales.orders", str(LOG)):
            secured.post("/compact", {"table": table}, headers=everywhere)
        seen = secured.get("/audit", headers=headers).json()["entries"]
        assert [entry["details"]["table"] for entry in seen] == ["lake.sales.orders"]
        assert len(secured.get("/audit", headers=everywhere).json()["entries"]) == 2

    def test_fleet_wide_operations_require_every_catalog(self, secured: Service, headers: dict[str, str]) -> None:
        assert secured.put("/policies", {"overrides": []}, headers=headers).status_code == 403
        assert secured.put("/schedules", {"overrides": []}, headers=headers).status_code == 403
        assert secured.get("/metrics", headers=headers).status_code == 403

    def test_rules_about_invisible_tables_are_omitted(self, secured: Service, headers: dict[str, str]) -> None:
        overrides = [{"match": match, "settings": {"enabled": True}} for match in ("lake.ops.*", "lake.sales.*")]
        everywhere = secured.key(Role.ADMIN)
        assert secured.put("/policies", {"overrides": overrides}, headers=everywhere).status_code == 200
        shown = secured.get("/policies", headers=headers).json()["overrides"]
        assert [line["match"] for line in shown] == ["lake.sales.*"]

    def test_bypassing_a_safety_check_requires_an_admin(self, secured: Service) -> None:
        body = {"options": {"override_age_floor": True}}
        path = "/tables/orders/actions/remove_orphan_files"
        assert secured.post(path, body, headers=secured.key(Role.OPERATOR)).status_code == 403
        assert secured.post(path, body, headers=secured.key(Role.ADMIN)).status_code == 202

    def test_idempotency_keys_are_separate_for_each_caller(self, secured: Service) -> None:
        ids = set()
        for name in ("ann", "bob"):
            headers = {**secured.key(Role.OPERATOR, name=name), "Idempotency-Key": "k"}
            table = {"ann": "orders", "bob": "items"}[name]
            ids.add(secured.post("/compact", {"table": table}, headers=headers).json()["job_id"])
        assert len(ids) == 2

    def test_denied_change_is_audited(self, secured: Service) -> None:
        secured.post("/compact", {"table": "orders"}, headers=secured.key(Role.VIEWER, name="eve"))
        (entry,) = secured.stores.audit.entries()
        assert (entry.actor, entry.action, entry.outcome) == ("key:eve", "api.denied", "needs operator")


@pytest.mark.parametrize(
    ("text", "covered"),
    [("lake.sales", True), ("lake", True), ("*", True), ("lake.sal??", True), ("lake.ops", False), ("la", False)],
)
def test_scopes_are_globs(text: str, covered: bool) -> None:
    assert Scope.parse(text).covers(ORDERS) is covered


def test_glob_matches_within_one_part() -> None:
    assert not Scope.parse("l.*").covers(ORDERS)
    assert not Scope("lake", "[s]ales").covers(ORDERS)
    assert Scope.parse('other."a.b".c').covers(ODD)
    assert not Scope.parse("other.a*").covers(ODD)
