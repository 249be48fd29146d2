"""Routes of tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args
from urllib.parse import quote
from uuid import uuid4

import pytest

from api.service import ITEMS, LEASE, LOG, ODD, ORDERS, TABLES, Service
from contract.sample_runs import NOON, VALUE_PROOF, run
from contract.sample_tables import cached
from icepack.api.pagination import Sort
from icepack.api.schemas.tables import HistoryView, TableView
from icepack.domain.actions import Compact
from icepack.domain.ports.table_cache import CachedTable
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import to_json
from icepack.domain.status import Ref, SnapshotEntry, SnapshotStatus
from icepack.domain.table import TableId

SORTS = get_args(Sort)


class TestListAndGet:
    def test_pages_start_with_the_lowest_scores(self, service: Service) -> None:
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
    def test_every_sort_order_lists_every_table_once(self, service: Service, sort: str) -> None:
        seen, cursor = [], ""
        while cursor is not None:
            query = {"limit": 1, "sort": sort} | ({"cursor": cursor} if cursor else {})
            page = service.get("/tables", params=query).json()
            seen += [table["table_name"] for table in page["tables"]]
            cursor = page["next_cursor"]
        assert sorted(seen) == sorted(str(table) for table in TABLES)

    def test_search_matches_parts_of_names(self, service: Service) -> None:
        found = service.get("/tables", params={"search": "NÄME"}).json()["tables"]
        assert [table["table_name"] for table in found] == [str(ODD)]
        assert service.get("/tables", params={"catalog": "lake"}).json()["total"] == 3

    @pytest.mark.parametrize("name", ["lake.sales.orders", "sales.orders", "orders"])
    def test_table_is_found_by_any_unambiguous_name(self, service: Service, name: str) -> None:
        response = service.get(f"/tables/{name}").json()
        assert response["table_name"] == str(ORDERS)
        assert response["health"] == to_json(cached(ORDERS, 40).health)
        assert (response["status"]["partitions"], response["status"]["snapshots"]["entries"]) == ([], [])
        TableView.model_validate(response)

    @pytest.mark.parametrize("rest", ["", "/plan", "/history", "/snapshots", "/files/histogram", "/partitions"])
    def test_quoted_names_work_in_every_route(self, service: Service, rest: str) -> None:
        response = service.get(f"/tables/{quote(str(ODD), safe='')}{rest}")
        assert response.status_code == 200, response.text
        assert response.json()["table_name"] == str(ODD)

    def test_plan_is_estimated_by_partition(self, service: Service) -> None:
        plan = service.get("/tables/orders/plan").json()["compaction"]
        assert plan["estimated"] is True
        assert [group["partition"]["path"] for group in plan["groups"]] == ["día=1"]
        assert plan["cost"]["dollars"] > 0

    def test_partitions_are_paginated(self, service: Service) -> None:
        page = service.get("/tables/orders/partitions", params={"limit": 1}).json()
        assert (page["total"], page["next_offset"]) == (1, None)
        assert 0 < page["partitions"][0]["score"] <= 1
        assert service.get("/tables/orders/partitions", params={"offset": 5}).json()["partitions"] == []

    def test_history_has_runs_and_points(self, service: Service) -> None:
        found = service.get("/tables/orders/history").json()
        assert [run["state"] for run in found["runs"]] == ["succeeded"]
        assert found["points"][0]["totals"]["data_files"] == 40

    def test_new_cache_generation_becomes_visible(self, service: Service) -> None:
        cache = service.stores.cache
        generation = cache.begin("tests", LEASE)
        cache.remove(generation, [LOG])
        cache.swap(generation)
        service.app.table_index._current._entries.clear()
        assert service.get("/tables").json()["total"] == len(TABLES) - 1
        assert service.get(f"/tables/{LOG}").status_code == 404


class TestSortAndFilter:
    @pytest.mark.parametrize("sort", SORTS)
    def test_pages_of_every_sort_order_match_the_whole_list(self, service: Service, sort: str) -> None:
        whole = [item["table_name"] for item in service.get("/tables", params={"sort": sort}).json()["tables"]]
        seen, cursor = [], ""
        while cursor is not None:
            query = {"limit": 1, "sort": sort} | ({"cursor": cursor} if cursor else {})
            page = service.get("/tables", params=query).json()
            seen += [table["table_name"] for table in page["tables"]]
            cursor = page["next_cursor"]
        assert seen == whole
        assert sorted(seen) == sorted(str(table) for table in TABLES)

    def test_sorting_by_files_follows_the_file_count(self, service: Service) -> None:
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
    def test_filters_are_combined(self, service: Service, query: dict[str, Any], expected: set[TableId]) -> None:
        for _ in range(2):
            page = service.get("/tables", params=query).json()
            assert {item["table_name"] for item in page["tables"]} == {str(table) for table in expected}
            assert page["total"] == len(expected)

    def test_row_contains_the_running_job(self, service: Service) -> None:
        claim = service.stores.jobs.claim("worker", LEASE)
        assert claim is not None
        rows = {item["table_name"]: item for item in service.get("/tables").json()["tables"]}
        assert rows[str(claim.table)]["running"]["job_id"] == str(claim.job_id)
        assert [name for name, row in rows.items() if "running" in row] == [str(claim.table)]
        assert all(row["last_commit_at"] for row in rows.values())

    @pytest.mark.parametrize("cursor", ["x", "W10=", "WzEsIDJd", "WyJhIiwgMV0=", "WzFlOTk5LCAiYS5iLmMiXQ=="])
    def test_invalid_cursor_is_rejected_with_422(self, service: Service, cursor: str) -> None:
        response = service.get("/tables", params={"cursor": cursor})
        assert (response.status_code, response.json()["field"]) == (422, "cursor")


def write_table(service: Service, found: CachedTable) -> None:
    cache = service.stores.cache
    generation = cache.begin("tests", LEASE)
    cache.write(generation, [found])
    cache.swap(generation)
    service.app.table_index._current._entries.clear()


class TestTableDetails:
    def test_deductions_and_gains_add_up_to_the_score(self, service: Service) -> None:
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

    def test_invalid_table_property_only_hides_the_policy(self, service: Service) -> None:
        seen = cached(ORDERS)
        strange = replace(seen, status=replace(seen.status, properties={"icepack.target-file-size": "huge"}))
        write_table(service, strange)
        response = service.get("/tables/orders")
        assert response.status_code == 200
        assert response.json()["policy"] is None

    def test_snapshots_have_their_run_and_their_refs(self, service: Service) -> None:
        job_id = service.finish_next()
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

    def test_every_partition_explains_whether_it_is_selected(self, service: Service) -> None:
        (taken,) = service.get("/tables/orders/partitions").json()["partitions"]
        assert taken["planned"]
        assert taken["reason"].startswith("40 of 40 files become")
        assert sum(taken["parts"].values()) == pytest.approx(taken["score"])


class TestValueProof:
    def test_runs_have_their_value_proof_and_old_runs_none(self, service: Service) -> None:
        record = RunRecord(
            job_id=uuid4(),
            table=ORDERS,
            action=Compact(),
            state=RunState.SUCCEEDED,
            started_at=datetime.now(UTC),
            value_proof=VALUE_PROOF,
        )
        service.stores.history.save(record)
        response = service.get("/tables/orders/history").json()
        assert [run["value_proof"] for run in response["runs"]] == [to_json(VALUE_PROOF), None]
        first = HistoryView.model_validate(response).runs[0].value_proof
        assert first is not None
        assert first.sentence == "12 groups, rows counted in all, values compared in 4"
