"""The keys commands."""

from __future__ import annotations

import pytest

from icepack.store.backend import Stores

from .conftest import Call


def test_a_key_is_shown_once_and_listed_without_its_secret(call: Call, stores: Stores) -> None:
    made = call("keys", "create", "ci", "--role", "operator", "--scope", "lake.sales*", "--expires", "90d")
    assert made.code == 0, made.err
    text = made.out.strip()
    assert text.startswith("ipk_")
    listed = call("keys", "list", "--format", "json")
    assert text.rpartition("_")[2] not in listed.out
    (key,) = listed.json["keys"]
    assert (key["name"], key["role"], key["scopes"], key["state"]) == ("ci", "operator", ["lake.sales*"], "valid")
    assert "ci" in call("keys", "list").out
    assert [entry.action for entry in stores.audit.entries()] == ["keys.create"]


def test_a_revoked_key_is_listed_as_revoked(call: Call, stores: Stores) -> None:
    call("keys", "create", "ci")
    assert "is revoked" in call("keys", "revoke", "ci").out
    assert call("keys", "list", "--format", "json").json["keys"][0]["state"] == "revoked"
    assert call("keys", "revoke", "ci").code == 2


def test_a_name_cannot_be_used_twice(call: Call, stores: Stores) -> None:
    assert call("keys", "create", "ci", "--format", "json").json["name"] == "ci"
    assert call("keys", "create", "ci").code == 2


@pytest.mark.parametrize("arguments", [("--scope", "."), ("--scope", "a b"), ("--expires", "soon")])
def test_an_invalid_scope_or_duration_is_a_usage_error(call: Call, stores: Stores, arguments: tuple[str, str]) -> None:
    assert call("keys", "create", "ci", *arguments).code == 2
    assert stores.keys.list_keys() == []


def test_without_keys_it_says_so(call: Call, stores: Stores) -> None:
    assert "no keys" in call("keys", "list").out
