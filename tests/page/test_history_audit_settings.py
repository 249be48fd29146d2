"""History and cost, audit log, settings, and what each role can see and do."""

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

from .conftest import BusyServer
from .sample_jobs import SampleJobs, write_sample_jobs
from .screen_checks import serious_violations
from .server import Server

TIMEOUT_MS = 60_000


def test_history_shows_costs_by_day_action_and_table(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/history")
    expect(page.locator(".lead")).to_contain_text("files removed from scans")
    expect(page.locator(".grouped-bar.is-estimate").first).to_be_attached()
    page.get_by_role("button", name="Storage freed").click()
    assert "show=freed" in page.url
    expect(page.locator(".grouped-bar.is-estimate")).to_have_count(0)
    page.get_by_label("Period").select_option("7")
    assert "days=7" in page.url
    page.get_by_role("link", name="Expire snapshots").click()
    expect(page.locator(".joblist li").first).to_contain_text("Expire snapshots")


def test_audit_log_is_filtered(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/audit")
    expect(page.locator(".entries li[data-denied=true]")).to_contain_text("was denied access")
    page.get_by_label("Actor").fill("key:ann")
    page.get_by_label("Actor").press("Enter")
    expect(page.locator(".entries li")).to_have_count(3)
    page.get_by_label("Action").select_option("api.policies.put")
    expect(page.locator(".entries li")).to_have_count(1)
    page.get_by_text("Details").click()
    expect(page.locator("pre:visible")).to_contain_text("target_file_size")
    page.get_by_label("Period").select_option("1")
    expect(page.get_by_role("heading", name="No matching entries")).to_be_visible()


def test_key_is_created_shown_once_and_revoked(writable: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(writable.url, "#/settings")
    page.monitor.expected = ("422",)  # type: ignore[attr-defined]
    form, name = page.locator("form.keyform"), page.get_by_placeholder("ci", exact=True)
    page.locator(".panel-actions").get_by_role("button", name="Create key").click()
    # The form takes the focus once it is shown; text typed before that would go elsewhere.
    expect(name).to_be_focused()
    form.locator("button[type=submit]").click()
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(form.locator("button[type=submit]")).to_be_enabled()
    name.fill("<b>ci</b>")
    form.get_by_label("Role").select_option("operator")
    form.get_by_label("Scopes (catalog.namespace)").fill("lake.shop")
    form.locator("button[type=submit]").click()
    expect(page.locator(".created-key")).to_be_focused()
    key = page.locator(".created-key code").inner_text()
    assert key.startswith("ipk_")
    page.reload()
    expect(page.locator(".keylist li").filter(has_text="<b>ci</b>")).to_be_visible()
    assert key not in page.content()
    page.get_by_role("button", name="Revoke <b>ci</b>").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke key").click()
    expect(page.get_by_text("Expired or revoked keys (1)")).to_be_visible()


def test_doctor_checks_run(writable: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(writable.url, "#/settings")
    page.get_by_role("button", name="Check Java, JARs, catalogs and storage").click()
    expect(page.locator(".checks")).to_contain_text("Catalog", timeout=TIMEOUT_MS)
    expect(page.get_by_role("button", name="Check Java, JARs, catalogs and storage")).to_be_enabled(timeout=TIMEOUT_MS)
    for bad in page.locator(".checks li").filter(has=page.locator("[data-ok=false]")).all():
        expect(bad).to_contain_text("What to do:")
    expect(page.locator(".key-values").filter(has_text="PyIceberg")).to_be_visible()
    assert serious_violations(page) == []


class AuthenticatedServer:
    def __init__(self, server: Server, keys: dict[str, str], jobs: SampleJobs) -> None:
        self.url, self.keys, self.jobs = server.url, keys, jobs


@pytest.fixture(scope="module")
def secured(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[AuthenticatedServer]:
    folder, settings = lake_copy()
    jobs, stores, keys = write_sample_jobs(settings["state"]["url"]), open_stores(settings["state"]["url"]), {}
    for role, scope in ((Role.VIEWER, "*.*"), (Role.OPERATOR, "lake.iot"), (Role.ADMIN, "*.*")):
        made, now = generate_key(), datetime.now(UTC)
        key = ApiKey(id=made.id, name=role.value, role=role, scopes=(Scope.parse(scope),), created_at=now)
        stores.keys.add(key, made.digest)
        keys[role.value] = made.text
    stores.close()
    server = Server(folder, {**settings, "auth": {"enabled": True}})
    try:
        server.wait()
        yield AuthenticatedServer(server, keys, jobs)
    finally:
        server.stop()


def sign_in(page: Page, key: str) -> None:
    page.monitor.expected = ("401", "403")  # type: ignore[attr-defined]
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_viewer_sees_no_controls(secured: AuthenticatedServer, visit: Callable[..., Page]) -> None:
    page = visit(secured.url, "#/jobs")
    sign_in(page, secured.keys["viewer"])
    expect(page.locator(".joblist li").first).to_be_visible()
    expect(page.locator(".job-actions button:visible")).to_have_count(0)
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    page.goto(f"{secured.url}/#/policies")
    expect(page.get_by_text("Editing policies requires the admin role")).to_be_visible()
    expect(page.get_by_role("button", name="Add rule")).to_be_hidden()
    page.goto(f"{secured.url}/#/schedule")
    expect(page.get_by_text("Editing schedules requires the admin role")).to_be_visible()
    page.goto(f"{secured.url}/#/settings")
    expect(page.get_by_role("heading", name="Catalogs")).to_be_visible()
    expect(page.get_by_role("heading", name="API keys")).to_have_count(0)
    page.goto(f"{secured.url}/#/audit")
    expect(page.get_by_role("alert").first).to_contain_text("Ask an admin for a key with the required role.")


def test_scoped_operator_sees_and_cancels_only_own_jobs(
    secured: AuthenticatedServer, visit: Callable[..., Page]
) -> None:
    page = visit(secured.url, "#/jobs?state=running")
    sign_in(page, secured.keys["operator"])
    expect(page.locator(".joblist li")).to_have_count(1)
    expect(page.get_by_role("button", name="Cancel Compact on lake.iot.sensor_readings")).to_be_visible()


def test_admin_sees_everything(secured: AuthenticatedServer, visit: Callable[..., Page]) -> None:
    page = visit(secured.url, "#/audit")
    sign_in(page, secured.keys["admin"])
    expect(page.locator(".entries li").first).to_contain_text("signed in")
    page.goto(f"{secured.url}/#/settings")
    expect(page.get_by_role("button", name="Create key")).to_be_visible()
