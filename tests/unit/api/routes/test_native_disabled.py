"""Tables whose native rewrite is disabled, in the routes of tables, fleet and metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote
from uuid import uuid4

import pytest

from api.service import ITEMS, LEASE, LOG, ODD, ORDERS, SALES, TABLES, Service
from contract.sample_runs import MISMATCH
from icepack.api.schemas.fleet import OverviewView
from icepack.api.schemas.tables import TableView
from icepack.domain.access import Role
from icepack.domain.serialization import to_json
from icepack.domain.verification import NativeDisabled

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def build_entry(table: object) -> NativeDisabled:
    return NativeDisabled(
        table=table,  # type: ignore[arg-type]
        table_uuid="u",
        disabled_at=NOW,
        reason="Values of price differ.",
        job_id=uuid4(),
        mismatch=MISMATCH,
    )


@pytest.fixture
def disabled(service: Service) -> NativeDisabled:
    entry = build_entry(ODD)
    service.stores.verification.disable_native(entry)
    return entry


class TestNativeDisabled:
    def test_native_rewrite_is_enabled_by_default(self, service: Service) -> None:
        assert service.get("/tables/orders").json()["native_disabled"] is None
        assert [item["native_disabled"] for item in service.get("/tables").json()["tables"]] == [False] * len(TABLES)
        assert service.get("/overview").json()["native_disabled"] == 0

    def test_table_says_since_when_and_why_it_is_disabled(self, service: Service, disabled: NativeDisabled) -> None:
        response = service.get(f"/tables/{quote(str(ODD), safe='')}").json()
        assert response["native_disabled"] == to_json(disabled)
        assert TableView.model_validate(response).native_disabled == disabled

    def test_lists_mark_disabled_tables(self, service: Service, disabled: NativeDisabled) -> None:
        marked = {item["table_name"]: item["native_disabled"] for item in service.get("/tables").json()["tables"]}
        assert [name for name, is_off in marked.items() if is_off] == [str(ODD)]
        overview = service.get("/overview").json()
        assert overview["native_disabled"] == 1
        assert [item["table_name"] for item in overview["sickest"] if item["native_disabled"]] == [str(ODD)]
        OverviewView.model_validate(overview)

    def test_disabled_table_with_a_running_job_is_marked(self, service: Service) -> None:
        service.stores.verification.disable_native(build_entry(ORDERS))
        assert service.stores.jobs.claim("worker", LEASE) is not None
        found = {item["table_name"]: item for item in service.get("/tables").json()["tables"]}
        assert found[str(ORDERS)]["native_disabled"] is True
        assert found[str(ORDERS)]["running"] is not None

    @pytest.mark.parametrize(("value", "names"), [("true", {ODD}), ("false", {ORDERS, ITEMS, LOG})])
    def test_tables_are_filtered_by_it(
        self, service: Service, disabled: NativeDisabled, value: str, names: set[object]
    ) -> None:
        found = service.get("/tables", params={"native_disabled": value}).json()["tables"]
        assert {item["table_name"] for item in found} == {str(name) for name in names}

    def test_cached_selection_follows_a_change(self, service: Service) -> None:
        disabled_only = {"native_disabled": "true"}
        assert service.get("/tables", params=disabled_only).json()["total"] == 0
        service.stores.verification.disable_native(build_entry(ITEMS))
        service.app.fleet_statistics._native_disabled._entries.clear()
        assert service.get("/tables", params=disabled_only).json()["total"] == 1

    def test_invisible_tables_are_not_counted(self, secured: Service) -> None:
        secured.stores.verification.disable_native(build_entry(ODD))
        secured.stores.verification.disable_native(build_entry(ITEMS))
        headers = secured.key(Role.VIEWER, SALES)
        assert secured.get("/overview", headers=headers).json()["native_disabled"] == 1
        disabled_only = secured.get("/tables", params={"native_disabled": "true"}, headers=headers).json()["tables"]
        assert [item["table_name"] for item in disabled_only] == [str(ITEMS)]

    def test_metrics_count_disabled_tables(self, service: Service, disabled: NativeDisabled) -> None:
        assert "icepack_native_disabled_tables 1" in service.get("/metrics").text
