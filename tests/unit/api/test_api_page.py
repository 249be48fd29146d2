"""What the web page asks for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest

from contract.observed import cached
from contract.records import NOON, run, totals
from icepack.api.pagination import Sort
from icepack.domain.access import Role, Scope
from icepack.domain.job import Claim, JobOutcome, JobProgress, JobState, PhaseMark
from icepack.domain.observability.fleet_trend import fleet_lines
from icepack.domain.observability.trace import Phase, Span, TraceContext
from icepack.domain.ports.queue import AuditEvent, CachedTable
from icepack.domain.status import Ref, SnapshotEntry, SnapshotStatus
from icepack.domain.table import TableId

from .service import ITEMS, LEASE, LOG, ODD, ORDERS, SALES, TABLES, Service, serving

SORTS = get_args(Sort)


class TestOverview:
    def test_every_table_is_in_one_band(self, service: Service) -> None:
        found = service.get("/overview").json()["tables"]
        bands = found["by_score"]
        assert (bands[0]["min_score"], bands[-1]["max_score"]) == (0, 100)
        assert all(one["max_score"] + 1 == other["min_score"] for one, other in pairwise(bands))
        assert sum(band["tables"] for band in bands) == len(TABLES)
        for band in bands:
            query = {"min_score": band["min_score"], "max_score": band["max_score"]}
            assert service.get("/tables", params=query).json()["total"] == band["tables"]

    def test_every_namespace_is_named(self, service: Service) -> None:
        found = {(it["catalog"], it["namespace"]): it for it in service.get("/overview").json()["tables"]["namespaces"]}
        assert {place: it["tables"] for place, it in found.items()} == {
            ("lake", "ops"): 1,
            ("lake", "sales"): 2,
            ("other", '"a.b".c'): 1,
        }

    def test_jobs_that_ended_lately_are_counted(self, service: Service) -> None:
        service.end(JobState.FAILED)
        service.end()
        found = service.get("/overview").json()["jobs_last_day"]
        assert found == {"succeeded": 1, "failed": 1, "cancelled": 0}

    def test_the_trend_is_that_of_the_tables_that_may_be_seen(self, guarded: Service) -> None:
        today = datetime.now(UTC).date()
        history = guarded.stores.history
        history.save_day(today, fleet_lines({ORDERS: totals(1, 10), LOG: totals(1, 90)}))
        history.save_day(today - timedelta(days=40), fleet_lines({ORDERS: totals(1, 10)}))
        of_all = guarded.get("/overview", headers=guarded.key(Role.VIEWER)).json()["trend"]
        assert [(point["day"], point["data_files"]) for point in of_all] == [(today.isoformat(), 100)]
        mine = guarded.get("/overview", headers=guarded.key(Role.VIEWER, SALES)).json()["trend"]
        assert [point["data_files"] for point in mine] == [10]

    def test_what_maintenance_took_is_there(self, service: Service) -> None:
        found = service.get("/overview").json()["maintenance"]
        assert (found["runs"], found["realised_seconds"]) == (len(TABLES), 12.0)
        assert {"files_removed", "estimated_files_removed", "bytes_removed", "bytes_deleted"} <= set(found)


class TestTables:
    @pytest.mark.parametrize("sort", SORTS)
    def test_every_order_has_every_table_once_page_by_page(self, service: Service, sort: str) -> None:
        whole = [item["table_name"] for item in service.get("/tables", params={"sort": sort}).json()["tables"]]
        seen, cursor = [], ""
        while cursor is not None:
            query = {"limit": 1, "sort": sort} | ({"cursor": cursor} if cursor else {})
            page = service.get("/tables", params=query).json()
            seen += [table["table_name"] for table in page["tables"]]
            cursor = page["next_cursor"]
        assert seen == whole
        assert sorted(seen) == sorted(str(table) for table in TABLES)

    def test_orders_follow_what_they_are_called_after(self, service: Service) -> None:
        files = [
            item["totals"]["data_files"] for item in service.get("/tables", params={"sort": "-files"}).json()["tables"]
        ]
        assert files == [43, 42, 41, 40]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"namespace": "sales"}, {ORDERS, ITEMS}),
            ({"namespace": "*s*"}, {ORDERS, ITEMS, LOG}),
            ({"namespace": "s%"}, set()),
            ({"catalog": "lake", "search": "O"}, {ORDERS, LOG}),
            ({"issue": "small_files"}, set(TABLES)),
            ({"issue": ["small_files", "metadata_bloat"]}, set(TABLES)),
            ({"issue": "metadata_bloat"}, set()),
            ({"action": "compact"}, set(TABLES)),
            ({"action": "remove_orphan_files", "catalog": "nowhere"}, set()),
            ({"severity": "healthy"}, set()),
            ({"min_score": 100}, set()),
            ({"max_score": 99, "catalog": "other"}, {ODD}),
        ],
    )
    def test_filters_narrow_one_another(self, service: Service, query: dict[str, Any], expected: set[TableId]) -> None:
        for _ in range(2):
            page = service.get("/tables", params=query).json()
            assert {item["table_name"] for item in page["tables"]} == {str(table) for table in expected}
            assert page["total"] == len(expected)

    def test_a_row_tells_what_works_on_it(self, service: Service) -> None:
        claim = service.stores.jobs.claim("worker", LEASE)
        assert claim is not None
        rows = {item["table_name"]: item for item in service.get("/tables").json()["tables"]}
        assert rows[str(claim.table)]["running"]["job_id"] == str(claim.job_id)
        assert [name for name, row in rows.items() if "running" in row] == [str(claim.table)]
        assert all(row["last_commit_at"] for row in rows.values())

    @pytest.mark.parametrize("cursor", ["x", "W10=", "WzEsIDJd", "WyJhIiwgMV0=", "WzFlOTk5LCAiYS5iLmMiXQ=="])
    def test_a_cursor_from_elsewhere_is_refused(self, service: Service, cursor: str) -> None:
        assert service.get("/tables", params={"cursor": cursor}).status_code == 422


def write_table(service: Service, found: CachedTable) -> None:
    cache = service.stores.cache
    generation = cache.begin("tests", LEASE)
    cache.write(generation, [found])
    cache.swap(generation)
    service.app.directory._looked_at = -10.0


class TestTable:
    def test_the_score_is_explained_to_the_point(self, service: Service) -> None:
        found = service.get("/tables/orders").json()
        missing = sum(reason["points"] for reason in found["reasons"])
        assert round(100 - missing) == found["health"]["score"]
        assert [reason["code"] for reason in found["reasons"]] == [it["code"] for it in found["health"]["issues"]]
        assert all(reason["points"] <= reason["most_points"] for reason in found["reasons"])
        gains = {gain["action"]: gain for gain in found["gains"]}
        assert set(gains) == {item["action"]["kind"] for item in found["recommendation"]["actions"]}
        assert found["expected_score"] == round(found["health"]["score"] + sum(it["points"] for it in gains.values()))
        assert gains["compact"]["cost"]["duration_seconds"] > 0
        assert found["policy"]["target_file_size"] == 1

    def test_a_property_that_none_understands_leaves_the_rest_to_be_seen(self, service: Service) -> None:
        seen = cached(ORDERS)
        strange = replace(seen, status=replace(seen.status, properties={"icepack.target-file-size": "huge"}))
        write_table(service, strange)
        answer = service.get("/tables/orders")
        assert answer.status_code == 200
        assert answer.json()["policy"] is None

    def test_snapshots_say_who_made_them_and_what_points_at_them(self, service: Service) -> None:
        job_id = service.end()
        service.stores.history.save(run(ORDERS, job_id=job_id))
        by_hand = run(ORDERS)
        service.stores.history.save(by_hand)
        seen = cached(ORDERS)
        made = (str(job_id), str(by_hand.job_id), None, "no id")
        entries = tuple(
            SnapshotEntry(
                snapshot_id=number, parent_id=number - 1 or None, committed_at=NOON, operation="replace", job_id=by
            )
            for number, by in enumerate(made, start=1)
        )
        refs = (Ref(name="main", kind="branch", snapshot_id=4), Ref(name="release", kind="tag", snapshot_id=2))
        snapshots = SnapshotStatus(count=4, refs=refs, entries=entries)
        write_table(service, replace(seen, status=replace(seen.status, snapshot_id=4, snapshots=snapshots)))
        found = service.get("/tables/orders/snapshots").json()["snapshots"]
        assert [(it["job_id"], it["action"], it["has_job"]) for it in found["entries"]] == [
            (str(job_id), "compact", True),
            (str(by_hand.job_id), "compact", False),
            (None, None, False),
            ("no id", None, False),
        ]
        assert [it["refs"] for it in found["entries"]] == [[], ["release"], [], ["main"]]
        assert [it["current"] for it in found["entries"]] == [False, False, False, True]
        assert (found["entries"][1]["id"], found["entries"][1]["parent"]) == ("2", "1")

    def test_every_partition_says_why_it_is_taken_or_left(self, service: Service) -> None:
        (taken,) = service.get("/tables/orders/partitions").json()["partitions"]
        assert taken["planned"]
        assert taken["reason"].startswith("40 of its 40 files become")
        assert sum(taken["parts"].values()) == pytest.approx(taken["score"])


SALES_OFF = {"overrides": [{"match": "lake.sales.*", "settings": {"enabled": False}}]}


class TestPolicyPreview:
    def test_it_says_what_would_change_and_saves_nothing(self, service: Service) -> None:
        found = service.post("/policies/preview", SALES_OFF).json()
        assert (found["tables"], found["recommendations"]) == (2, 2)
        assert {change["table_name"] for change in found["changes"]} == {str(ORDERS), str(ITEMS)}
        for change in found["changes"]:
            assert change["settings"] == {"enabled": {"before": True, "after": False}}
            assert change["actions_after"] == []
            assert "compact" in change["actions_before"]
            assert not change["estimated"]
        assert service.get("/policies").json()["version"] == 0
        assert service.get("/tables/orders").json()["policy"]["enabled"]

    def test_what_is_set_already_changes_nothing(self, service: Service) -> None:
        service.put("/policies", SALES_OFF)
        assert service.post("/policies/preview", SALES_OFF).json() == {"tables": 0, "recommendations": 0, "changes": []}
        without = service.post("/policies/preview", {"overrides": []}).json()
        assert [change["settings"]["enabled"]["after"] for change in without["changes"]] == [True, True]

    def test_a_table_that_settles_it_itself_does_not_change(self, service: Service) -> None:
        """Each of them has a target file size of its own."""
        asked = {"overrides": [{"match": "*", "settings": {"target_file_size": "256MB"}}]}
        assert service.post("/policies/preview", asked).json()["tables"] == 0
        lens = {"overrides": [{"match": "*", "settings": {"small_file_threshold": "1MB"}}]}
        found = service.post("/policies/preview", lens, params={"limit": 1}).json()
        assert (found["tables"], len(found["changes"])) == (4, 1)
        assert found["changes"][0]["estimated"]
        assert found["changes"][0]["settings"] == {"small_file_threshold": {"before": "32MB", "after": "1MB"}}

    def test_the_order_of_rules_counts(self, service: Service) -> None:
        rules = [{"match": "sales.*", "settings": {"min_input_files": number}} for number in (7, 9)]
        service.put("/policies", {"overrides": rules})
        found = service.post("/policies/preview", {"overrides": rules[::-1]}).json()
        assert {change["settings"]["min_input_files"]["after"] for change in found["changes"]} == {7}

    def test_others_tables_are_not_told_of(self, guarded: Service) -> None:
        everything = {"overrides": [{"match": "*", "settings": {"enabled": False}}]}
        found = guarded.post("/policies/preview", everything, headers=guarded.key(Role.ADMIN, SALES)).json()
        assert {change["table_name"] for change in found["changes"]} == {str(ORDERS), str(ITEMS)}

    @pytest.mark.parametrize(
        ("override", "fields"),
        [
            ({"match": "x", "settings": {"target_file_size": "huge"}}, ["overrides.1.settings.target_file_size"]),
            ({"match": "x", "settings": {"nonsense": 1}}, ["overrides.1.settings.nonsense"]),
            (
                {"match": "x", "settings": {"min_input_files": 0, "windows": "never"}},
                ["overrides.1.settings.min_input_files", "overrides.1.settings.windows"],
            ),
            ({"match": "a..b", "settings": {"enabled": True}}, ["overrides.1.match"]),
            ({"match": "x", "settings": {"match": "y"}}, ["overrides.1.settings.match"]),
            ({"match": "x", "settings": {}}, ["overrides.1.settings"]),
        ],
    )
    @pytest.mark.parametrize("method", ["post", "put"])
    def test_a_mistake_names_its_field(
        self, service: Service, method: str, override: dict[str, Any], fields: list[str]
    ) -> None:
        body = {"overrides": [*SALES_OFF["overrides"], override]}
        path = "/policies/preview" if method == "post" else "/policies"
        answer = getattr(service, method)(path, body)
        assert answer.status_code == 422
        assert answer.json()["field"] == fields[0]
        assert [mistake["field"] for mistake in answer.json()["errors"]] == fields


class TestSchedulePreview:
    def test_it_says_what_would_run_and_saves_nothing(self, service: Service) -> None:
        asked = {"overrides": [{"match": "lake.sales.orders", "schedule": "30 2 * * *"}]}
        found = service.post("/schedules/preview", asked).json()
        (change,) = found["changes"]
        assert (change["schedule_before"], change["schedule_after"]) == ("0 */6 * * *", "30 2 * * *")
        assert (change["runs_before"], change["runs_after"], found["total"]) == (28, 7, 7)
        assert [run["tick"][11:16] for run in found["runs"]] == ["02:30"] * 7
        assert found["runs"][0]["due_at"] == change["next_after"]
        assert service.get("/schedules").json()["version"] == 0

    def test_a_mistake_names_its_field(self, service: Service) -> None:
        override = {"match": "x", "schedule": "daily", "options": {"min_input_files": "many"}}
        answer = service.post("/schedules/preview", {"overrides": [override]})
        assert answer.status_code == 422
        fields = {mistake["field"] for mistake in answer.json()["errors"]}
        assert fields == {"overrides.0.schedule", "overrides.0.options.min_input_files"}

    def test_the_calendar_counts_every_run(self, service: Service) -> None:
        found = service.get("/schedule/upcoming", params={"hours": 168, "limit": 1}).json()
        assert sum(hour["runs"] for hour in found["by_hour"]) == found["total"] == 28 * len(TABLES)
        assert {hour["runs"] for hour in found["by_hour"]} == {len(TABLES)}


class TestSettings:
    def test_nobody_is_shown_a_secret(self, tmp_path: Path) -> None:
        secret = "hunter2-hunter2"
        lake = {
            "type": "sql",
            "uri": f"postgresql://me:{secret}@db/cat",
            "s3.secret-access-key": secret,
            "token": secret,
        }
        with serving(tmp_path, catalogs={"lake": lake}) as service:
            answer = service.get("/settings")
            assert answer.status_code == 200
            assert secret not in answer.text
            (shown,) = answer.json()["catalogs"]
            assert (shown["name"], shown["type"], shown["uri"]) == ("lake", "sql", "postgresql://me:***@db/cat")
            assert set(shown) == {"name", "type", "uri", "warehouse"}

    def test_versions_and_quick_checks_are_there_at_once(self, service: Service) -> None:
        found = service.get("/settings").json()
        assert {"icepack", "python", "spark", "iceberg"} <= set(found["versions"])
        assert all(found["versions"].values())
        quick = dict.fromkeys(("python", "state", "native rewrite"), True)
        assert {check["name"]: check["ok"] for check in found["checkup"]["checks"]} == quick
        assert found["state"]["kind"] == "sqlite"

    def test_the_slow_checks_run_behind_ones_back(self, service: Service) -> None:
        assert service.post("/settings/checks").status_code == 202
        service.client.app.state.parts.checkup._busy.acquire(timeout=60)  # type: ignore[attr-defined]
        service.client.app.state.parts.checkup._busy.release()  # type: ignore[attr-defined]
        found = service.get("/settings").json()["checkup"]
        assert not found["running"]
        assert {"java", "jars"} <= {check["name"] for check in found["checks"]}
        (entry,) = service.stores.audit.entries(action="api.settings.check")
        assert entry.outcome == "started"

    def test_who_is_no_admin_everywhere_sees_less(self, guarded: Service) -> None:
        for headers in (guarded.key(Role.VIEWER), guarded.key(Role.ADMIN, SALES)):
            found = guarded.get("/settings", headers=headers).json()
            assert (found["state"], found["checkup"]) == (None, None)
        elsewhere = guarded.key(Role.VIEWER, (Scope("nowhere", "*"),))
        assert guarded.get("/settings", headers=elsewhere).json()["catalogs"] == []

    def test_budgets_tell_what_is_spent(self, tmp_path: Path) -> None:
        rules = [{"match": "lake.sales.*", "daily_budget": 5, "daily_compute": "1h"}]
        with serving(tmp_path, policies=rules) as service:
            found = {item["resource"]: item for item in service.get("/settings").json()["budgets"]}
        assert {name: (item["layer"], item["limit"]) for name, item in found.items()} == {
            "daily_budget": ("lake.sales.*", 5.0),
            "daily_compute": ("lake.sales.*", 3600.0),
        }
        assert found["daily_compute"]["spent"] > 0


class TestKeys:
    def test_a_key_is_shown_once_and_works_until_it_is_revoked(self, guarded: Service) -> None:
        admin = guarded.key(Role.ADMIN, name="root")
        asked = {"name": "ci", "role": "operator", "scopes": ["lake.sales*"], "expires_in": "90d"}
        made = guarded.post("/keys", asked, headers=admin)
        assert made.status_code == 201
        assert made.headers["cache-control"] == "no-store"
        key = made.json()
        mine = {"Authorization": f"Bearer {key['key']}"}
        assert guarded.get("/tables", headers=mine).json()["total"] == 2
        listed = guarded.get("/keys", headers=admin)
        assert key["key"] not in listed.text
        assert {item["name"]: item["state"] for item in listed.json()["keys"]} == {"root": "valid", "ci": "valid"}
        gone = guarded.client.delete(f"/api/v1/keys/{key['id']}", headers=admin)
        assert (gone.status_code, gone.json()["state"]) == (200, "revoked")
        assert guarded.get("/tables", headers=mine).status_code == 401
        deeds = [(e.action, e.subject, e.actor) for e in guarded.stores.audit.entries() if ".keys." in e.action]
        assert deeds == [("api.keys.revoke", "ci", "key:root"), ("api.keys.create", "ci", "key:root")]

    def test_what_is_wrong_is_said(self, service: Service) -> None:
        assert service.post("/keys", {"name": "twice"}).status_code == 201
        again = service.post("/keys", {"name": "twice"})
        assert (again.status_code, again.json()["type"]) == (409, "urn:icepack:problem:key-exists")
        assert service.client.delete("/api/v1/keys/nothing").status_code == 404
        assert service.client.delete("/api/v1/keys/twice").status_code == 404
        for wrong, field in (({"scopes": ["a b"]}, "scopes.0"), ({"expires_in": "soon"}, "expires_in")):
            answer = service.post("/keys", {"name": "x", **wrong})
            assert (answer.status_code, answer.json()["field"]) == (422, field)
        assert [key.name for key in service.stores.keys.list_keys()] == ["twice"]

    def test_an_admin_of_some_tables_makes_no_keys(self, guarded: Service) -> None:
        headers = guarded.key(Role.ADMIN, SALES)
        assert guarded.post("/keys", {"name": "mine"}, headers=headers).status_code == 403
        assert guarded.get("/keys", headers=headers).status_code == 403


class TestJob:
    def running(self, service: Service) -> Claim:
        claim = service.stores.jobs.claim("worker", LEASE)
        assert claim is not None
        return claim

    def test_its_phases_and_what_is_worked_on_are_told_while_it_runs(self, service: Service) -> None:
        claim, began = self.running(service), datetime.now(UTC)
        marks = (
            PhaseMark(phase=Phase.PLANNING, started_at=began - timedelta(seconds=9)),
            PhaseMark(phase=Phase.EXECUTION, started_at=began - timedelta(seconds=7)),
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

    def test_one_that_told_of_no_phase_has_none(self, service: Service) -> None:
        claim = self.running(service)
        assert service.get(f"/jobs/{claim.job_id}").json()["phases"] == []
        service.stores.jobs.finish(claim, JobOutcome(state=JobState.CANCELLED))
        assert service.get(f"/jobs/{claim.job_id}").json()["phases"] == []

    def test_spans_are_in_its_story(self, service: Service) -> None:
        claim, now = self.running(service), datetime.now(UTC)
        context = TraceContext(trace_id="1" * 32, span_id="2" * 16)
        span = Span(name="planning", context=context, parent_id=None, started_at=now, ended_at=now, failure="no way")
        service.stores.jobs.trace(claim, [span])
        told = service.get(f"/jobs/{claim.job_id}/events").json()["events"][-1]
        assert (told["kind"], told["details"]["name"], told["details"]["failure"]) == ("span", "planning", "no way")

    def test_its_plan_says_why_these_and_not_the_others(self, service: Service) -> None:
        job_id = service.submit()
        found = service.get(f"/jobs/{job_id}/plan").json()
        assert [group["partition"]["path"] for group in found["compaction"]["groups"]] == ["día=1"]
        (partition,) = found["partitions"]
        assert (partition["path"], partition["planned"]) == ("día=1", True)
        assert not found["looked_at_since"]
        other = service.stores.jobs.list_jobs(limit=10).jobs[-1]
        assert service.get(f"/jobs/{other.id}/plan").json()["compaction"] is None

    def test_the_plan_of_an_unknown_table_is_a_problem(self, service: Service) -> None:
        job_id = service.submit(TableId("lake", ("sales",), "dropped"))
        assert service.get(f"/jobs/{job_id}/plan").status_code == 404


class TestAudit:
    def test_the_page_of_an_admin_of_some_tables_is_full_too(self, guarded: Service) -> None:
        for number in range(40):
            table = ORDERS if number % 10 == 0 else LOG
            event = AuditEvent(at=NOON, actor="ann", action="api.x", details={"table": str(table)})
            guarded.stores.audit.record(event)
        mine = guarded.key(Role.ADMIN, SALES)
        page = guarded.get("/audit", params={"limit": 3}, headers=mine).json()
        rest = guarded.get("/audit", params={"limit": 3, "before": page["next_before"]}, headers=mine).json()
        assert (len(page["entries"]), len(rest["entries"]), rest["next_before"]) == (3, 1, None)
        assert {entry["details"]["table"] for entry in page["entries"]} == {str(ORDERS)}
