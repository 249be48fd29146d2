"""Health probes and metrics."""

from __future__ import annotations

import pytest

from api.service import Service
from icepack.errors import EnvironmentFault


class TestProbes:
    @pytest.mark.parametrize("base", ["", "/api/v1"])
    def test_probes_are_served_at_the_root_and_below_the_base_path(self, service: Service, base: str) -> None:
        assert service.client.get(f"{base}/health").json()["status"] == "ok"
        assert service.client.get(f"{base}/health/ready").json()["status"] == "ready"
        response = service.client.get(f"{base}/metrics")
        assert "compaction_jobs_total" in response.text
        assert response.headers["content-type"].startswith("text/plain")

    def test_unreachable_database_makes_the_service_unavailable(self, service: Service) -> None:
        service.stores.engine.dispose()
        broken = service.app.stores.jobs
        original = broken.now

        def lost() -> None:

            raise EnvironmentFault("postgresql://secret@host could not be used")

        broken.now = lost  # type: ignore[method-assign]
        try:
            response = service.get("/health/ready")
        finally:
            broken.now = original  # type: ignore[method-assign]
        assert response.status_code == 503
        assert "secret" not in response.text
