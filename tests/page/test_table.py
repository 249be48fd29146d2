"""The table screen: score, issues, charts and the Run now dialog."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from icepack.client import Client

from .screen_checks import text_of
from .server import Server


def test_issues_explain_the_score(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    reasons = page.locator(".issues li")
    expect(reasons).to_have_count(3)
    expect(reasons.first).to_contain_text("compaction can remove 294 of them")
    lost = [float(text.replace("−", "")) for text in page.locator(".points-lost").all_inner_texts()]
    score = int(text_of(page, ".table-head .score-large span"))
    assert abs(100 - sum(lost) - score) <= 1


def test_recommendation_shows_gain_cost_duration_and_conflicts(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    action = page.locator(".recommendations li").first
    for name in ("Score gain", "Files removed", "Duration", "Cost", "Conflict risk"):
        expect(action.locator("dt").filter(has_text=name)).to_be_visible()
    page.get_by_text(re.compile(r"Actions not recommended \(\d\)")).click()
    expect(page.locator(".skipped dt").first).to_be_visible()


def test_file_histogram_shows_the_target(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    chart = page.get_by_role("group", name="Files by size; the target is 512 MB")
    expect(chart.locator(".target text")).to_have_text("target 512 MB")
    expect(chart.get_by_role("img", name="< 1 MB, 300 files")).to_be_attached()


def test_urgent_partitions_stand_out_with_a_reason(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.iot.sensor_readings")
    cells = page.get_by_role("option")
    expect(cells).to_have_count(31)
    expect(page.locator('.cell[data-band="good"]')).to_have_count(28)
    page.locator('.cell:not([data-band="good"])').first.click()
    expect(page.locator(".selected-partition")).to_contain_text("Included in the next compaction")
    page.locator('.cell[data-band="good"]').first.click()
    expect(page.locator(".selected-partition")).to_contain_text("Not included in the next compaction")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator('.cell[aria-selected="true"]')).to_have_count(1)


def test_snapshot_timeline_shows_branch_and_tag(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.crm.customers")
    expect(page.locator(".chart .snapshot")).to_have_count(151)
    expect(page.locator(".chart .lane")).to_have_text([re.compile("main"), re.compile("audit")])
    expect(page.locator(".chart .flag")).to_contain_text("quarter_close")


def test_commits_by_icepack_are_marked_with_before_and_after(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.finance.payments")
    expect(page.locator(".snapshot.by-icepack")).to_have_count(1)
    run = page.locator(".runs li").filter(has_text="Rewrite manifests")
    expect(run).to_contain_text(re.compile(r"manifests \d+ → 1"))
    expect(run).to_contain_text("proof: no row changed")
    expect(run.get_by_role("img", name=re.compile(r"Before: \d+ manifests. After: 1 manifests."))).to_be_visible()


def test_compaction_plan_lists_partitions(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    plan = page.get_by_role("region", name="Compaction plan by partition")
    expect(plan.get_by_role("row")).to_have_count(7)
    expect(plan.get_by_role("row").nth(1)).to_contain_text("country=BR")


def test_delete_files_and_manifests_are_counted(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.shop.orders")
    expect(page.get_by_role("row").filter(has_text="Position deletes")).to_contain_text("837")
    expect(page.get_by_text(re.compile(r"\d+ manifests list \d+ files"))).to_be_visible()


def test_run_now_submits_one_job_with_its_options(
    lake_copy: Callable[[], tuple[Path, dict[str, Any]]], visit: Callable[..., Page]
) -> None:
    server = Server(*lake_copy())
    try:
        server.wait()
        page = visit(server.url, "#/tables/lake.web.page_views")
        page.get_by_role("button", name="Run compact now").click()
        dialog = page.get_by_role("dialog", name="Run on page_views")
        dialog.get_by_label("Target file size").fill("64MB")
        dialog.get_by_label("Partition filter").fill("country = 'DE'")
        dialog.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_text("1 job queued for lake.web.page_views.")).to_be_visible()
        expect(page.locator(".active-job").first).to_contain_text("Compact is waiting for a worker")
        with Client(server.url) as client:
            (job,) = client.jobs().jobs
        assert job.action.target_file_bytes == 64 * 2**20
        assert job.action.partition_filter == "country = 'DE'"
    finally:
        server.stop()


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "polling"])
def test_jobs_of_others_appear_without_reload(
    stream: bool, lake_copy: Callable[[], tuple[Path, dict[str, Any]]], visit: Callable[..., Page]
) -> None:
    server = Server(*lake_copy())
    try:
        server.wait()
        page = visit(server.url, "#/nowhere")
        if not stream:
            page.monitor.expected = ("Failed to load resource",)  # type: ignore[attr-defined]
            page.route("**/api/v1/jobs/stream*", lambda route: route.abort())
        page.evaluate("() => { location.hash = '#/tables/lake.web.page_views'; }")
        expect(page.locator(".live")).to_have_text("Live" if stream else "Polling", timeout=20_000)
        expect(page.locator(".runs + .note")).to_be_visible()
        with Client(server.url) as client:
            job = client.act("lake.web.page_views", "compact")
            expect(page.locator(".active-job").first).to_contain_text("waiting for a worker", timeout=20_000)
            client.cancel(job.job_id)
        expect(page.locator(".active-job").first).to_be_hidden(timeout=20_000)
        expect(page.get_by_text("Compact: cancelled.")).to_be_visible()
    finally:
        server.stop()


def test_refusal_is_shown_in_the_dialog(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    page.monitor.expected = ("422",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Run compact now").click()
    dialog = page.get_by_role("dialog", name="Run on page_views")
    dialog.get_by_label("Maximum cost (USD)").fill("0.000001")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Raise the limit")


def test_unknown_table_is_reported(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.shop.nothing")
    page.monitor.expected = ("404",)  # type: ignore[attr-defined]
    expect(page.get_by_role("alert")).to_contain_text("No table matches")
    expect(page.get_by_role("link", name="All tables")).to_be_visible()
