"""The fleet overview: its summary, its charts, and that every number links to its list."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from .screen_checks import text_of
from .server import Server


def test_summary_counts_unhealthy_tables_and_links_to_them(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    expect(page.locator(".lead")).to_contain_text("5 of 8 tables have issues")
    page.get_by_role("link", name="5 of 8 tables").click()
    expect(page.get_by_role("heading", name="Tables", level=1)).to_be_focused()
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "9")


def test_trend_chart_shows_a_month_of_scores(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    line = page.locator(".fleet-health .line")
    expect(line).to_be_attached()
    assert len(re.findall("[ML]", line.get_attribute("d") or "")) == 30
    expect(page.get_by_text(re.compile(r"Down \d+ points since"))).to_be_visible()


def test_score_bar_links_to_its_tables(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    page.get_by_role("link", name="Score 40 to 49, 1 table").click()
    expect(page).to_have_url(re.compile(r"#/tables\?min_score=40&max_score=49$"))
    expect(page.locator(".rows-space .row")).to_have_count(1)
    expect(page.locator(".rows-space")).to_contain_text("page_views")


def test_issue_links_to_its_tables(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    page.locator(".barlist").get_by_role("link", name="Fragmented manifests").click()
    expect(page).to_have_url(re.compile("issue=fragmented_manifests"))
    expect(page.locator(".rows-space .row")).to_have_count(1)


def test_savings_show_estimated_and_actual_values(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    rows = page.locator(".savings tbody tr")
    expect(rows.filter(has_text="Worker time")).to_contain_text("3 runs")
    assert re.search(r"Storage freed – [\d.]+ KB", text_of(page, ".savings"))


def test_job_counts_link_to_jobs(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    link = page.get_by_role("link", name="Failed 0")
    expect(link).to_have_attribute("href", "#/jobs?state=failed")


def test_empty_lake_shows_what_to_do(
    lake_copy: Callable[[], tuple[Path, dict[str, Any]]], tmp_path: Path, visit: Callable[..., Page]
) -> None:
    _, settings = lake_copy()
    empty = Server(tmp_path, {**settings, "state": {"url": f"sqlite:///{tmp_path / 'empty.db'}"}})
    try:
        empty.wait()
        page = visit(empty.url)
        expect(page.get_by_role("heading", name="No tables yet")).to_be_visible()
        expect(page.get_by_text("icepack health-sync --once")).to_be_visible()
    finally:
        empty.stop()


def test_unreachable_server_is_reported_with_a_remedy(
    lake_copy: Callable[[], tuple[Path, dict[str, Any]]], visit: Callable[..., Page]
) -> None:
    gone = Server(*lake_copy())
    try:
        gone.wait()
        page = visit(gone.url)
        expect(page.locator(".lead")).to_be_visible()
    finally:
        gone.stop()
    page.monitor.expected = ("Failed to load resource",)  # type: ignore[attr-defined]
    page.get_by_role("link", name="Tables", exact=True).click()
    alert = page.get_by_role("alert").filter(has_text="The service does not respond.")
    expect(alert).to_contain_text("icepack up")
    expect(alert.get_by_role("button", name="Try again")).to_be_visible()


def test_failed_request_can_be_retried(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/nowhere")
    page.monitor.expected = ("Failed to load resource",)  # type: ignore[attr-defined]
    page.route("**/api/v1/overview", lambda route: route.abort())
    page.evaluate("() => { location.hash = '#/'; }")
    expect(page.get_by_role("alert")).to_contain_text("The service does not respond.")
    page.unroute("**/api/v1/overview")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".lead")).to_be_visible()
