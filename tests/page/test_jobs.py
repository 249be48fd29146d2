"""The jobs screen: live updates, polling, filters, keyboard navigation, cancel and retry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, Route, expect

from icepack.domain.actions import RewriteManifests
from icepack.domain.job import Claim, JobOutcome, JobProgress, JobRequest, JobState
from icepack.domain.table import TableId
from icepack.store.backend import Stores, open_stores

from .conftest import BusyServer
from .sample_jobs import LEASE, WORKER

TIMEOUT_MS = 20_000


@contextmanager
def stores_of(busy: BusyServer) -> Iterator[Stores]:
    stores = open_stores(busy.state)
    try:
        yield stores
    finally:
        stores.close()


def start_job(stores: Stores, name: str) -> Claim:
    """Submits and claims a job that the test itself runs."""
    job = stores.jobs.submit(JobRequest(table=TableId.parse(name), action=RewriteManifests())).job
    while (claim := stores.jobs.claim(WORKER, LEASE)) is not None and claim.job_id != job.id:
        continue
    assert claim is not None
    return claim


def check_updates(page: Page, busy: BusyServer, name: str) -> None:
    """Checks that the page shows the progress of a job without a reload."""
    row = page.locator(".joblist li").filter(has_text=name).filter(has_text="Rewrite manifests")
    with stores_of(busy) as stores:
        claim = start_job(stores, name)
        expect(row).to_contain_text("Started; no progress yet", timeout=TIMEOUT_MS)
        stores.jobs.progress(claim, JobProgress(partitions_completed=11, partitions_total=12, files_processed=300))
        expect(row).to_contain_text("11 of 12 file groups", timeout=TIMEOUT_MS)
        expect(row).to_contain_text("a few seconds left")
        expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "92")
        stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED))
    expect(row).to_have_attribute("data-state", "succeeded", timeout=TIMEOUT_MS)


def test_changes_arrive_by_event_stream(writable: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(writable.url, "#/jobs")
    expect(page.locator(".live")).to_have_attribute("data-state", "live")
    check_updates(page, writable, "lake.shop.products")


def test_jobs_are_polled_without_event_stream(writable: BusyServer, visit: Callable[..., Page]) -> None:
    def refuse(route: Route) -> None:
        headers = {"content-security-policy": "default-src 'none'; script-src 'self'"}
        route.fulfill(status=503, headers=headers, body="")

    page = visit(writable.url, "#/settings")
    page.monitor.expected = ("503",)  # type: ignore[attr-defined]
    page.route("**/api/v1/jobs/stream*", refuse)
    page.get_by_role("link", name="Jobs").click()
    expect(page.locator(".live")).to_have_attribute("data-state", "polling")
    check_updates(page, writable, "lake.shop.shipments")


def test_filters_are_kept_in_url(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/jobs")
    rows = page.locator(".joblist li")
    page.get_by_role("button", name="Failed 2").click()
    expect(rows).to_have_count(2)
    assert "state=failed" in page.url
    page.get_by_label("Action").select_option("compact")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("the storage did not answer")
    page.get_by_label("Period").select_option("1h")
    expect(page.get_by_role("heading", name="No matching jobs")).to_be_visible()

    again = visit(busy.url, f"#/jobs?{page.url.split('?')[1]}")
    expect(again.get_by_role("heading", name="No matching jobs")).to_be_visible()
    again.get_by_role("button", name="Show all jobs").click()
    expect(again.locator(".joblist li")).to_have_count(30)
    again.get_by_role("button", name="Show older jobs").click()
    expect(again.locator(".joblist li")).not_to_have_count(30)
    again.get_by_label("Table").fill("page_views")
    again.get_by_label("Table").press("Enter")
    expect(again.locator(".joblist li").first).to_contain_text("lake.web.page_views")
    expect(again.locator(".joblist li").filter(has_text="sensor")).to_have_count(0)


def test_unknown_table_is_reported(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/jobs?table=nowhere")
    page.monitor.expected = ("404",)  # type: ignore[attr-defined]
    expect(page.get_by_role("alert")).to_contain_text("No table matches 'nowhere'")
    page.get_by_role("button", name="Show all jobs").click()
    expect(page.locator(".joblist li").first).to_be_visible()


def test_keyboard_navigates_cancels_and_opens(writable: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(writable.url, "#/jobs?state=queued&table=lake.app.sessions")
    expect(page.locator(".joblist li")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog")).to_contain_text("The job has not started, so nothing is lost.")
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    expect(page.get_by_role("heading", name="No matching jobs")).to_be_visible()
    page.get_by_role("button", name="Show all jobs").click()
    expect(page.locator(".joblist li").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".job-head h1")).to_be_visible()


def test_failed_job_is_retried(writable: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(writable.url, "#/jobs?state=failed&action=compact")
    page.get_by_role("button", name="Retry Compact on lake.web.page_views").click()
    expect(page.get_by_role("heading", name="Compact")).to_contain_text("Queued")
    assert str(writable.jobs.failed) not in page.url
    page.get_by_role("link", name="View the original job").click()
    expect(page.locator(".alert")).to_contain_text("the storage did not answer")


def test_running_job_is_cancelled(writable: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(writable.url, f"#/jobs/{writable.jobs.running}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("nothing is left half done")
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    expect(page.locator(".events")).to_contain_text(re.compile("Cancellation requested by"))
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()
