"""The screens of work, light and dark, on a desk and on a phone: axe, nothing cut off, a picture of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from .conftest import Busy
from .looks import check_looks

SCREENS = {
    "jobs": ("#/jobs", ".joblist .bar"),
    "job-running": ("#/jobs/{running}", ".tile"),
    "job-failed": ("#/jobs/{failed}", ".phase.is-failed"),
    "job-succeeded": ("#/jobs/{succeeded}", ".piece"),
    "schedule": ("#/schedule", ".upcoming li"),
    "policies": ("#/policies", "#p-base"),
    "history": ("#/history", ".pair"),
    "audit": ("#/audit", ".entries li"),
    "settings": ("#/settings", ".checks li"),
}


@pytest.mark.parametrize("name", SCREENS)
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(name: str, busy: Busy, visit: Callable[..., Page]) -> None:
    path, complete = SCREENS[name]
    page = visit(busy.url, path.format(**vars(busy.jobs)))
    page.locator(complete).first.wait_for()
    check_looks(page, name)
