"""One job: what it does to which partitions and why, what went wrong, what came of it."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from .conftest import Busy
from .told_jobs import MARKUP


def test_a_running_one_says_what_it_does_and_why(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.running}")
    expect(page.get_by_role("heading", name="42 % done")).to_be_visible()
    expect(page.locator(".job-head .lead")).to_contain_text("In its execution, about")
    expect(page.locator(".phase[data-phase=planning]")).to_have_count(1)
    expect(page.locator(".phase[data-phase=execution].is-open")).to_have_count(1)
    expect(page.locator(".now-names .chip")).to_have_count(2)
    first = page.locator(".now-names .chip").first.inner_text()
    taken = page.locator(".choice > div").first
    expect(taken.locator("li").first).to_contain_text(first)
    expect(taken.locator("li").first).to_contain_text("now")
    expect(taken).to_contain_text("40 of its 40 files become 1.")
    expect(page.locator(".choice > div").last).to_contain_text("are left to grow")


def test_a_failed_one_says_where_why_and_what_to_do(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.failed}")
    trouble = page.locator(".trouble")
    expect(trouble.get_by_role("heading")).to_contain_text("the storage did not answer within 30 s.")
    expect(trouble).to_contain_text("It went wrong in its execution, in the last of 3 attempts.")
    expect(trouble).to_contain_text("Nothing was committed, so the table is as it was.")
    expect(trouble).to_contain_text("try it again")
    expect(page.locator(".phase.is-failed")).to_have_count(3)
    expect(page.locator(".story li")).to_have_count(7)
    expect(page.locator(".story")).to_contain_text("Failed for good, after 3 attempts")


def test_one_that_went_well_says_what_it_changed(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.succeeded}")
    expect(page.locator(".job-head .lead")).to_contain_text("the score went from 51 to 94")
    expect(page.locator(".changes tr").filter(has_text="Score")).to_contain_text("51")
    expect(page.locator(".compare")).to_contain_text("Fewer files")
    expect(page.locator(".proof")).to_contain_text("Proven: 2,400,000 rows before and after")
    expect(page.locator(".value-proof")).to_have_text("12 groups, rows counted in all, values compared in 2.")
    expect(page.locator(".mismatch")).to_have_count(0)
    expect(page.locator(".phase[data-phase=commit]")).to_have_count(1)
    time = page.locator(".story time").first
    assert "UTC" in (time.get_attribute("title") or "")


def test_one_whose_values_differed_says_what_differed(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.mismatched}")
    trouble = page.locator(".mismatch")
    expect(trouble.get_by_role("heading")).to_have_text("The native rewrite changed values")
    expect(trouble).to_contain_text("nothing of it was committed")
    row = trouble.locator("tbody tr")
    expect(row).to_have_count(1)
    for text in (MARKUP, "hash 1", "-17", "42"):
        expect(row).to_contain_text(text)
    assert page.locator("#outlet img").count() == 0


def test_a_table_whose_native_rewrite_is_off_says_so(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/tables/lake.shop.orders")
    notice = page.locator(".native-off")
    expect(notice).to_contain_text("The native rewrite is off for this table")
    expect(notice).to_contain_text("icepack native enable lake.shop.orders")
    expect(notice).to_contain_text("icepack verify lake.shop.orders --repeat")
    expect(notice.get_by_role("link", name="The job that found it")).to_be_visible()
    expect(page.locator(".runs li").first).to_contain_text("1 group, rows counted in all, values compared in 1")
    assert page.locator("#outlet img").count() == 0


def test_lists_mark_a_table_whose_native_rewrite_is_off(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/")
    expect(page.get_by_text("The native rewrite is off for 1 table.")).to_be_visible()
    page.get_by_role("link", name="See which").click()
    rows = page.locator(".rows .row:not(.rows-head)")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("Native off")
    expect(page.locator(".head")).to_contain_text("1 table with the native rewrite off")


def test_a_table_whose_native_rewrite_is_on_has_no_notice(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/tables/lake.web.page_views")
    expect(page.locator("#t-why")).to_be_visible()
    expect(page.locator(".native-off")).to_have_count(0)


def test_markup_in_names_and_messages_is_text(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, f"#/jobs/{busy.jobs.odd}")
    expect(page.locator(".trouble h2")).to_contain_text(MARKUP)
    expect(page.locator(".job-head h1")).to_contain_text(MARKUP)
    for path, place in {"jobs": ".joblist", "audit": ".entries", "history": "[aria-labelledby=h-tables]"}.items():
        page.goto(f"{busy.url}/#/{path}")
        expect(page.locator(place).first).to_contain_text(MARKUP)
        assert page.locator("#outlet img").count() == 0


def test_one_that_is_not_there_is_told(busy: Busy, visit: Callable[..., Page]) -> None:
    page = visit(busy.url, "#/jobs/550e8400-e29b-41d4-a716-446655440000")
    page.watch.expected = ("404",)  # type: ignore[attr-defined]
    expect(page.get_by_role("alert")).to_contain_text("There is no job")
    expect(page.get_by_role("link", name="All jobs")).to_be_visible()
