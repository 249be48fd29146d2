"""API keys and sessions: what is stored, and how long it is valid."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Engine

from contract.sample_runs import NOON
from icepack.domain.access import ApiKey, Grant, Principal, Role, Scope, Session
from icepack.domain.ports.access import KeyExists, KeyNotFound
from icepack.store.admin.keys import SqlKeyStore, SqlSessionStore

HOUR = timedelta(hours=1)
SCOPES = (Scope("lake", "sales*"), Scope("läke", "a.b"))


def key(name: str = "ci", **facts: object) -> ApiKey:
    plain = {"id": f"id-{name}", "role": Role.OPERATOR, "scopes": SCOPES, "created_at": NOON, "created_by": "cli:me"}
    return ApiKey(name=name, **{**plain, **facts})


@pytest.fixture
def keys(engine: Engine) -> SqlKeyStore:
    return SqlKeyStore(engine)


@pytest.fixture
def sessions(engine: Engine) -> SqlSessionStore:
    return SqlSessionStore(engine)


class TestKeys:
    def test_a_key_is_read_as_it_was_stored(self, keys: SqlKeyStore) -> None:
        stored = key(expires_at=NOON + HOUR)
        keys.add(stored, "digest")
        assert keys.find(stored.id) == (stored, "digest")
        assert keys.list_keys() == [stored]

    def test_an_unknown_id_has_no_key(self, keys: SqlKeyStore) -> None:
        assert keys.find("id-ci") is None

    def test_two_valid_keys_do_not_share_a_name(self, keys: SqlKeyStore) -> None:
        keys.add(key(expires_at=NOON + HOUR), "one")
        with pytest.raises(KeyExists):
            keys.add(key(id="other"), "two")
        keys.add(key(id="later", created_at=NOON + HOUR), "three")

    def test_a_revoked_key_stays_listed_as_revoked(self, keys: SqlKeyStore) -> None:
        keys.add(key(), "digest")
        assert keys.revoke("ci", NOON + HOUR).revoked_at == NOON + HOUR
        assert not keys.list_keys()[0].is_valid(NOON + HOUR)
        with pytest.raises(KeyNotFound):
            keys.revoke("ci", NOON + HOUR)

    def test_a_key_can_be_revoked_by_its_id(self, keys: SqlKeyStore) -> None:
        keys.add(key(), "digest")
        assert keys.revoke("id-ci", NOON).name == "ci"


class TestSessions:
    principal = Principal(name="key:ci", grants=(Grant(Role.VIEWER, SCOPES), Grant(Role.ADMIN, (Scope("x", "y"),))))

    def open(self, sessions: SqlSessionStore, key_id: str | None = None) -> Session:
        session = Session(principal=self.principal, expires_at=NOON + HOUR, key_id=key_id)
        sessions.open("digest", session, NOON)
        return session

    def test_a_session_is_found_until_it_expires(self, sessions: SqlSessionStore) -> None:
        opened = self.open(sessions)
        assert sessions.find("digest", NOON) == opened
        assert sessions.find("digest", NOON + HOUR) is None
        assert sessions.find("other", NOON) is None

    def test_a_session_can_be_ended(self, sessions: SqlSessionStore) -> None:
        self.open(sessions)
        sessions.end("digest")
        assert sessions.find("digest", NOON) is None

    def test_a_session_ends_with_its_key(self, sessions: SqlSessionStore, keys: SqlKeyStore) -> None:
        keys.add(key(expires_at=NOON + HOUR / 2), "digest")
        self.open(sessions, "id-ci")
        assert sessions.find("digest", NOON) is not None
        assert sessions.find("digest", NOON + HOUR / 2) is None
        keys.revoke("ci", NOON)
        assert sessions.find("digest", NOON) is None

    def test_a_session_without_its_key_is_not_found(self, sessions: SqlSessionStore) -> None:
        self.open(sessions, "gone")
        assert sessions.find("digest", NOON) is None

    def test_expired_sessions_are_deleted_with_the_next_session(
        self, sessions: SqlSessionStore, engine: Engine
    ) -> None:
        self.open(sessions)
        later = Session(principal=self.principal, expires_at=NOON + 3 * HOUR)
        sessions.open("later", later, NOON + 2 * HOUR)
        assert sessions.find("digest", NOON) is None
