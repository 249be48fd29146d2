"""Routes of the settings."""

from __future__ import annotations

from pathlib import Path

from api.service import SALES, Service, serve
from icepack.domain.access import Role, Scope


class TestSettings:
    def test_settings_contain_no_secrets(self, tmp_path: Path) -> None:
        secret = "hunter2-hunter2"
        lake = {
            "type": "sql",
            "uri": f"postgresql://me:{secret}@db/cat",
            "s3.secret-access-key": secret,
            "token": secret,
        }
        with serve(tmp_path, catalogs={"lake": lake}) as service:
            response = service.get("/settings")
            assert response.status_code == 200
            assert secret not in response.text
            (shown,) = response.json()["catalogs"]
            assert (shown["name"], shown["type"], shown["uri"]) == ("lake", "sql", "postgresql://me:***@db/cat")
            assert set(shown) == {"name", "type", "uri", "warehouse"}

    def test_settings_have_versions_and_fast_checks(self, service: Service) -> None:
        found = service.get("/settings").json()
        assert {"icepack", "python", "spark", "iceberg"} <= set(found["versions"])
        assert all(found["versions"].values())
        quick = dict.fromkeys(("python", "state", "native rewrite"), True)
        assert {check["name"]: check["ok"] for check in found["checkup"]["checks"]} == quick
        assert found["state"]["kind"] == "sqlite"

    def test_slow_checks_run_in_the_background(self, service: Service) -> None:
        assert service.post("/settings/checks").status_code == 202
        service.client.app.state.services.doctor._running.acquire(timeout=60)  # type: ignore[attr-defined]
        service.client.app.state.services.doctor._running.release()  # type: ignore[attr-defined]
        found = service.get("/settings").json()["checkup"]
        assert not found["running"]
        assert {"java", "jars"} <= {check["name"] for check in found["checks"]}
        (entry,) = service.stores.audit.entries(action="api.settings.check")
        assert entry.outcome == "started"

    def test_state_and_checks_require_an_admin_of_every_catalog(self, secured: Service) -> None:
        for headers in (secured.key(Role.VIEWER), secured.key(Role.ADMIN, SALES)):
            found = secured.get("/settings", headers=headers).json()
            assert (found["state"], found["checkup"]) == (None, None)
        elsewhere = secured.key(Role.VIEWER, (Scope("nowhere", "*"),))
        assert secured.get("/settings", headers=elsewhere).json()["catalogs"] == []

    def test_budgets_have_limit_and_spending(self, tmp_path: Path) -> None:
        rules = [{"match": "lake.sales.*", "daily_budget": 5, "daily_compute": "1h"}]
        with serve(tmp_path, policies=rules) as service:
            found = {item["resource"]: item for item in service.get("/settings").json()["budgets"]}
        assert {name: (item["layer"], item["limit"]) for name, item in found.items()} == {
            "daily_budget": ("lake.sales.*", 5.0),
            "daily_compute": ("lake.sales.*", 3600.0),
        }
        assert found["daily_compute"]["spent"] > 0
