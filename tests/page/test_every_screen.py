"""What holds for each screen, light and dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from .looks import check_looks
from .server import Server

SCREENS = {
    "fleet": ("#/", ".sickest .score"),
    "tables": ("#/tables", ".rows-space .row"),
    "table": ("#/tables/lake.web.page_views", ".chart .snapshot"),
    "table-healed": ("#/tables/lake.finance.payments", ".runs .piece"),
    "table-history": ("#/tables/lake.crm.customers", ".chart .flag"),
    "missing": ("#/nowhere", ".state"),
}
"""Where it is, and what is there once it is complete."""


@pytest.mark.parametrize("name", SCREENS)
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(
    name: str, server: Server, visit: Callable[..., Page]
) -> None:
    path, complete = SCREENS[name]
    page = visit(server.url, path)
    page.locator(complete).first.wait_for()
    check_looks(page, name)
