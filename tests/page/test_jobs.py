"""Jobs: live and polled, narrowed, walked through, cancelled and tried again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, Route, expect

from icepack.domain.actions import RewriteManifests
from icepack.domain.job import Claim, JobOutcome, JobProgress, JobRequest, JobState
from icepack.domain.table import TableId
from icepack.store.backend import Stores, open_stores

from .conftest import Busy
from .told_jobs import LEASE, WORKER

PATIENCE_MS = 20_000


@contextmanager
def stores_of(busy: Busy) -> Iterator[Stores]:
    stores = open_stores(busy.state)
    try:
        yield stores
    finally:
        stores.close()


def begin(stores: Stores, name: str) -> Claim:
    """A job that this test runs itself."""
    job = stores.jobs.submit(JobRequest(table=TableId.parse(name), action=RewriteManifests())).job
    while (claim := stores.jobs.claim(WORKER, LEASE)) is not None and claim.job_id != job.id:
        continue
    assert claim is not None
    return claim


def goes_on(page: Page, busy: Busy, name: str) -> None:
    """What happens to a job shows by itself."""
    row = page.locator(".joblist li").filter(has_text=name).filter(has_text="Rewrite manifests")
    with stores_of(busy) as stores:
        claim = begin(stores, name)
        expect(row).to_contain_text("Has begun", timeout=PATIENCE_MS)
        stores.jobs.progress(claim, JobProgress(partitions_completed=11, partitions_total=12, files_processed=300))
        expect(row).to_contain_text("11 of 12 groups", timeout=PATIENCE_MS)
        expect(row).to_contain_text("done in a few seconds")
        expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "92")
        stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED))
    expect(row).to_have_attribute("data-state", "succeeded", timeout=PATIENCE_MS)


def test_changes_arrive_as_they_happen(touched: Busy, visit: Callable[..., Page]) -> None:
    page = visit(touched.url, "#/jobs")
    expect(page.locator(".live")).to_have_attribute("data-state", "live")
    goes_on(page, touched, "lake.shop.products")


def test_without_a_stream_jobs_are_asked_for_again_and_again(touched: Busy, visit: Callable[..., Page]) -> None:
    def refuse(route: Route) -> None:
        headers = {"content-security-policy": "default-src 'none'; script-src 'self'"}
        route.fulfill(status=503, headers=headers, body="")

    page = visit(touched.url, "#/settings")
    page.watch.expected = ("503",)  # type: ignore[attr-defined]
    page.route("**/api/v1/jobs/stream*", refuse)
    page.get_by_role("link", name="Jobs").click()
    expect(page.locator(".live")).to_have_attribute("data-state", "polling")
    goes_on(page, touched, "lake.shop.shipments")


def test_filters_narrow_and_are_in_the_address(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/jobs")
    rows = page.locator(".joblist li")
    page.get_by_role("button", name="Failed 2").click()
    expect(rows).to_have_count(2)
    assert "state=failed" in page.url
    page.get_by_label("Action").select_option("compact")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("the storage did not answer")
    page.get_by_label("Time").select_option("1h")
    expect(page.get_by_role("heading", name="No job fits")).to_be_visible()

    again = visit(busy.url, f"#/jobs?{page.url.split('?')[1]}")
    expect(again.get_by_role("heading", name="No job fits")).to_be_visible()
    again.get_by_role("button", name="Show all jobs").click()
    expect(again.locator(".joblist li")).to_have_count(30)
    again.get_by_role("button", name="Show older jobs").click()
    expect(again.locator(".joblist li")).not_to_have_count(30)
    again.get_by_label("Table").fill("page_views")
    again.get_by_label("Table").press("Enter")
    expect(again.locator(".joblist li").first).to_contain_text("lake.web.page_views")
    expect(again.locator(".joblist li").filter(has_text="sensor")).to_have_count(0)


def test_a_table_that_is_not_there_is_told(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/jobs?table=nowhere")
    page.watch.expected = ("404",)  # type: ignore[attr-defined]
    expect(page.get_by_role("alert")).to_contain_text("No table matches 'nowhere'")
    page.get_by_role("button", name="Show all jobs").click()
    expect(page.locator(".joblist li").first).to_be_visible()


def test_keys_walk_cancel_and_open(touched: Busy, visit: Callable[..., Page]) -> None:
    page = visit(touched.url, "#/jobs?state=queued&table=lake.app.sessions")
    expect(page.locator(".joblist li")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog")).to_contain_text("It has not begun, so nothing is lost.")
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_role("heading", name="No job fits")).to_be_visible()
    page.get_by_role("button", name="Show all jobs").click()
    expect(page.locator(".joblist li").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".job-head h1")).to_be_visible()


def test_a_failed_one_is_tried_again(touched: Busy, visit: Callable[..., Page]) -> None:
    page = visit(touched.url, "#/jobs?state=failed&action=compact")
    page.get_by_role("button", name="Retry Compact of lake.web.page_views").click()
    expect(page.get_by_role("heading", name="Compact")).to_contain_text("Queued")
    assert str(touched.jobs.failed) not in page.url
    page.get_by_role("link", name="The job that this one repeats").click()
    expect(page.locator(".trouble")).to_contain_text("the storage did not answer")


def test_a_running_one_is_told_to_stop(touched: Busy, visit: Callable[..., Page]) -> None:
    page = visit(touched.url, f"#/jobs/{touched.jobs.running}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("nothing is left half done")
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".story")).to_contain_text(re.compile("Told to stop by"))
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()
