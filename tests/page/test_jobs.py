"""Jobs: live and polled, narrowed, walked through, cancelled and tried again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, Route, expect

from icepack.domain.job import Claim, JobOutcome, JobProgress, JobState
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


def claim_of(stores: Stores, busy: Busy) -> Claim:
    """As the worker has it that runs the job."""
    job = stores.jobs.get(busy.jobs.running)
    assert job.fence is not None
    assert job.lease_ends_at is not None
    return Claim(job=job, fence=job.fence, worker=WORKER, lease=LEASE, lease_ends_at=job.lease_ends_at)


def goes_on(page: Page, busy: Busy) -> None:
    """What happens to the job shows by itself."""
    row = page.locator(".joblist li").filter(has=page.locator(f"[data-id='{busy.jobs.running}']"))
    expect(row).to_contain_text("5 of 12 groups")
    expect(row).to_contain_text("min left")
    with stores_of(busy) as stores:
        claim = claim_of(stores, busy)
        stores.jobs.progress(claim, JobProgress(partitions_completed=11, partitions_total=12, files_processed=300))
        expect(row).to_contain_text("11 of 12 groups", timeout=PATIENCE_MS)
        expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "92")
        stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED))
    expect(row).to_have_attribute("data-state", "succeeded", timeout=PATIENCE_MS)


def test_changes_arrive_as_they_happen(busy_alone: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy_alone.url, "#/jobs")
    expect(page.locator(".live")).to_have_attribute("data-state", "live")
    goes_on(page, busy_alone)


def test_without_a_stream_jobs_are_asked_for_again_and_again(busy_alone: Busy, visit: Callable[..., Page]) -> None:
    def refuse(route: Route) -> None:
        headers = {"content-security-policy": "default-src 'none'; script-src 'self'"}
        route.fulfill(status=503, headers=headers, body="")

    page = visit(busy_alone.url, "#/settings")
    page.watch.expected = ("503",)  # type: ignore[attr-defined]
    page.route("**/api/v1/jobs/stream*", refuse)
    page.get_by_role("link", name="Jobs").click()
    expect(page.locator(".live")).to_have_attribute("data-state", "polling")
    goes_on(page, busy_alone)


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


def test_keys_walk_cancel_and_open(busy_alone: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy_alone.url, "#/jobs?state=queued")
    expect(page.locator(".joblist li")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog")).to_contain_text("It has not begun, so nothing is lost.")
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".joblist li")).to_have_count(1)
    page.locator("h1").focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Compact")).to_be_focused()


def test_a_failed_one_is_tried_again(busy_alone: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy_alone.url, "#/jobs?state=failed&action=compact")
    page.get_by_role("button", name="Retry Compact of lake.web.page_views").click()
    expect(page.get_by_role("heading", name="Compact")).to_contain_text("Queued")
    assert str(busy_alone.jobs.failed) not in page.url
    page.get_by_role("link", name="The job that this one repeats").click()
    expect(page.locator(".trouble")).to_contain_text("the storage did not answer")


def test_a_running_one_is_told_to_stop(busy_alone: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy_alone.url, f"#/jobs/{busy_alone.jobs.running}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("nothing is left half done")
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".story")).to_contain_text(re.compile("Told to stop by"))
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()
