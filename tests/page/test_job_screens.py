"""Checks the screens that need jobs, light and dark, on a desktop and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from .conftest import BusyServer
from .screen_checks import check_screen

SCREENS = {
    "jobs": ("#/jobs", ".joblist .bar"),
    "job-running": ("#/jobs/{running}", ".tile"),
    "job-failed": ("#/jobs/{failed}", ".phase.is-failed"),
    "job-succeeded": ("#/jobs/{succeeded}", ".file-square"),
    "schedule": ("#/schedule", ".upcoming li"),
    "policies": ("#/policies", "#p-base"),
    "history": ("#/history", ".grouped-bar"),
    "audit": ("#/audit", ".entries li"),
    "settings": ("#/settings", ".checks li"),
}


@pytest.mark.parametrize("name", SCREENS)
def test_no_serious_axe_violations_and_no_overflow(name: str, busy: BusyServer, visit: Callable[..., Page]) -> None:
    path, complete = SCREENS[name]
    page = visit(busy.url, path.format(**vars(busy.jobs)))
    page.locator(complete).first.wait_for()
    check_screen(page, name)
