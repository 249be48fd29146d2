"""One table: its score in plain words, its pictures, and what is asked for with Run now."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from icepack.client import Client

from .looks import text_of
from .server import Server


def test_the_score_is_explained_point_by_point(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    reasons = page.locator(".reasons li")
    expect(reasons).to_have_count(3)
    expect(reasons.first).to_contain_text("294 of them could go")
    lost = [float(text.replace("−", "")) for text in page.locator(".lost").all_inner_texts()]
    score = int(text_of(page, ".table-head .huge span"))
    assert abs(100 - sum(lost) - score) <= 1


def test_the_recommendation_says_gain_cost_duration_and_conflicts(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    advice = page.locator(".advice li").first
    for name in ("Points won back", "Files gone", "Takes about", "Costs about", "Conflict chance"):
        expect(advice.locator("dt").filter(has_text=name)).to_be_visible()
    page.get_by_text(re.compile(r"Why not the other \d")).click()
    expect(page.locator(".skipped dt").first).to_be_visible()


def test_files_stand_against_the_target(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    chart = page.get_by_role("group", name="Files by size; the target is 512 MB")
    expect(chart.locator(".target text")).to_have_text("target 512 MB")
    expect(chart.get_by_role("img", name="< 1 MB, 300 files")).to_be_attached()


def test_sick_partitions_stand_out_and_say_why(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.iot.sensor_readings")
    cells = page.get_by_role("option")
    expect(cells).to_have_count(31)
    expect(page.locator('.cell[data-band="good"]')).to_have_count(28)
    page.locator('.cell:not([data-band="good"])').first.click()
    expect(page.locator(".picked")).to_contain_text("The next compaction takes it")
    page.locator('.cell[data-band="good"]').first.click()
    expect(page.locator(".picked")).to_contain_text("The next compaction leaves it")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator('.cell[aria-selected="true"]')).to_have_count(1)


def test_snapshots_lie_on_a_line_of_time_with_branch_and_tag(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.crm.customers")
    expect(page.locator(".chart .snapshot")).to_have_count(151)
    expect(page.locator(".chart .lane")).to_have_text([re.compile("main"), re.compile("audit")])
    expect(page.locator(".chart .flag")).to_contain_text("quarter_close")


def test_commits_of_icepack_are_marked_and_have_a_before_and_after(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.finance.payments")
    expect(page.locator(".snapshot.ours")).to_have_count(1)
    run = page.locator(".runs li").filter(has_text="Rewrite manifests")
    expect(run).to_contain_text(re.compile(r"manifests \d+ → 1"))
    expect(run).to_contain_text("proven that no row changed")
    expect(run.get_by_role("img", name=re.compile(r"Before: \d+ manifests. After: 1 manifests."))).to_be_visible()


def test_the_plan_says_what_would_become_of_each_partition(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    plan = page.get_by_role("region", name="The plan, partition by partition")
    expect(plan.get_by_role("row")).to_have_count(7)
    expect(plan.get_by_role("row").nth(1)).to_contain_text("country=BR")


def test_deletes_and_manifests_are_counted(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.shop.orders")
    expect(page.get_by_role("row").filter(has_text="By position")).to_contain_text("837")
    expect(page.get_by_text(re.compile(r"\d+ manifests list \d+ files"))).to_be_visible()


def test_run_now_asks_with_its_options_and_once_only(
    lake_copy: Callable[[], tuple[Path, dict[str, Any]]], visit: Callable[..., Page]
) -> None:
    server = Server(*lake_copy())
    try:
        server.wait()
        page = visit(server.url, "#/tables/lake.web.page_views")
        page.get_by_role("button", name="Run compact now").click()
        dialog = page.get_by_role("dialog", name="Run on page_views")
        dialog.get_by_label("Target size").fill("64MB")
        dialog.get_by_label("Only partitions where").fill("country = 'DE'")
        dialog.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_text("1 job queued for lake.web.page_views.")).to_be_visible()
        expect(page.locator(".working").first).to_contain_text("Compact is waiting for a worker")
        with Client(server.url) as client:
            (job,) = client.jobs().jobs
        assert job.action.target_file_bytes == 64 * 2**20
        assert job.action.partition_filter == "country = 'DE'"
    finally:
        server.end()


@pytest.mark.parametrize("stream", [True, False], ids=["by the stream", "by polling"])
def test_what_others_ask_for_shows_by_itself(
    stream: bool, lake_copy: Callable[[], tuple[Path, dict[str, Any]]], visit: Callable[..., Page]
) -> None:
    server = Server(*lake_copy())
    try:
        server.wait()
        page = visit(server.url, "#/nowhere")
        if not stream:
            page.watch.expected = ("Failed to load resource",)  # type: ignore[attr-defined]
            page.route("**/api/v1/jobs/stream*", lambda route: route.abort())
        page.evaluate("() => { location.hash = '#/tables/lake.web.page_views'; }")
        expect(page.locator(".live")).to_have_text("Live" if stream else "Every few seconds", timeout=20_000)
        expect(page.locator(".runs + .note")).to_be_visible()
        with Client(server.url) as client:
            job = client.act("lake.web.page_views", "compact")
            expect(page.locator(".working").first).to_contain_text("waiting for a worker", timeout=20_000)
            client.cancel(job.job_id)
        expect(page.locator(".working").first).to_be_hidden(timeout=20_000)
        expect(page.get_by_text("Compact: cancelled.")).to_be_visible()
    finally:
        server.end()


def test_a_refusal_is_told_where_it_was_asked_for(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.web.page_views")
    page.watch.expected = ("422",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Run compact now").click()
    dialog = page.get_by_role("dialog", name="Run on page_views")
    dialog.get_by_label("At most, in dollars").fill("0.000001")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Raise the limit")


def test_a_table_that_is_not_there_says_so(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables/lake.shop.nothing")
    page.watch.expected = ("404",)  # type: ignore[attr-defined]
    expect(page.get_by_role("alert")).to_contain_text("No table matches")
    expect(page.get_by_role("link", name="All tables")).to_be_visible()
