"""Routes of policies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.service import ITEMS, ORDERS, SALES, Service, serve
from icepack.domain.access import Role

SALES_OFF = {"overrides": [{"match": "lake.sales.*", "settings": {"enabled": False}}]}


class TestPolicies:
    @pytest.fixture
    def configured(self, tmp_path: Path) -> Iterator[Service]:
        tables = [{"name": "sales.orders", "schedule": "0 2 * * *", "strategy": "small_files"}]
        policies = [{"match": "ops.*", "target_file_size": "64MB"}]
        with serve(tmp_path, tables=tables, policies=policies) as found:
            yield found

    def test_policies_are_replaced_and_applied(self, configured: Service) -> None:
        before = configured.get("/policies").json()
        assert before["configured"] == [
            {"match": "ops.*", "settings": {"target_file_size": "64MB"}},
            {"match": "sales.orders", "settings": {"strategy": "small_files"}},
        ]
        override = {"match": "sales.*", "settings": {"target_file_size": "128MB", "windows": ["22:00-06:00"]}}
        response = configured.put("/policies", {"overrides": [override], "version": 0})
        assert response.status_code == 200, response.text
        assert response.json()["overrides"] == [override]
        assert (response.json()["version"], response.json()["changed_by"]) == (1, "local")
        rules = configured.app.policies.rules
        rules._cache._entries.clear()  # type: ignore[attr-defined]
        policy = configured.app.policies.policy_for(ITEMS, {})
        assert policy.target_file_size == 128 * 2**20
        assert [entry.action for entry in configured.stores.audit.entries()] == ["api.policies.put"]

    def test_outdated_version_is_rejected(self, configured: Service) -> None:
        configured.put("/policies", {"overrides": []})
        response = configured.put("/policies", {"overrides": [], "version": 0})
        assert (response.status_code, response.json()["field"]) == (409, "version")

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
    def test_settings_are_validated_like_the_configuration_file(
        self, configured: Service, settings: dict[str, Any]
    ) -> None:
        response = configured.put("/policies", {"overrides": [{"match": "sales.*", "settings": settings}]})
        assert response.status_code == 422, response.text
        assert configured.stores.overrides.read("policies").version == 0


class TestPolicyPreview:
    def test_preview_lists_changes_and_saves_nothing(self, service: Service) -> None:
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

    def test_existing_overrides_change_nothing(self, service: Service) -> None:
        service.put("/policies", SALES_OFF)
        assert service.post("/policies/preview", SALES_OFF).json() == {"tables": 0, "recommendations": 0, "changes": []}
        without = service.post("/policies/preview", {"overrides": []}).json()
        assert [change["settings"]["enabled"]["after"] for change in without["changes"]] == [True, True]

    def test_table_properties_win_over_overrides(self, service: Service) -> None:
        """Every table sets its own target file size."""
        sizes = {"overrides": [{"match": "*", "settings": {"target_file_size": "256MB"}}]}
        assert service.post("/policies/preview", sizes).json()["tables"] == 0
        thresholds = {"overrides": [{"match": "*", "settings": {"small_file_threshold": "1MB"}}]}
        found = service.post("/policies/preview", thresholds, params={"limit": 1}).json()
        assert (found["tables"], len(found["changes"])) == (4, 1)
        assert found["changes"][0]["estimated"]
        assert found["changes"][0]["settings"] == {"small_file_threshold": {"before": "32MB", "after": "1MB"}}

    def test_order_of_rules_matters(self, service: Service) -> None:
        rules = [{"match": "sales.*", "settings": {"min_input_files": number}} for number in (7, 9)]
        service.put("/policies", {"overrides": rules})
        found = service.post("/policies/preview", {"overrides": rules[::-1]}).json()
        assert {change["settings"]["min_input_files"]["after"] for change in found["changes"]} == {7}

    def test_preview_omits_invisible_tables(self, secured: Service) -> None:
        everything = {"overrides": [{"match": "*", "settings": {"enabled": False}}]}
        found = secured.post("/policies/preview", everything, headers=secured.key(Role.ADMIN, SALES)).json()
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
    def test_error_names_its_field(
        self, service: Service, method: str, override: dict[str, Any], fields: list[str]
    ) -> None:
        body = {"overrides": [*SALES_OFF["overrides"], override]}
        path = "/policies/preview" if method == "post" else "/policies"
        response = getattr(service, method)(path, body)
        assert response.status_code == 422
        assert response.json()["field"] == fields[0]
        assert [error["field"] for error in response.json()["errors"]] == fields
