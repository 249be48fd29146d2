"""What the web page asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, get_args

import pytest

from contract.records import totals
from icepack.api.table_list import Sort
from icepack.domain.access import Role
from icepack.domain.job import JobState
from icepack.domain.table import TableId
from icepack.domain.trend import fleet_lines

from .service import ITEMS, LEASE, LOG, ODD, ORDERS, SALES, TABLES, Service

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
