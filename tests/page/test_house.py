"""History and cost, audit, settings, and what each role is shown of the screens of work."""

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

from .conftest import Busy
from .looks import serious_findings
from .server import Server
from .told_jobs import Seeded, tell_jobs

PATIENCE_MS = 60_000


def test_costs_by_day_action_and_table(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/history")
    expect(page.locator(".lead")).to_contain_text("files fewer to open")
    expect(page.locator(".pair.is-expected").first).to_be_attached()
    page.get_by_role("button", name="Storage freed").click()
    assert "show=freed" in page.url
    expect(page.locator(".pair.is-expected")).to_have_count(0)
    page.get_by_label("Over").select_option("7")
    assert "days=7" in page.url
    page.get_by_role("link", name="Expire snapshots").click()
    expect(page.locator(".joblist li").first).to_contain_text("Expire snapshots")


def test_the_log_of_changes_is_narrowed(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/audit")
    expect(page.locator(".entries li[data-denied=true]")).to_contain_text("was not let in")
    page.get_by_label("Who").fill("key:ann")
    page.get_by_label("Who").press("Enter")
    expect(page.locator(".entries li")).to_have_count(3)
    page.get_by_label("What").select_option("api.policies.put")
    expect(page.locator(".entries li")).to_have_count(1)
    page.get_by_text("Details").click()
    expect(page.locator("pre:visible")).to_contain_text("target_file_size")
    page.get_by_label("Time").select_option("1")
    expect(page.get_by_role("heading", name="No entry fits")).to_be_visible()


def test_a_key_is_made_shown_once_and_revoked(touched: Busy, visit: Callable[..., Page]) -> None:
    page = visit(touched.url, "#/settings")
    page.watch.expected = ("422",)  # type: ignore[attr-defined]
    form, name = page.locator("form.keyform"), page.get_by_placeholder("ci", exact=True)
    page.locator(".panel-do").get_by_role("button", name="Make a key").click()
    # The form takes the focus once it is shown; what is typed before would be typed elsewhere.
    expect(name).to_be_focused()
    form.locator("button[type=submit]").click()
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(form.locator("button[type=submit]")).to_be_enabled()
    name.fill("<b>ci</b>")
    form.get_by_label("Role").select_option("operator")
    form.get_by_label("Tables, as catalog.namespace").fill("lake.shop")
    form.locator("button[type=submit]").click()
    expect(page.locator(".fresh")).to_be_focused()
    key = page.locator(".fresh code").inner_text()
    assert key.startswith("ipk_")
    page.reload()
    expect(page.locator(".keylist li").filter(has_text="<b>ci</b>")).to_be_visible()
    assert key not in page.content()
    page.get_by_role("button", name="Revoke <b>ci</b>").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke it").click()
    expect(page.get_by_text("1 that no longer work")).to_be_visible()


def test_the_checks_of_the_doctor_are_run(touched: Busy, visit: Callable[..., Page]) -> None:
    page = visit(touched.url, "#/settings")
    page.get_by_role("button", name="Look at Java, jars, catalogs and storage").click()
    expect(page.locator(".checks")).to_contain_text("Catalog", timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Look at Java, jars, catalogs and storage")).to_be_enabled(
        timeout=PATIENCE_MS
    )
    for bad in page.locator(".checks li").filter(has=page.locator("[data-ok=false]")).all():
        expect(bad).to_contain_text("What to do:")
    expect(page.locator(".pairs").filter(has_text="PyIceberg")).to_be_visible()
    assert serious_findings(page) == []


class Guarded:
    def __init__(self, server: Server, keys: dict[str, str], jobs: Seeded) -> None:
        self.url, self.keys, self.jobs = server.url, keys, jobs


@pytest.fixture(scope="module")
def guarded(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[Guarded]:
    folder, settings = lake_copy()
    jobs, stores, keys = tell_jobs(settings["state"]["url"]), open_stores(settings["state"]["url"]), {}
    for role, scope in ((Role.VIEWER, "*.*"), (Role.OPERATOR, "lake.iot"), (Role.ADMIN, "*.*")):
        made, now = new_key(), datetime.now(UTC)
        key = ApiKey(id=made.id, name=role.value, role=role, scopes=(Scope.parse(scope),), created_at=now)
        stores.keys.add(key, made.digest)
        keys[role.value] = made.text
    stores.close()
    server = Server(folder, {**settings, "auth": {"enabled": True}})
    try:
        server.wait()
        yield Guarded(server, keys, jobs)
    finally:
        server.end()


def sign_in(page: Page, key: str) -> None:
    page.watch.expected = ("401", "403")  # type: ignore[attr-defined]
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_who_may_only_look_is_offered_nothing_else(guarded: Guarded, visit: Callable[..., Page]) -> None:
    page = visit(guarded.url, "#/jobs")
    sign_in(page, guarded.keys["viewer"])
    expect(page.locator(".joblist li").first).to_be_visible()
    expect(page.locator(".job-do button:visible")).to_have_count(0)
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    page.goto(f"{guarded.url}/#/policies")
    expect(page.get_by_text("Setting policies needs the role admin")).to_be_visible()
    expect(page.get_by_role("button", name="Add a rule")).to_be_hidden()
    page.goto(f"{guarded.url}/#/schedule")
    expect(page.get_by_text("Setting schedules needs the role admin")).to_be_visible()
    page.goto(f"{guarded.url}/#/settings")
    expect(page.get_by_role("heading", name="Catalogs")).to_be_visible()
    expect(page.get_by_role("heading", name="Keys")).to_have_count(0)
    page.goto(f"{guarded.url}/#/audit")
    expect(page.get_by_role("alert").first).to_contain_text("Ask an admin for a key with that role.")


def test_a_team_cancels_its_own_jobs_and_sees_no_others(guarded: Guarded, visit: Callable[..., Page]) -> None:
    page = visit(guarded.url, "#/jobs?state=running")
    sign_in(page, guarded.keys["operator"])
    expect(page.locator(".joblist li")).to_have_count(1)
    expect(page.get_by_role("button", name="Cancel Compact of lake.iot.sensor_readings")).to_be_visible()


def test_an_admin_is_offered_everything(guarded: Guarded, visit: Callable[..., Page]) -> None:
    page = visit(guarded.url, "#/audit")
    sign_in(page, guarded.keys["admin"])
    expect(page.locator(".entries li").first).to_contain_text("signed in")
    page.goto(f"{guarded.url}/#/settings")
    expect(page.get_by_role("button", name="Make a key")).to_be_visible()
