"""Authentication by API key and OIDC token."""

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

from api.service import ODD, Service, serve
from icepack.api.app import BASE_PATH
from icepack.api.auth.authenticator import CACHE_SECONDS
from icepack.domain.access import Role

SESSION = f"{BASE_PATH}/session"


class TestKeys:
    def test_request_without_key_is_rejected(self, secured: Service) -> None:
        response = secured.get("/tables")
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
        assert response.json()["type"] == "urn:icepack:problem:unauthenticated"

    @pytest.mark.parametrize("text", ["x", "ipk_0123456789abcdef_" + "a" * 43, "", "ipk_é", "Bearer"])
    def test_invalid_key_is_rejected(self, secured: Service, text: str) -> None:
        headers = {"Authorization": f"Bearer {text}".encode()}
        assert secured.get("/tables", headers=headers).status_code == 401

    def test_valid_key_is_accepted(self, secured: Service) -> None:
        headers = secured.key(Role.VIEWER, name="ann")
        assert secured.get("/tables", headers=headers).status_code == 200
        assert secured.get("/session", headers=headers).json()["name"] == "key:ann"

    def test_expired_key_is_rejected(self, secured: Service) -> None:
        past = datetime.now(UTC) - timedelta(seconds=1)
        assert secured.get("/tables", headers=secured.key(Role.VIEWER, expires_at=past)).status_code == 401

    def test_revoked_key_is_rejected(self, secured: Service) -> None:
        headers = secured.key(Role.VIEWER, name="ann")
        assert secured.get("/tables", headers=headers).status_code == 200
        secured.stores.keys.revoke("ann", datetime.now(UTC))
        authenticator = secured.client.app.state.services.authenticator
        authenticator._cache = {
            key: (known, at - CACHE_SECONDS - 1) for key, (known, at) in authenticator._cache.items()
        }
        assert secured.get("/tables", headers=headers).status_code == 401

    def test_failed_authentications_are_rate_limited(self, secured: Service) -> None:
        headers = {"Authorization": "Bearer ipk_0123456789abcdef_" + "a" * 43}
        responses = [secured.get("/tables", headers=headers) for _ in range(25)]
        assert responses[-1].status_code == 429
        assert int(responses[-1].headers["retry-after"]) >= 1

    def test_only_the_digest_is_stored(self, secured: Service) -> None:
        text = secured.key(Role.VIEWER)["Authorization"].rpartition("_")[2]
        with secured.stores.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT * FROM api_keys").all()
        assert text not in repr(rows)


@pytest.fixture(scope="module")
def signing() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def issuer(signing: rsa.RSAPrivateKey) -> Iterator[str]:
    """The URL of an OIDC issuer with a discovery document and signing keys."""
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(signing.public_key()))

    class IssuerHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = f"http://127.0.0.1:{self.server.server_port}"
            found = {"keys": [{**public, "kid": "k1", "use": "sig", "alg": "RS256"}]}
            body = json.dumps({"jwks_uri": f"{url}/keys"} if "well-known" in self.path else found).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), IssuerHandler)
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
        with serve(tmp_path, auth={"oidc": oidc}) as found:
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

    def test_token_without_a_role_is_forbidden(self, with_issuer: Service, signing: Any, issuer: str) -> None:
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
    def test_token_for_another_issuer_audience_or_time_is_rejected(
        self, with_issuer: Service, signing: Any, issuer: str, changes: dict[str, Any]
    ) -> None:
        assert with_issuer.get("/tables", headers=self.headers(signing, issuer, **changes)).status_code == 401

    def test_token_with_another_signature_is_rejected(self, with_issuer: Service, issuer: str) -> None:
        other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        assert with_issuer.get("/tables", headers=self.headers(other, issuer)).status_code == 401
        unsigned = self.headers("secret" * 8, issuer, algorithm="HS256")
        assert with_issuer.get("/tables", headers=unsigned).status_code == 401

    def test_token_is_exchanged_for_a_session(self, with_issuer: Service, signing: Any, issuer: str) -> None:
        assert with_issuer.client.post(SESSION, headers=self.headers(signing, issuer)).status_code == 200
        assert with_issuer.get("/tables").json()["total"] == 3
