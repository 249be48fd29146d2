"""Checks every screen, light and dark, on a desktop and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from .screen_checks import check_screen
from .server import Server

# For each screen its path, and an element that exists once the screen is complete.
SCREENS = {
    "fleet": ("#/", ".unhealthy .score"),
    "tables": ("#/tables", ".rows-space .row"),
    "table": ("#/tables/lake.web.page_views", ".chart .snapshot"),
    "table-maintained": ("#/tables/lake.finance.payments", ".runs .file-square"),
    "table-history": ("#/tables/lake.crm.customers", ".chart .flag"),
    "missing": ("#/nowhere", ".state"),
}


@pytest.mark.parametrize("name", SCREENS)
def test_no_serious_axe_violations_and_no_overflow(name: str, server: Server, visit: Callable[..., Page]) -> None:
    path, complete = SCREENS[name]
    page = visit(server.url, path)
    page.locator(complete).first.wait_for()
    check_screen(page, name)
