"""What holds for each screen, light and dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from .looks import overflows, serious_findings, take_picture
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
LOOKS = {
    "desktop-light": (False, False),
    "desktop-dark": (False, True),
    "phone-light": (True, False),
    "phone-dark": (True, True),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", SCREENS)
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(
    name: str, look: str, server: Server, visit: Callable[..., Page]
) -> None:
    path, complete = SCREENS[name]
    phone, dark = LOOKS[look]
    page = visit(server.url, path, phone=phone, dark=dark)
    page.locator(complete).first.wait_for()
    page.wait_for_load_state("networkidle") if name == "missing" else None
    assert serious_findings(page) == []
    assert overflows(page) <= 0
    take_picture(page, f"{name}-{look}")
