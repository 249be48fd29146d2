"""Schedule and policies: upcoming runs, and changes that are previewed before they are saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.request import Request, urlopen

from playwright.sync_api import Page, expect

from .conftest import BusyServer


def put(busy: BusyServer, path: str, document: dict[str, object]) -> None:
    request = Request(f"{busy.url}/api/v1/{path}", json.dumps(document).encode(), method="PUT")
    request.add_header("Content-Type", "application/json")
    with urlopen(request) as answer:
        assert answer.status == 200


def add_setting(page: Page, name: str, value: str) -> None:
    page.get_by_role("button", name="+ Setting").click()
    line = page.locator(".setting").last
    line.locator("select").first.select_option(name)
    # The input that does not fit this setting is hidden a moment later, so the right one is waited for.
    if value in ("true", "false"):
        line.locator("select").last.select_option(value)
    else:
        line.locator("input").fill(value)


def test_calendar_shows_runs_by_hour(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/schedule")
    expect(page.locator(".lead")).to_contain_text("in the next seven days")
    hours = page.locator(".hour")
    expect(hours.first).to_have_attribute("tabindex", "0")
    hours.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert "hour=" in page.url
    selected = page.locator(".hour[aria-selected=true]")
    label = selected.get_attribute("aria-label") or ""
    expect(page.locator("#s-upcoming")).to_have_text(label.rsplit(",", 1)[0])
    runs = int(label.rsplit(",", 1)[1].split()[0].replace("No", "0"))
    expect(page.locator(".upcoming li")).to_have_count(runs)
    expect(page.locator(".windows")).to_contain_text("Monday to Friday, 22:00 to 06:00")
    expect(page.locator(".budgets")).to_contain_text("of $2.50")


def test_upcoming_runs_are_filtered_by_table(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/schedule?table=shop.*")
    expect(page.locator(".upcoming li").first).to_contain_text("lake.shop.")
    expect(page.locator(".upcoming li").filter(has_text="lake.web")).to_have_count(0)


def test_schedule_is_validated_previewed_and_saved(writable: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(writable.url, "#/schedule")
    page.monitor.expected = ("422",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Add schedule").click()
    page.get_by_label("Tables", exact=True).fill("shop.*")
    line = page.get_by_label("Schedule (cron expression)")
    line.fill("0 99 * * *")
    page.get_by_role("button", name="Preview changes").click()
    expect(line).to_have_attribute("aria-invalid", "true")
    expect(line).to_be_focused()
    expect(page.get_by_text("Should be a cron expression such as 0 */6 * * *.")).to_be_visible()

    line.fill("0 3 * * 1")
    page.get_by_role("button", name="Preview changes").click()
    preview = page.locator(".preview")
    expect(preview).to_contain_text("The schedule of 3 tables would change")
    expect(preview.locator("li").first).to_contain_text("every 6 hours → Mondays at 03:00")
    expect(preview.locator(".next-runs li").first).to_contain_text("lake.shop.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".rules").first).to_contain_text("Mondays at 03:00")


def test_policy_is_validated_previewed_and_saved(writable: BusyServer, visit: Callable[..., Page]) -> None:
    put(writable, "policies", {"overrides": []})
    page = visit(writable.url, "#/policies")
    page.monitor.expected = ("422",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Add rule").click()
    page.get_by_label("Tables", exact=True).fill("web.*")
    add_setting(page, "enabled", "false")
    add_setting(page, "target_file_size", "12XB")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    page.get_by_role("button", name="Preview changes").click()
    size = page.get_by_label("Value of target_file_size")
    expect(size).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("Should be a size such as 32MB or 1GB.")).to_be_visible()

    size.fill("64MB")
    page.get_by_role("button", name="Preview changes").click()
    preview = page.locator(".preview")
    expect(preview).to_contain_text("The policy of 1 table would change. Recommendations would change for 1 of them.")
    expect(preview.locator("li").first).to_contain_text("Enabled yes → no")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".rules").first).to_contain_text("web.*")
    expect(page.locator(".rules").first).to_contain_text("64MB")
    page.reload()
    expect(page.locator(".rules").first).to_contain_text("64MB")
    page.goto(f"{writable.url}/#/audit?action=api.policies.put")
    expect(page.locator(".entries li").first).to_contain_text("changed policies")


def test_concurrent_change_is_reported(writable: BusyServer, visit: Callable[..., Page]) -> None:
    put(writable, "policies", {"overrides": []})
    page = visit(writable.url, "#/policies")
    page.monitor.expected = ("409",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Add rule").click()
    page.get_by_label("Tables", exact=True).fill("web.*")
    add_setting(page, "enabled", "false")
    page.get_by_role("button", name="Preview changes").click()
    expect(page.locator(".preview")).to_be_visible()
    put(writable, "policies", {"overrides": [{"match": "crm.*", "settings": {"enabled": False}}]})
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast[data-kind=bad]")).to_contain_text("review the other change")
