"""The tables screen: search, filters, sorting, keyboard navigation and long lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .sample_tables import many, seed
from .screen_checks import PHONE
from .server import Server

MANY = 10_000


def names(page: Page) -> list[str]:
    rows = page.locator(".rows-space .row:not(.is-empty)")
    found: list[tuple[int, str]] = rows.evaluate_all(
        "rows => rows.map(row => [+row.getAttribute('aria-rowindex'), row.querySelector('.c-name').textContent])"
    )
    return [name for _, name in sorted(found)]


def test_lowest_scores_come_first(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables")
    expect(page.locator(".rows-space .row")).to_have_count(8)
    assert names(page)[0] == "lake.web.page_views"
    assert names(page)[-1].startswith("lake.shop.")


def test_search_filters_and_is_kept_in_url(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables")
    expect(page.locator(".rows-space .row")).to_have_count(8)
    page.keyboard.press("/")
    expect(page.get_by_placeholder("Part of the table name")).to_be_focused()
    page.keyboard.type("SHOP")
    expect(page.locator(".rows-space .row")).to_have_count(3)
    expect(page).to_have_url(re.compile("search=SHOP"))
    page.reload()
    expect(page.locator(".rows-space .row")).to_have_count(3)
    expect(page.get_by_placeholder("Part of the table name")).to_have_value("SHOP")


def test_filters_combine(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables")
    page.get_by_role("combobox", name="Issue").select_option("delete_pressure")
    expect(page.locator(".rows-space .row")).to_have_count(2)
    page.get_by_role("combobox", name="Namespace").select_option("shop")
    expect(page.locator(".rows-space .row")).to_have_count(1)
    page.get_by_role("combobox", name="Score").select_option("0-49")
    expect(page.get_by_role("heading", name="No matching tables")).to_be_visible()
    page.get_by_role("button", name="Show all tables").click()
    expect(page.locator(".rows-space .row")).to_have_count(8)


def test_column_header_sorts_and_reverses(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url, "#/tables")
    page.get_by_role("button", name=re.compile("^Files")).click()
    expect(page.get_by_role("columnheader", name=re.compile("^Files"))).to_have_attribute("aria-sort", "descending")
    expect(page.locator("#row-0")).to_contain_text("page_views")
    page.get_by_role("button", name=re.compile("^Files")).click()
    expect(page.get_by_role("columnheader", name=re.compile("^Files"))).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("#row-0")).to_contain_text("crm.customers")


def test_keyboard_navigation(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    expect(page.locator(".lead")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator(".rows-space .row")).to_have_count(8)
    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("grid")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.get_by_role("grid")).to_have_attribute("aria-activedescendant", "row-1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="sensor_readings")).to_be_focused()


def test_help_lists_the_shortcuts(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server.url)
    expect(page.locator(".lead")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Go to Tables")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()


@pytest.fixture(scope="module")
def large(
    lake_copy: Callable[[], tuple[Path, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("large")
    url = f"sqlite:///{folder / 'state.db'}"
    seed(url, many(MANY))
    serving = Server(folder, {**lake_copy()[1], "state": {"url": url}})
    try:
        serving.wait()
        yield serving
    finally:
        serving.stop()


def test_only_visible_rows_of_ten_thousand_exist(large: Server, visit: Callable[..., Page]) -> None:
    page = visit(large.url, "#/tables?sort=name")
    grid = page.get_by_role("grid")
    expect(grid).to_have_attribute("aria-rowcount", str(MANY + 1))
    expect(page.locator("#row-0:not(.is-empty)")).to_be_visible()
    assert page.locator(".rows-space .row").count() < 60


def test_last_of_ten_thousand_rows_is_reachable(large: Server, visit: Callable[..., Page]) -> None:
    page = visit(large.url, "#/tables?sort=name")
    expect(page.locator("#row-0:not(.is-empty)")).to_be_visible()
    page.get_by_role("grid").focus()
    page.keyboard.press("End")
    last = page.locator(f"#row-{MANY - 1}:not(.is-empty)")
    expect(last).to_contain_text("team9.t9959", timeout=30_000)
    assert page.locator(".rows-space .row").count() < 60


def test_rows_do_not_overlap_after_resize_to_phone(server: Server, visit: Callable[..., Page]) -> None:
    """Rows are higher on a phone, so rows that were already drawn have to move."""
    page = visit(server.url, "#/tables")
    expect(page.locator("#row-1:not(.is-empty)")).to_be_visible()
    narrow = page.locator("#row-0").bounding_box()
    page.set_viewport_size(PHONE)
    page.wait_for_function(
        """low => {
          const box = number => document.querySelector(`#row-${number}`)?.getBoundingClientRect();
          const [first, second] = [box(0), box(1)];
          return first && second && first.height > low && Math.abs(second.top - first.bottom) < 1;
        }""",
        arg=narrow["height"] if narrow else 0,
    )
