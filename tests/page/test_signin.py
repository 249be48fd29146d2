"""Signing in, and what each role can see and do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from icepack.api.auth.api_keys import generate_key
from icepack.domain.access import ApiKey, Role, Scope
from icepack.store.backend import open_stores

from .screen_checks import serious_violations, take_screenshot
from .server import Server

KEYS = {"viewer": (Role.VIEWER, "*.*"), "shop": (Role.OPERATOR, "lake.shop"), "admin": (Role.ADMIN, "*.*")}


class AuthenticatedServer:
    def __init__(self, server: Server, keys: dict[str, str]) -> None:
        self.url, self.keys = server.url, keys


@pytest.fixture(scope="module")
def secured(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[AuthenticatedServer]:
    folder, settings = lake_copy()
    stores = open_stores(settings["state"]["url"])
    keys = {}
    for name, (role, scope) in KEYS.items():
        made = generate_key()
        facts = {"role": role, "scopes": (Scope.parse(scope),), "created_at": datetime.now(UTC)}
        stores.keys.add(ApiKey(id=made.id, name=name, **facts), made.digest)
        keys[name] = made.text
    stores.close()
    server = Server(folder, {**settings, "auth": {"enabled": True}})
    try:
        server.wait()
        yield AuthenticatedServer(server, keys)
    finally:
        server.stop()


def sign_in(page: Page, key: str) -> None:
    page.monitor.expected = ("401",)  # type: ignore[attr-defined]
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_sign_in_opens_the_linked_screen(secured: AuthenticatedServer, visit: Callable[..., Page]) -> None:
    page = visit(secured.url, "#/tables/lake.shop.orders")
    expect(page.get_by_role("heading", name="Sign in to icepack")).to_be_visible()
    page.monitor.expected = ("401",)  # type: ignore[attr-defined]
    assert serious_violations(page) == []
    take_screenshot(page, "signin-desktop-light")
    sign_in(page, secured.keys["viewer"])
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    assert page.evaluate("() => document.cookie") == "", "a script can read the session"


def test_wrong_key_is_reported(secured: AuthenticatedServer, visit: Callable[..., Page]) -> None:
    page = visit(secured.url)
    sign_in(page, "ipk_0000000000000000_nothing")
    expect(page.get_by_role("alert")).to_contain_text("This key is unknown, expired or revoked.")


def test_viewer_cannot_run_actions(secured: AuthenticatedServer, visit: Callable[..., Page]) -> None:
    page = visit(secured.url, "#/tables/lake.shop.orders")
    sign_in(page, secured.keys["viewer"])
    expect(page.get_by_text("requires the operator role")).to_be_visible()
    expect(page.get_by_role("button", name="Run now …")).to_be_hidden()


def test_scoped_operator_sees_and_runs_on_own_tables(secured: AuthenticatedServer, visit: Callable[..., Page]) -> None:
    page = visit(secured.url, "#/tables")
    sign_in(page, secured.keys["shop"])
    expect(page.locator(".rows-space .row")).to_have_count(3)
    page.get_by_role("link", name="lake.shop.orders").click()
    expect(page.get_by_role("button", name="Run now …")).to_be_visible()


def test_sign_out_ends_the_session(secured: AuthenticatedServer, visit: Callable[..., Page]) -> None:
    page = visit(secured.url)
    sign_in(page, secured.keys["admin"])
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to icepack")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in to icepack")).to_be_visible()
