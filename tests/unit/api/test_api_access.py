"""Who gets in, as what, to see which tables; and what browsers are kept from doing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from icepack.api.app import BASE
from icepack.api.auth.authenticator import TRUSTED_SECONDS
from icepack.api.rate_limit import Limits
from icepack.api.refusals import TooManyRequests
from icepack.api.server import is_loopback, refuse_openness
from icepack.config import load_config
from icepack.domain.access import Role, Scope
from icepack.errors import UsageError

from .service import LOG, ODD, ORDERS, SALES, Service, serving

SESSION = f"{BASE}/session"


def forget(service: Service) -> None:
    """As if the doorman's memory of who is who had run out."""
    service.client.app.state.parts.doorman._known.clear()


class TestKeys:
    def test_without_one_nobody_gets_in(self, guarded: Service) -> None:
        answer = guarded.get("/tables")
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.json()["type"] == "urn:icepack:problem:unauthenticated"

    @pytest.mark.parametrize("text", ["x", "ipk_0123456789abcdef_" + "a" * 43, "", "ipk_é", "Bearer"])
    def test_a_wrong_one_is_none(self, guarded: Service, text: str) -> None:
        headers = {"Authorization": f"Bearer {text}".encode()}
        assert guarded.get("/tables", headers=headers).status_code == 401

    def test_a_right_one_opens(self, guarded: Service) -> None:
        headers = guarded.key(Role.VIEWER, name="ann")
        assert guarded.get("/tables", headers=headers).status_code == 200
        assert guarded.get("/session", headers=headers).json()["name"] == "key:ann"

    def test_an_expired_one_does_not(self, guarded: Service) -> None:
        past = datetime.now(UTC) - timedelta(seconds=1)
        assert guarded.get("/tables", headers=guarded.key(Role.VIEWER, expires_at=past)).status_code == 401

    def test_a_revoked_one_stops_working(self, guarded: Service) -> None:
        headers = guarded.key(Role.VIEWER, name="ann")
        assert guarded.get("/tables", headers=headers).status_code == 200
        guarded.stores.keys.revoke("ann", datetime.now(UTC))
        doorman = guarded.client.app.state.parts.doorman
        doorman._known = {key: (known, at - TRUSTED_SECONDS - 1) for key, (known, at) in doorman._known.items()}
        assert guarded.get("/tables", headers=headers).status_code == 401

    def test_who_guesses_has_to_wait(self, guarded: Service) -> None:
        headers = {"Authorization": "Bearer ipk_0123456789abcdef_" + "a" * 43}
        answers = [guarded.get("/tables", headers=headers) for _ in range(25)]
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1

    def test_only_a_digest_is_kept(self, guarded: Service) -> None:
        text = guarded.key(Role.VIEWER)["Authorization"].rpartition("_")[2]
        with guarded.stores.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT * FROM api_keys").all()
        assert text not in repr(rows)


class TestSessions:
    def test_a_key_is_traded_for_a_cookie(self, guarded: Service) -> None:
        key = guarded.key(Role.OPERATOR, SALES)["Authorization"].removeprefix("Bearer ")
        answer = guarded.client.post(SESSION, json={"key": key})
        assert answer.status_code == 200, answer.text
        cookie = answer.headers["set-cookie"].lower()
        assert all(mark in cookie for mark in ("httponly", "samesite=strict", "path=/"))
        assert key not in cookie
        assert guarded.get("/session").json()["grants"] == [{"role": "operator", "scopes": ["lake.sales"]}]
        assert guarded.get("/tables").json()["total"] == 2

    def test_the_header_will_do_too(self, guarded: Service) -> None:
        assert guarded.client.post(SESSION, headers=guarded.key(Role.VIEWER)).status_code == 200
        assert guarded.get("/tables").status_code == 200

    def test_signing_out_ends_it(self, guarded: Service) -> None:
        guarded.client.post(SESSION, headers=guarded.key(Role.VIEWER))
        token = guarded.client.cookies["icepack_session"]
        assert guarded.client.delete(SESSION).status_code == 204
        guarded.client.cookies.set("icepack_session", token)
        assert guarded.get("/tables").status_code == 401

    def test_it_ends_with_its_key(self, guarded: Service) -> None:
        guarded.client.post(SESSION, headers=guarded.key(Role.VIEWER, name="ann"))
        guarded.stores.keys.revoke("ann", datetime.now(UTC))
        forget(guarded)
        assert guarded.get("/tables").status_code == 401

    def test_a_wrong_key_opens_none(self, guarded: Service) -> None:
        assert guarded.client.post(SESSION, json={"key": "x"}).status_code == 401
        assert guarded.client.post(SESSION).status_code == 401

    def test_away_from_loopback_the_cookie_is_for_https_only(self, tmp_path: Path) -> None:
        with serving(tmp_path, auth={"enabled": True}, server={"host": "0.0.0.0"}) as found:
            answer = found.client.post(SESSION, headers=found.key(Role.VIEWER))
        assert "secure" in answer.headers["set-cookie"].lower()
        assert "strict-transport-security" in answer.headers

    def test_sign_ins_are_audited(self, guarded: Service) -> None:
        guarded.client.post(SESSION, headers=guarded.key(Role.VIEWER, name="ann"))
        (entry,) = guarded.stores.audit.entries()
        assert (entry.actor, entry.action, entry.origin) == ("key:ann", "api.session.open", "testclient")


