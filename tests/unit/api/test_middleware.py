"""The security middleware."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.service import Service, serve
from icepack.api.app import BASE_PATH
from icepack.domain.access import Role


class TestBrowsers:
    def test_every_response_has_security_headers(self, service: Service) -> None:
        for path in (f"{BASE_PATH}/tables", "/health", "/nowhere"):
            headers = service.client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in headers

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
    )
    def test_cross_site_request_is_rejected(self, service: Service, headers: dict[str, str]) -> None:
        before = service.stores.jobs.counts()
        response = service.post("/compact", {"table": "orders"}, headers=headers)
        assert (response.status_code, response.json()["type"]) == (403, "urn:icepack:problem:cross-site")
        assert service.stores.jobs.counts() == before

    def test_same_origin_request_is_accepted(self, service: Service) -> None:
        headers = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
        assert service.post("/compact", {"table": "orders"}, headers=headers).status_code == 202

    def test_form_body_is_rejected(self, service: Service) -> None:
        response = service.client.post(f"{BASE_PATH}/compact", content=b"{}", headers={"Content-Type": "text/plain"})
        assert response.status_code == 415

    def test_foreign_host_is_rejected_without_authentication(self, service: Service) -> None:
        response = service.get("/tables", headers={"Host": "rebound.example"})
        assert (response.status_code, response.json()["type"]) == (403, "urn:icepack:problem:foreign-host")

    def test_any_host_is_accepted_with_authentication(self, secured: Service) -> None:
        headers = {**secured.key(Role.VIEWER), "Host": "icepack.example"}
        assert secured.get("/tables", headers=headers).status_code == 200


class TestBodySize:
    def test_large_body_is_rejected(self, tmp_path: Path) -> None:
        with serve(tmp_path, server={"max_body": "1KB"}) as found:
            assert found.post("/compact", {"table": "x" * 2000}).status_code == 413
            chunks = (b"x" * 600 for _ in range(3))
            headers = {"Content-Type": "application/json"}
            assert found.client.post(f"{BASE_PATH}/compact", content=chunks, headers=headers).status_code == 413
