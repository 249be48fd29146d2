"""What holds for each screen, light and dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from .conftest import DESKTOP, PHONE
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


@pytest.mark.parametrize("name", SCREENS)
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(
    name: str, server: Server, visit: Callable[..., Page]
) -> None:
    path, complete = SCREENS[name]
    page = visit(server.url, path)
    page.locator(complete).first.wait_for()
    for look, size in (("desktop", DESKTOP), ("phone", PHONE)):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            take_picture(page, f"{name}-{look}-{scheme}")
            assert overflows(page) <= 0
        # Dark on the phone and light on the desk: every colour and every layout is looked at once.
        page.emulate_media(color_scheme="light" if look == "desktop" else "dark")
        assert serious_findings(page) == []