class TestScopes:
    @pytest.fixture
    def headers(self, guarded: Service) -> dict[str, str]:
        return guarded.key(Role.ADMIN, SALES, name="sales")

    def test_lists_have_only_ones_own(self, guarded: Service, headers: dict[str, str]) -> None:
        own = {"lake.sales.orders", "lake.sales.items"}
        tables = guarded.get("/tables", headers=headers).json()
        assert {table["table_name"] for table in tables["tables"]} == own
        assert tables["total"] == 2
        assert {job["table_name"] for job in guarded.get("/jobs", headers=headers).json()["jobs"]} == own
        overview = guarded.get("/overview", headers=headers).json()
        assert (overview["tables"]["count"], overview["jobs"]["queued"]) == (2, 2)
        assert set(guarded.get("/cost", headers=headers).json()["by_table"]) == own
        upcoming = guarded.get("/schedule/upcoming", headers=headers).json()
        assert {run["table"] for run in upcoming["runs"]} == own

    @pytest.mark.parametrize("rest", ["", "/plan", "/history", "/snapshots", "/files/histogram", "/partitions"])
    def test_others_tables_are_not_there(self, guarded: Service, headers: dict[str, str], rest: str) -> None:
        other = guarded.get(f"/tables/{LOG}{rest}", headers=headers)
        missing = guarded.get(f"/tables/lake.ops.missing{rest}", headers=headers)
        assert (other.status_code, missing.status_code) == (404, 404)
        assert other.json()["detail"].replace("log", "missing") == missing.json()["detail"]

    def test_others_jobs_are_not_there(self, guarded: Service, headers: dict[str, str]) -> None:
        job_id = guarded.submit(LOG)
        assert guarded.get(f"/jobs/{job_id}", headers=headers).status_code == 404
        assert guarded.get(f"/jobs/{job_id}/events", headers=headers).status_code == 404
        assert guarded.client.post(f"{BASE}/jobs/{job_id}/cancel", headers=headers).status_code == 404
        assert guarded.stores.jobs.get(job_id).state == "queued"

    def test_nothing_is_done_to_others_tables(self, guarded: Service, headers: dict[str, str]) -> None:
        before = guarded.stores.jobs.counts()
        assert guarded.post("/compact", {"table": str(LOG)}, headers=headers).status_code == 404
        assert guarded.post("/maintain", {"tables": ["lake.ops.*"]}, headers=headers).status_code == 404
        everything = guarded.post("/maintain", {"tables": ["*"], "dry_run": True}, headers=headers).json()
        assert {item["table_name"] for item in everything["recommended"]} <= {"lake.sales.orders", "lake.sales.items"}
        assert guarded.stores.jobs.counts() == before

    def test_locks_and_audit_are_of_ones_own(self, guarded: Service, headers: dict[str, str]) -> None:
        for table in (ORDERS, LOG):
            guarded.stores.locks.acquire(table, "me", timedelta(minutes=1))
        assert [lock["table_name"] for lock in guarded.get("/locks", headers=headers).json()["locks"]] == [str(ORDERS)]
        everywhere = guarded.key(Role.ADMIN, name="all")
        for table in ("lake.sales.orders", str(LOG)):
            guarded.post("/compact", {"table": table}, headers=everywhere)
        seen = guarded.get("/audit", headers=headers).json()["entries"]
        assert [entry["details"]["table"] for entry in seen] == ["lake.sales.orders"]
        assert len(guarded.get("/audit", headers=everywhere).json()["entries"]) == 2

    def test_what_is_for_all_is_not_for_one_team(self, guarded: Service, headers: dict[str, str]) -> None:
        assert guarded.put("/policies", {"overrides": []}, headers=headers).status_code == 403
        assert guarded.put("/schedules", {"overrides": []}, headers=headers).status_code == 403
        assert guarded.get("/metrics", headers=headers).status_code == 403

    def test_rules_about_others_are_not_shown(self, guarded: Service, headers: dict[str, str]) -> None:
        overrides = [{"match": match, "settings": {"enabled": True}} for match in ("lake.ops.*", "lake.sales.*")]
        everywhere = guarded.key(Role.ADMIN)
        assert guarded.put("/policies", {"overrides": overrides}, headers=everywhere).status_code == 200
        shown = guarded.get("/policies", headers=headers).json()["overrides"]
        assert [line["match"] for line in shown] == ["lake.sales.*"]

    def test_a_way_around_a_guard_rail_is_for_admins(self, guarded: Service) -> None:
        body = {"options": {"override_age_floor": True}}
        path = "/tables/orders/actions/remove_orphan_files"
        assert guarded.post(path, body, headers=guarded.key(Role.OPERATOR)).status_code == 403
        assert guarded.post(path, body, headers=guarded.key(Role.ADMIN)).status_code == 202

    def test_keys_of_idempotency_are_everybodys_own(self, guarded: Service) -> None:
        ids = set()
        for name in ("ann", "bob"):
            headers = {**guarded.key(Role.OPERATOR, name=name), "Idempotency-Key": "k"}
            table = {"ann": "orders", "bob": "items"}[name]
            ids.add(guarded.post("/compact", {"table": table}, headers=headers).json()["job_id"])
        assert len(ids) == 2

    def test_a_denied_change_is_audited(self, guarded: Service) -> None:
        guarded.post("/compact", {"table": "orders"}, headers=guarded.key(Role.VIEWER, name="eve"))
        (entry,) = guarded.stores.audit.entries()
        assert (entry.actor, entry.action, entry.outcome) == ("key:eve", "api.denied", "needs operator")


