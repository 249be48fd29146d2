"""Keys, sessions and overrides: what is kept, for how long, and who changed it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import Engine

from icepack.domain.access import ApiKey, Grant, Principal, Role, Scope, Session
from icepack.domain.ports.access import KeyExists, KeyNotFound, VersionConflict
from icepack.store.admin.keys import SqlKeyStore, SqlSessionStore
from icepack.store.admin.overrides import SqlOverrideStore

from .records import NOON

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


@pytest.fixture
def overrides(engine: Engine) -> SqlOverrideStore:
    return SqlOverrideStore(engine)


class TestKeys:
    def test_a_key_comes_back_as_it_was_kept(self, keys: SqlKeyStore) -> None:
        kept = key(expires_at=NOON + HOUR)
        keys.add(kept, "digest")
        assert keys.find(kept.id) == (kept, "digest")
        assert keys.list_keys() == [kept]

    def test_no_key_answers_to_an_unknown_id(self, keys: SqlKeyStore) -> None:
        assert keys.find("id-ci") is None

    def test_two_valid_keys_do_not_share_a_name(self, keys: SqlKeyStore) -> None:
        keys.add(key(expires_at=NOON + HOUR), "one")
        with pytest.raises(KeyExists):
            keys.add(key(id="other"), "two")
        keys.add(key(id="later", created_at=NOON + HOUR), "three")

    def test_a_revoked_key_is_kept_as_revoked(self, keys: SqlKeyStore) -> None:
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

    def test_a_session_comes_back_until_it_expires(self, sessions: SqlSessionStore) -> None:
        opened = self.open(sessions)
        assert sessions.find("digest", NOON) == opened
        assert sessions.find("digest", NOON + HOUR) is None
        assert sessions.find("other", NOON) is None

    def test_a_session_ends_when_it_is_told_to(self, sessions: SqlSessionStore) -> None:
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

    def test_a_session_of_a_key_that_is_not_there_is_none(self, sessions: SqlSessionStore) -> None:
        self.open(sessions, "gone")
        assert sessions.find("digest", NOON) is None

    def test_ended_sessions_go_when_another_begins(self, sessions: SqlSessionStore, engine: Engine) -> None:
        self.open(sessions)
        later = Session(principal=self.principal, expires_at=NOON + 3 * HOUR)
        sessions.open("later", later, NOON + 2 * HOUR)
        assert sessions.find("digest", NOON) is None


class TestOverrides:
    def test_nothing_is_version_zero(self, overrides: SqlOverrideStore) -> None:
        found = overrides.read("policies")
        assert (found.version, found.entries) == (0, ())

    def test_each_change_counts_up_and_says_who(self, overrides: SqlOverrideStore) -> None:
        overrides.replace("policies", [{"match": "a.*"}], expected=0, by="ann")
        found = overrides.replace("policies", [{"match": "b.*"}], expected=None, by="bob")
        assert overrides.read("policies") == found
        assert (found.version, found.changed_by, found.entries) == (2, "bob", ({"match": "b.*"},))
        assert overrides.read("schedules").version == 0

    def test_an_old_version_changes_nothing(self, overrides: SqlOverrideStore) -> None:
        overrides.replace("policies", [{"match": "a.*"}], expected=0, by="ann")
        with pytest.raises(VersionConflict, match="version 1"):
            overrides.replace("policies", [], expected=0, by="bob")
        assert overrides.read("policies").entries == ({"match": "a.*"},)

    def test_of_many_that_change_one_version_one_wins(self, overrides: SqlOverrideStore) -> None:
        overrides.replace("policies", [], expected=0, by="ann")

        def change(number: int) -> bool:
            try:
                overrides.replace("policies", [{"match": f"t{number}"}], expected=1, by=str(number))
            except VersionConflict:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(change, range(8))) == 1
        assert overrides.read("policies").version == 2
