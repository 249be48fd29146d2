"""Schedule and policies: what runs next, and changes that are seen before they are made."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.request import Request, urlopen

from playwright.sync_api import Page, expect

from .conftest import Busy


def put(busy: Busy, path: str, document: dict[str, object]) -> None:
    request = Request(f"{busy.url}/api/v1/{path}", json.dumps(document).encode(), method="PUT")
    request.add_header("Content-Type", "application/json")
    with urlopen(request) as answer:
        assert answer.status == 200


def add_setting(page: Page, name: str, value: str) -> None:
    page.get_by_role("button", name="+ Setting").click()
    line = page.locator(".setting").last
    line.locator("select").first.select_option(name)
    # What is not meant for this setting is hidden, a moment later: the one that fits is waited for.
    if value in ("true", "false"):
        line.locator("select").last.select_option(value)
    else:
        line.locator("input").fill(value)


def test_the_week_ahead_by_the_hour(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/schedule")
    expect(page.locator(".lead")).to_contain_text("within the next seven days")
    hours = page.locator(".hour")
    expect(hours.first).to_have_attribute("tabindex", "0")
    hours.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert "hour=" in page.url
    picked = page.locator(".hour[aria-selected=true]")
    said = picked.get_attribute("aria-label") or ""
    expect(page.locator("#s-next")).to_have_text(said.rsplit(",", 1)[0])
    runs = int(said.rsplit(",", 1)[1].split()[0].replace("Nothing", "0"))
    expect(page.locator(".upcoming li")).to_have_count(runs)
    expect(page.locator(".windows")).to_contain_text("Monday to Friday, 22:00 to 06:00")
    expect(page.locator(".budgets")).to_contain_text("of $2.50")


def test_runs_of_some_tables_only(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/schedule?table=shop.*")
    expect(page.locator(".upcoming li").first).to_contain_text("lake.shop.")
    expect(page.locator(".upcoming li").filter(has_text="lake.web")).to_have_count(0)


def test_a_schedule_is_checked_previewed_and_saved(touched: Busy, visit: Callable[..., Page]) -> None:
    page = visit(touched.url, "#/schedule")
    page.watch.expected = ("422",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Add a schedule").click()
    page.get_by_label("Tables", exact=True).fill("shop.*")
    line = page.get_by_label("When, as a cron line")
    line.fill("0 99 * * *")
    page.get_by_role("button", name="What would change?").click()
    expect(line).to_have_attribute("aria-invalid", "true")
    expect(line).to_be_focused()
    expect(page.get_by_text("Should be a cron line such as 0 */6 * * *.")).to_be_visible()

    line.fill("0 3 * * 1")
    page.get_by_role("button", name="What would change?").click()
    preview = page.locator(".preview")
    expect(preview).to_contain_text("3 tables would have another schedule")
    expect(preview.locator("li").first).to_contain_text("every 6 hours → Mondays at 03:00")
    expect(preview.locator(".next-runs li").first).to_contain_text("lake.shop.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".rules").first).to_contain_text("Mondays at 03:00")


def test_a_policy_is_checked_previewed_and_saved(touched: Busy, visit: Callable[..., Page]) -> None:
    put(touched, "policies", {"overrides": []})
    page = visit(touched.url, "#/policies")
    page.watch.expected = ("422",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Add a rule").click()
    page.get_by_label("Tables", exact=True).fill("web.*")
    add_setting(page, "enabled", "false")
    add_setting(page, "target_file_size", "12XB")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    page.get_by_role("button", name="What would change?").click()
    size = page.get_by_label("Value of target_file_size")
    expect(size).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("Should be a size such as 32MB or 1GB.")).to_be_visible()

    size.fill("64MB")
    page.get_by_role("button", name="What would change?").click()
    preview = page.locator(".preview")
    expect(preview).to_contain_text(
        "1 table would have another policy. For 1 of them something else would be recommended."
    )
    expect(preview.locator("li").first).to_contain_text("Enabled yes → no")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".rules").first).to_contain_text("web.*")
    expect(page.locator(".rules").first).to_contain_text("64MB")
    page.reload()
    expect(page.locator(".rules").first).to_contain_text("64MB")
    page.goto(f"{touched.url}/#/audit?action=api.policies.put")
    expect(page.locator(".entries li").first).to_contain_text("set policies")


def test_a_change_by_somebody_else_is_noticed(touched: Busy, visit: Callable[..., Page]) -> None:
    put(touched, "policies", {"overrides": []})
    page = visit(touched.url, "#/policies")
    page.watch.expected = ("409",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Add a rule").click()
    page.get_by_label("Tables", exact=True).fill("web.*")
    add_setting(page, "enabled", "false")
    page.get_by_role("button", name="What would change?").click()
    expect(page.locator(".preview")).to_be_visible()
    put(touched, "policies", {"overrides": [{"match": "crm.*", "settings": {"enabled": False}}]})
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast[data-kind=bad]")).to_contain_text("Reload, look at what was changed")
