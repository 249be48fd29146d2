"""The job screen: progress, partition selection, errors and results."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from .conftest import BusyServer
from .sample_jobs import MARKUP


def test_running_job_shows_progress_and_partition_selection(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.running}")
    expect(page.get_by_role("heading", name="42 % done")).to_be_visible()
    expect(page.locator(".job-head .lead")).to_contain_text("Phase: execution, about")
    expect(page.locator(".phase[data-phase=planning]")).to_have_count(1)
    expect(page.locator(".phase[data-phase=execution].is-open")).to_have_count(1)
    expect(page.locator(".active-partitions .chip")).to_have_count(2)
    first = page.locator(".active-partitions .chip").first.inner_text()
    selected = page.locator(".partition-selection > div").first
    expect(selected.locator("li").first).to_contain_text(first)
    expect(selected.locator("li").first).to_contain_text("in progress")
    expect(selected).to_contain_text("40 of 40 files become 1.")
    expect(page.locator(".partition-selection > div").last).to_contain_text("fewer than the minimum of")


def test_failed_job_shows_phase_cause_and_remedy(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.failed}")
    alert = page.locator(".alert")
    expect(alert.get_by_role("heading")).to_contain_text("the storage did not answer within 30 s.")
    expect(alert).to_contain_text("Failed during execution, on the last of 3 attempts.")
    expect(alert).to_contain_text("Nothing was committed, so the table is unchanged.")
    expect(alert).to_contain_text("Retry:")
    expect(page.locator(".phase.is-failed")).to_have_count(3)
    expect(page.locator(".events li")).to_have_count(7)
    expect(page.locator(".events")).to_contain_text("Failed after 3 attempts")


def test_succeeded_job_shows_changes_and_proof(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.succeeded}")
    expect(page.locator(".job-head .lead")).to_contain_text("the score went from 51 to 94")
    expect(page.locator(".changes tr").filter(has_text="Score")).to_contain_text("51")
    expect(page.locator(".compare")).to_contain_text("Files removed")
    expect(page.locator(".proof")).to_contain_text("Proof: 2,400,000 rows before and after")
    expect(page.locator(".value-proof")).to_have_text("12 groups, rows counted in all, values compared in 2.")
    expect(page.locator(".mismatch")).to_have_count(0)
    expect(page.locator(".phase[data-phase=commit]")).to_have_count(1)
    time = page.locator(".events time").first
    assert "UTC" in (time.get_attribute("title") or "")


def test_value_mismatch_is_shown(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.mismatched}")
    alert = page.locator(".mismatch")
    expect(alert.get_by_role("heading")).to_have_text("The native rewrite changed values")
    expect(alert).to_contain_text("nothing of it was committed")
    row = alert.locator("tbody tr")
    expect(row).to_have_count(1)
    for text in (MARKUP, "hash 1", "-17", "42"):
        expect(row).to_contain_text(text)
    assert page.locator("#outlet img").count() == 0


def test_table_shows_that_native_rewrite_is_disabled(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/tables/lake.shop.orders")
    notice = page.locator(".native-disabled")
    expect(notice).to_contain_text("The native rewrite is disabled for this table")
    expect(notice).to_contain_text("icepack native enable lake.shop.orders")
    expect(notice).to_contain_text("icepack verify lake.shop.orders --repeat")
    expect(notice.get_by_role("link", name="View the job that found the mismatch")).to_be_visible()
    expect(page.locator(".runs li").first).to_contain_text("1 group, rows counted in all, values compared in 1")
    assert page.locator("#outlet img").count() == 0


def test_lists_mark_tables_with_native_rewrite_disabled(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/")
    expect(page.get_by_text("The native rewrite is disabled for 1 table.")).to_be_visible()
    page.get_by_role("link", name="Show tables").click()
    rows = page.locator(".rows .row:not(.rows-head)")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("Native disabled")
    expect(page.locator(".head")).to_contain_text("1 table with the native rewrite disabled")


def test_table_with_native_rewrite_enabled_has_no_notice(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/tables/lake.web.page_views")
    expect(page.locator("#t-issues")).to_be_visible()
    expect(page.locator(".native-disabled")).to_have_count(0)


def test_markup_in_names_and_messages_is_escaped(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.odd}")
    expect(page.locator(".alert h2")).to_contain_text(MARKUP)
    expect(page.locator(".job-head h1")).to_contain_text(MARKUP)
    for path, place in {"jobs": ".joblist", "audit": ".entries", "history": "[aria-labelledby=h-tables]"}.items():
        page.goto(f"{busy.url}/#/{path}")
        expect(page.locator(place).first).to_contain_text(MARKUP)
        assert page.locator("#outlet img").count() == 0


def test_unknown_job_is_reported(busy: BusyServer, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/jobs/550e8400-e29b-41d4-a716-446655440000")
    page.monitor.expected = ("404",)  # type: ignore[attr-defined]
    expect(page.get_by_role("alert")).to_contain_text("not found")
    expect(page.get_by_role("link", name="All jobs")).to_be_visible()