class TestBrowsers:
    def test_every_answer_is_marked(self, service: Service) -> None:
        for path in (f"{BASE}/tables", "/health", "/nowhere"):
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
    def test_a_page_of_another_site_changes_nothing(self, service: Service, headers: dict[str, str]) -> None:
        before = service.stores.jobs.counts()
        answer = service.post("/compact", {"table": "orders"}, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:icepack:problem:cross-site")
        assert service.stores.jobs.counts() == before

    def test_our_own_page_may(self, service: Service) -> None:
        headers = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
        assert service.post("/compact", {"table": "orders"}, headers=headers).status_code == 202

    def test_a_form_is_no_request(self, service: Service) -> None:
        answer = service.client.post(f"{BASE}/compact", content=b"{}", headers={"Content-Type": "text/plain"})
        assert answer.status_code == 415

    def test_a_foreign_name_is_turned_away_where_nobody_signs_in(self, service: Service) -> None:
        answer = service.get("/tables", headers={"Host": "rebound.example"})
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:icepack:problem:foreign-host")

    def test_with_keys_any_name_will_do(self, guarded: Service) -> None:
        headers = {**guarded.key(Role.VIEWER), "Host": "icepack.example"}
        assert guarded.get("/tables", headers=headers).status_code == 200


class TestLimits:
    def test_who_asks_too_often_has_to_wait(self, tmp_path: Path) -> None:
        with serving(tmp_path, server={"requests_per_second": 1}) as found:
            answers = [found.get("/tables").status_code for _ in range(4)]
        assert answers[0] == 200
        assert answers[-1] == 429

    def test_a_bucket_fills_again(self) -> None:
        now = [0.0]
        limits = Limits(2.0, burst=2, elapsed_seconds=lambda: now[0])
        for _ in range(2):
            limits.take("ann")
        with pytest.raises(TooManyRequests):
            limits.take("ann")
        limits.take("bob")
        now[0] = 0.5
        limits.take("ann")

    def test_a_large_body_is_refused(self, tmp_path: Path) -> None:
        with serving(tmp_path, server={"max_body": "1KB"}) as found:
            assert found.post("/compact", {"table": "x" * 2000}).status_code == 413
            chunks = (b"x" * 600 for _ in range(3))
            headers = {"Content-Type": "application/json"}
            assert found.client.post(f"{BASE}/compact", content=chunks, headers=headers).status_code == 413


class TestOpenness:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "no.such.host.invalid"])
    def test_open_to_the_world_without_keys_is_refused(self, tmp_path: Path, host: str) -> None:
        def config(**more: Any) -> Any:
            overrides = {"server": {"host": host}, **more}
            return load_config(environ={"HOME": str(tmp_path)}, overrides=overrides, cwd=tmp_path).config

        with pytest.raises(UsageError, match="without authentication"):
            refuse_openness(config())
        refuse_openness(config(auth={"enabled": True}))
        refuse_openness(config(auth={"oidc": {"issuer": "https://x", "audience": "icepack"}}))

    @pytest.mark.parametrize(("host", "expected"), [("127.0.0.1", True), ("::1", True), ("127.9.9.9", True)])
    def test_loopback_is_known(self, host: str, expected: bool) -> None:
        assert is_loopback(host) is expected


