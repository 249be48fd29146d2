"""Routes of API keys."""

from __future__ import annotations

from api.service import SALES, Service
from icepack.domain.access import Role


class TestKeys:
    def test_key_is_shown_once_and_works_until_it_is_revoked(self, secured: Service) -> None:
        admin = secured.key(Role.ADMIN, name="root")
        body = {"name": "ci", "role": "operator", "scopes": ["lake.sales*"], "expires_in": "90d"}
        made = secured.post("/keys", body, headers=admin)
        assert made.status_code == 201
        assert made.headers["cache-control"] == "no-store"
        key = made.json()
        mine = {"Authorization": f"Bearer {key['key']}"}
        assert secured.get("/tables", headers=mine).json()["total"] == 2
        listed = secured.get("/keys", headers=admin)
        assert key["key"] not in listed.text
        assert {item["name"]: item["state"] for item in listed.json()["keys"]} == {"root": "valid", "ci": "valid"}
        gone = secured.client.delete(f"/api/v1/keys/{key['id']}", headers=admin)
        assert (gone.status_code, gone.json()["state"]) == (200, "revoked")
        assert secured.get("/tables", headers=mine).status_code == 401
        audited = [(e.action, e.subject, e.actor) for e in secured.stores.audit.entries() if ".keys." in e.action]
        assert audited == [("api.keys.revoke", "ci", "key:root"), ("api.keys.create", "ci", "key:root")]

    def test_invalid_requests_are_rejected(self, service: Service) -> None:
        assert service.post("/keys", {"name": "twice"}).status_code == 201
        again = service.post("/keys", {"name": "twice"})
        assert (again.status_code, again.json()["type"]) == (409, "urn:icepack:problem:key-exists")
        assert service.client.delete("/api/v1/keys/nothing").status_code == 404
        assert service.client.delete("/api/v1/keys/twice").status_code == 404
        for wrong, field in (({"scopes": ["a b"]}, "scopes.0"), ({"expires_in": "soon"}, "expires_in")):
            response = service.post("/keys", {"name": "x", **wrong})
            assert (response.status_code, response.json()["field"]) == (422, field)
        assert [key.name for key in service.stores.keys.list_keys()] == ["twice"]

    def test_admin_of_some_tables_cannot_manage_keys(self, secured: Service) -> None:
        headers = secured.key(Role.ADMIN, SALES)
        assert secured.post("/keys", {"name": "mine"}, headers=headers).status_code == 403
        assert secured.get("/keys", headers=headers).status_code == 403
