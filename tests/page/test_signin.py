"""Signing in, and what each role is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from icepack.api.auth.api_keys import new_key
from icepack.domain.access import ApiKey, Role, Scope
from icepack.store.backend import open_stores

from .looks import serious_findings, take_picture
from .server import Server

KEYS = {"viewer": (Role.VIEWER, "*.*"), "shop": (Role.OPERATOR, "lake.shop"), "admin": (Role.ADMIN, "*.*")}


class Guarded:
    def __init__(self, server: Server, keys: dict[str, str]) -> None:
        self.url, self.keys = server.url, keys


@pytest.fixture(scope="module")
def guarded(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[Guarded]:
    folder, settings = lake_copy()
    stores = open_stores(settings["state"]["url"])
    keys = {}
    for name, (role, scope) in KEYS.items():
        made = new_key()
        facts = {"role": role, "scopes": (Scope.parse(scope),), "created_at": datetime.now(UTC)}
        stores.keys.add(ApiKey(id=made.id, name=name, **facts), made.digest)
        keys[name] = made.text
    stores.close()
    server = Server(folder, {**settings, "auth": {"enabled": True}})
    try:
        server.wait()
        yield Guarded(server, keys)
    finally:
        server.end()


def sign_in(page: Page, key: str) -> None:
    page.watch.expected = ("401",)  # type: ignore[attr-defined]
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_a_key_opens_the_page_where_the_link_led(guarded: Guarded, visit: Callable[..., Page]) -> None:
    page = visit(guarded.url, "#/tables/lake.shop.orders")
    expect(page.get_by_role("heading", name="Sign in to icepack")).to_be_visible()
    page.watch.expected = ("401",)  # type: ignore[attr-defined]
    assert serious_findings(page) == []
    take_picture(page, "signin-desktop-light")
    sign_in(page, guarded.keys["viewer"])
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    assert page.evaluate("() => document.cookie") == "", "a script can read the session"


def test_a_wrong_key_is_told(guarded: Guarded, visit: Callable[..., Page]) -> None:
    page = visit(guarded.url)
    sign_in(page, "ipk_0000000000000000_nothing")
    expect(page.get_by_role("alert")).to_contain_text("not known")


def test_who_may_only_look_is_offered_nothing_to_run(guarded: Guarded, visit: Callable[..., Page]) -> None:
    page = visit(guarded.url, "#/tables/lake.shop.orders")
    sign_in(page, guarded.keys["viewer"])
    expect(page.get_by_text("that needs the role operator")).to_be_visible()
    expect(page.get_by_role("button", name="Run now …")).to_be_hidden()


def test_a_team_sees_its_own_tables_and_may_run_on_them(guarded: Guarded, visit: Callable[..., Page]) -> None:
    page = visit(guarded.url, "#/tables")
    sign_in(page, guarded.keys["shop"])
    expect(page.locator(".rows-space .row")).to_have_count(3)
    page.get_by_role("link", name="lake.shop.orders").click()
    expect(page.get_by_role("button", name="Run now …")).to_be_visible()


def test_signing_out_ends_the_session(guarded: Guarded, visit: Callable[..., Page]) -> None:
    page = visit(guarded.url)
    sign_in(page, guarded.keys["admin"])
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to icepack")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in to icepack")).to_be_visible()