@pytest.fixture(scope="module")
def signing() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def issuer(signing: rsa.RSAPrivateKey) -> Iterator[str]:
    """A server with a discovery document and the keys."""
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(signing.public_key()))

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = f"http://127.0.0.1:{self.server.server_port}"
            found = {"keys": [{**public, "kid": "k1", "use": "sig", "alg": "RS256"}]}
            body = json.dumps({"jwks_uri": f"{url}/keys"} if "well-known" in self.path else found).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class TestTokens:
    @pytest.fixture
    def with_issuer(self, tmp_path: Path, issuer: str) -> Iterator[Service]:
        grants = [
            {"value": "team-sales", "role": "operator", "scopes": ["lake.sales"]},
            {"value": "everyone", "role": "viewer", "scopes": ["lake"]},
        ]
        oidc = {"issuer": issuer, "audience": "icepack", "roles_claim": "realm.roles", "grants": grants}
        with serving(tmp_path, auth={"oidc": oidc}) as found:
            yield found

    def headers(self, signing: Any, issuer: str, *, algorithm: str = "RS256", **changes: Any) -> dict[str, str]:
        now = datetime.now(UTC)
        claims = {
            "iss": issuer,
            "aud": "icepack",
            "sub": "ann",
            "exp": now + timedelta(minutes=5),
            "realm": {"roles": ["team-sales", "everyone"]},
        }
        claims = {name: value for name, value in {**claims, **changes}.items() if value is not None}
        return {"Authorization": f"Bearer {jwt.encode(claims, signing, algorithm, headers={'kid': 'k1'})}"}

    def test_roles_come_from_the_claim(self, with_issuer: Service, signing: Any, issuer: str) -> None:
        headers = self.headers(signing, issuer)
        found = with_issuer.get("/session", headers=headers).json()
        assert (found["name"], found["role"]) == ("oidc:ann", "operator")
        assert with_issuer.get("/tables", headers=headers).json()["total"] == 3
        assert with_issuer.post("/compact", {"table": "orders"}, headers=headers).status_code == 202
        assert with_issuer.post("/compact", {"table": "log"}, headers=headers).status_code == 403
        assert with_issuer.post("/compact", {"table": str(ODD)}, headers=headers).status_code == 404

    def test_a_token_without_a_role_may_nothing(self, with_issuer: Service, signing: Any, issuer: str) -> None:
        assert with_issuer.get("/tables", headers=self.headers(signing, issuer, realm=None)).status_code == 403

    @pytest.mark.parametrize(
        "changes",
        [
            {"aud": "other"},
            {"iss": "https://evil.example"},
            {"exp": datetime(2020, 1, 1, tzinfo=UTC)},
            {"exp": None},
            {"aud": None},
        ],
    )
    def test_a_token_for_others_is_none(
        self, with_issuer: Service, signing: Any, issuer: str, changes: dict[str, Any]
    ) -> None:
        assert with_issuer.get("/tables", headers=self.headers(signing, issuer, **changes)).status_code == 401

    def test_a_token_of_another_key_is_none(self, with_issuer: Service, issuer: str) -> None:
        other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        assert with_issuer.get("/tables", headers=self.headers(other, issuer)).status_code == 401
        unsigned = self.headers("secret" * 8, issuer, algorithm="HS256")
        assert with_issuer.get("/tables", headers=unsigned).status_code == 401

    def test_a_token_can_be_traded_for_a_session(self, with_issuer: Service, signing: Any, issuer: str) -> None:
        assert with_issuer.client.post(SESSION, headers=self.headers(signing, issuer)).status_code == 200
        assert with_issuer.get("/tables").json()["total"] == 3


@pytest.mark.parametrize(
    ("text", "covered"),
    [("lake.sales", True), ("lake", True), ("*", True), ("lake.sal??", True), ("lake.ops", False), ("la", False)],
)
def test_scopes_are_globs(text: str, covered: bool) -> None:
    assert Scope.parse(text).covers(ORDERS) is covered


def test_a_glob_does_not_reach_beyond_its_part() -> None:
    assert not Scope.parse("l.*").covers(ORDERS)
    assert not Scope("lake", "[s]ales").covers(ORDERS)
    assert Scope.parse('other."a.b".c').covers(ODD)
    assert not Scope.parse("other.a*").covers(ODD)
