"""The fleet: its sentence, its pictures, and that every number leads to its list."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from .looks import text_of
from .server import Server


def test_it_says_how_many_tables_are_sick_and_leads_to_them(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    expect(page.locator(".lead")).to_contain_text("5 of 8 tables have an issue")
    page.get_by_role("link", name="5 of 8 tables").click()
    expect(page.get_by_role("heading", name="Tables", level=1)).to_be_focused()
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "9")


def test_a_month_of_scores_is_drawn(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    line = page.locator(".fleet-health .line")
    expect(line).to_be_attached()
    assert len(re.findall("[ML]", line.get_attribute("d") or "")) == 30
    expect(page.get_by_text(re.compile(r"Down \d+ points since"))).to_be_visible()


def test_a_bar_of_scores_leads_to_the_tables_behind_it(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    page.get_by_role("link", name="Score 40 to 49, 1 table").click()
    expect(page).to_have_url(re.compile(r"#/tables\?min_score=40&max_score=49$"))
    expect(page.locator(".rows-space .row")).to_have_count(1)
    expect(page.locator(".rows-space")).to_contain_text("page_views")


def test_an_issue_leads_to_the_tables_that_have_it(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    page.locator(".barlist").get_by_role("link", name="Fragmented manifests").click()
    expect(page).to_have_url(re.compile("issue=fragmented_manifests"))
    expect(page.locator(".rows-space .row")).to_have_count(1)


def test_what_was_saved_and_spent_stands_beside_the_estimate(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    rows = page.locator(".savings tbody tr")
    expect(rows.filter(has_text="Time of workers")).to_contain_text("3 runs")
    assert re.search(r"Freed in storage – [\d.]+ KB", text_of(page, ".savings"))


def test_numbers_of_jobs_lead_to_jobs(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    link = page.get_by_role("link", name="Failed 0")
    expect(link).to_have_attribute("href", "#/jobs?state=failed")


def test_an_empty_lake_says_what_to_do(
    lake_copy: Callable[[], tuple[Path, dict[str, Any]]], tmp_path: Path, visit: Callable[..., Page]
) -> None:
    _, settings = lake_copy()
    empty = Server(tmp_path, {**settings, "state": {"url": f"sqlite:///{tmp_path / 'empty.db'}"}})
    try:
        empty.wait()
        page = visit(empty.url)
        expect(page.get_by_role("heading", name="No table is known yet")).to_be_visible()
        expect(page.get_by_text("icepack health-sync --once")).to_be_visible()
    finally:
        empty.end()


def test_a_server_that_is_gone_is_told_with_a_remedy(
    lake_copy: Callable[[], tuple[Path, dict[str, Any]]], visit: Callable[..., Page]
) -> None:
    gone = Server(*lake_copy())
    try:
        gone.wait()
        page = visit(gone.url)
        expect(page.locator(".lead")).to_be_visible()
    finally:
        gone.end()
    page.watch.expected = ("Failed to load resource",)  # type: ignore[attr-defined]
    page.get_by_role("link", name="Tables", exact=True).click()
    alert = page.get_by_role("alert").filter(has_text="The service does not answer.")
    expect(alert).to_contain_text("icepack up")
    expect(alert.get_by_role("button", name="Try again")).to_be_visible()


def test_an_answer_that_does_not_come_can_be_asked_for_again(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/nowhere")
    page.watch.expected = ("Failed to load resource",)  # type: ignore[attr-defined]
    page.route("**/api/v1/overview", lambda route: route.abort())
    page.evaluate("() => { location.hash = '#/'; }")
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer.")
    page.unroute("**/api/v1/overview")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".lead")).to_be_visible()
