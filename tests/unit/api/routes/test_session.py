"""Routes of sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from api.service import SALES, Service, serve
from icepack.api.app import BASE_PATH
from icepack.domain.access import Role

SESSION = f"{BASE_PATH}/session"


def expire_cache(service: Service) -> None:
    """Clears the authenticator's cache, as if its time to live had passed."""
    service.client.app.state.services.authenticator._cache.clear()


class TestSessions:
    def test_key_is_exchanged_for_a_cookie(self, secured: Service) -> None:
        key = secured.key(Role.OPERATOR, SALES)["Authorization"].removeprefix("Bearer ")
        response = secured.client.post(SESSION, json={"key": key})
        assert response.status_code == 200, response.text
        cookie = response.headers["set-cookie"].lower()
        assert all(mark in cookie for mark in ("httponly", "samesite=strict", "path=/"))
        assert key not in cookie
        assert secured.get("/session").json()["grants"] == [{"role": "operator", "scopes": ["lake.sales"]}]
        assert secured.get("/tables").json()["total"] == 2

    def test_key_may_be_in_the_header(self, secured: Service) -> None:
        assert secured.client.post(SESSION, headers=secured.key(Role.VIEWER)).status_code == 200
        assert secured.get("/tables").status_code == 200

    def test_signing_out_ends_the_session(self, secured: Service) -> None:
        secured.client.post(SESSION, headers=secured.key(Role.VIEWER))
        token = secured.client.cookies["icepack_session"]
        assert secured.client.delete(SESSION).status_code == 204
        secured.client.cookies.set("icepack_session", token)
        assert secured.get("/tables").status_code == 401

    def test_revoking_the_key_ends_the_session(self, secured: Service) -> None:
        secured.client.post(SESSION, headers=secured.key(Role.VIEWER, name="ann"))
        secured.stores.keys.revoke("ann", datetime.now(UTC))
        expire_cache(secured)
        assert secured.get("/tables").status_code == 401

    def test_invalid_key_opens_no_session(self, secured: Service) -> None:
        assert secured.client.post(SESSION, json={"key": "x"}).status_code == 401
        assert secured.client.post(SESSION).status_code == 401

    def test_cookie_is_secure_unless_on_loopback(self, tmp_path: Path) -> None:
        with serve(tmp_path, auth={"enabled": True}, server={"host": "0.0.0.0"}) as found:
            response = found.client.post(SESSION, headers=found.key(Role.VIEWER))
        assert "secure" in response.headers["set-cookie"].lower()
        assert "strict-transport-security" in response.headers

    def test_sign_ins_are_audited(self, secured: Service) -> None:
        secured.client.post(SESSION, headers=secured.key(Role.VIEWER, name="ann"))
        (entry,) = secured.stores.audit.entries()
        assert (entry.actor, entry.action, entry.origin) == ("key:ann", "api.session.open", "testclient")
